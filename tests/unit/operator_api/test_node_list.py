"""How a node is seen by another: its state, its lag, and for how long it has been silent."""

import pytest

from duenotice.clock import MICROS
from duenotice.engine.members import Member
from duenotice.engine.membership import Seen, Standing, Terms
from duenotice.operator_api.node_list import lag_of, silence_of, state_of
from duenotice.wire.operator import NODE_STATES
from tests.support.node import Node

NOW = 100 * MICROS
TERMS = Terms(6 * MICROS)
ME = Member("me", "a", "http://a", "1.0", 9, 40)
OTHER = Member("other", "b", "http://b", "1.0", 9, 40)


def standing(silent: float = 0.1, hidden: int = 40, leader: str = "me") -> Standing:
    """I have beaten a second ago, and folded 45 of 47 records; the other was last seen so long ago."""
    others = {"other": Seen(9, NOW - round(silent * MICROS), hidden)}
    right = NOW - MICROS + TERMS.right
    return Standing("me", TERMS, right_until=right, known=47, folded=45, leader=leader, others=others)


@pytest.mark.parametrize(
    ("member", "silence", "leader", "state"),
    [
        (OTHER, 0.1, "other", "leads"),
        (OTHER, 0.1, "me", "follows"),
        (OTHER, 2.1, "other", "silent"),
        (OTHER._replace(replaced=True), 0.1, "me", "replaced"),
        (OTHER, None, "me", "down"),
        (OTHER._replace(beat=0), None, "me", "starting"),
    ],
)
def test_the_state_of_a_node(member: Member, silence: float | None, leader: str, state: str) -> None:
    told = None if silence is None else round(silence * MICROS)
    assert state_of(standing(leader=leader), member, told) == state
    assert state in NODE_STATES


def test_the_silence_of_a_node() -> None:
    """Of another since its beat has changed here; of my own since before I sent it (N05)."""
    assert silence_of(standing(silent=2.5), OTHER, NOW) == 2.5 * MICROS
    assert silence_of(standing(), ME, NOW) == MICROS
    assert silence_of(standing(), OTHER._replace(life="new"), NOW) == 0


@pytest.mark.parametrize(
    ("member", "hidden", "leader", "lag"),
    [(OTHER, 40, "me", 7), (OTHER, 47, "me", 0), (OTHER, 40, "other", 0), (ME, 40, "other", 2), (ME, 40, "me", 0)],
)
def test_the_lag_of_a_node_is_what_it_has_not_taken_in(member: Member, hidden: int, leader: str, lag: int) -> None:
    assert lag_of(standing(hidden=hidden, leader=leader), member) == lag


def test_a_service_on_its_own_is_one_node_that_leads() -> None:
    """With no lease: nobody else could lead."""
    with Node(node="only") as node, node.client() as client:
        seen = client.nodes()
    assert (seen.node, seen.leader, seen.epoch, seen.lease) == ("only", "only", 0, None)
    assert [(each.name, each.state, each.lag, each.lease_left) for each in seen.items] == [("only", "leads", 0, None)]
