"""The little clients: how each is wrong or right, the rules that it breaks, and what it is led through."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from duenotice.testkit.judging import Plan, run, run_by_proxy
from duenotice.testkit.suite import TRIALS, Trial, chosen
from duenotice.testkit.verdicts.evidence import Evidence, Tempo
from duenotice.testkit.verdicts.rules import RULES
from duenotice.testkit.verdicts.verdict import Verdict

CLIENT = Path(__file__).parent / "clients" / "client.py"
QUICK = Tempo(
    patience=4.0, notice=2.0, linger=0.4, late=1.3, slow=1.0, unaware=0.9, most_a_second=10
)  # the client polls five times a second and waits one second for an answer
DIE = ("errors", "empty-answer", "cut-answer", "late-answer", "empty-not-before")
WRONG: dict[str, set[str]] = {
    **{rule.id: {rule.id} for rule in RULES if rule.id not in ("asks", "tour")},
    **{rule: {rule, "alive"} for rule in DIE},
    "pace": {"pace", "tour"},
    "hangs": {"pace", "comes-back", "tour"},
    "three-times": {"once", "started"},
    "neighbour-left": {"neighbour"},
    "preview": {"version"},
    "in-2016": {"version"},
    "newer": {"version", "tour"},
    "neighbours-freeze": {"neighbour"},
    "neighbours-redeploy": {"neighbour"},
    "neighbours-terminate": {"neighbour"},
    "leader-freeze": {"leader"},
    "hostname-header": {"header"},
    "skypilot": {"neighbour"},
    "vmss-script": {"neighbour", "once", "started", "work"},
    "openshift": {"neighbour", "empty-answer", "cut-answer", "alive"},
}
"""How a client is wrong, and the rules that it breaks: one that dies is not alive either."""

IN_EVERY_RULE = ("right", "conditional", "waits", "leaves", "only-of-its-user", "hostname")
"""Those that keep every rule, and with whom every rule is tried."""

RIGHT = (
    *IN_EVERY_RULE,
    *("leaves-by-sigterm", "leaves-with-1", "only-freeze", "only-terminate", "probes"),
    *("never-approves", "hostname-elsewhere"),
)
FROM_LIFE = ("skypilot", "vmss-script", "openshift")
"""Written anew from what real clients do."""

SANDBOXED = ("hostname", "hostname-header")
"""Those that know themselves by their hostname: they need a machine of that name."""


def trials_about(how: str) -> Sequence[Trial]:
    """A short tour: an event of its own, and what the rule is about that a wrong client breaks."""
    about = [trial.name for trial in TRIALS if WRONG.get(how, set()) & trial.tries]
    return chosen(("own-events", *about))


def judged(
    folder: Path, how: str, trials: Sequence[Trial], on_evidence: Callable[[Evidence], object] = lambda _: None
) -> Verdict:
    """The verdict on a little client, in real time; in `folder` it and the runner write to each other."""
    folder.mkdir()
    ready, done = folder / "ready", folder / "done"
    ready.touch()
    program = ["env", f"TEST_PEERS_READY={ready}", f"TEST_WORK_DONE={done}", sys.executable, str(CLIENT), how]
    plan = Plan(tempo=QUICK, trials=trials, peers_ready=ready, work_done=done, on_evidence=on_evidence)
    if how in SANDBOXED:
        return run(program, plan, False, lambda word: None)
    return run_by_proxy(program, plan, lambda word: None)
