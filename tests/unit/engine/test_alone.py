"""An engine alone leads, may answer, and has nobody to hand over to."""

from duenotice.store.memory import MemoryJournal
from tests.unit.engine.rig import engine_on, in_loop


@in_loop
async def test_a_node_alone_always_leads_and_answers() -> None:
    """Also after it was asked to hand over: there is nobody else."""
    alone = engine_on(MemoryJournal())
    alone.hand_over()
    assert (alone.leads, alone.may_answer(), alone.keep_time()) == (True, True, 0)
