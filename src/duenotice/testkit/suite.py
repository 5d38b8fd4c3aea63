"""The tour: the trials that a client goes through, one by one. The rules judge the result."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from duenotice.clock import monotonic
from duenotice.domain.event import EventType
from duenotice.errors import NotFound
from duenotice.testkit.fixture import RaisedEvent
from duenotice.testkit.runner import KINDS, REMOVALS, Runner
from duenotice.testkit.verdicts.evidence import FaultWindow, Kind
from duenotice.toml import near_miss
from duenotice.wire.api_versions import TYPE_NAMES

FLEET = """
[site]
location = "testkit"
resource_group = "testkit"

[[hosts]]
name = "host-1"

[[hosts]]
name = "host-2"

[[hosts]]
name = "host-3"

[[availability_sets]]
name = "web"
update_domains = 2
vms = [
  {{ name = "{vm}", address = "192.0.2.1", update_domain = 0, host = "host-1" }},
  {{ name = "{peer}", address = "192.0.2.2", update_domain = 0 }},
  {{ name = "{neighbour}", address = "192.0.2.3", update_domain = 1, host = "host-2" }},
]
"""
"""The client's VM has a peer in its update domain, which is hit with it, and a neighbour in another; addresses are
those of documentation, so that every client is the default VM. Each has a host that can fail; VMs move to the third."""


class Trial(NamedTuple):
    """One trial: its name, what it is about, what is done, and the rules that it tries."""

    name: str
    about: str
    lead: Callable[[Runner], None]
    tries: frozenset[str]


def first_answer(runner: Runner) -> None:
    """F01: the service is told how late to be before it starts."""
    runner.first_request()
    begun, since = monotonic(), 0
    runner.notes.windows.append(FaultWindow("late", 0.0, begun + runner.tempo.late))
    runner.asked(lambda one: one.is_poll and one.status in (200, 304), since)


def own_events(runner: Runner) -> None:
    """One event of its own of each kind, and one more of a kind that it approves."""
    for kind in KINDS:
        _handle_one(runner, "comes-back", kind)
    if runner.is_approver:
        _handle_one(runner, "comes-back")


def neighbour(runner: Runner) -> None:
    """Events that it is told of and not hit by."""
    _pass_by(runner, *runner.raise_all(runner.neighbour))


def leader(runner: Runner) -> None:
    """Events that another VM leads."""
    _pass_by(runner, *runner.raise_all(runner.peer, runner.vm))


def peers(runner: Runner) -> None:
    """An event that it leads; the other VM is ready only after a while."""
    event = runner.raise_one(hits=(runner.vm, runner.peer))
    runner.shown(event, "Scheduled")
    runner.linger()
    runner.peers_are_ready(event)
    runner.handled("peers", event)
    runner.over(event)


def several(runner: Runner) -> None:
    """Two events at once; the first is not over before the time to approve the second ends."""
    events = runner.raise_one(), runner.raise_one()
    runner.handled("every-event", *events, share=0.5)
    runner.over(*events)


def cancelled(runner: Runner) -> None:
    """An event that is cancelled as soon as it was read."""
    event = runner.raise_one()
    runner.cancel_when_shown(event)
    since = runner.shown(event, "Scheduled")
    runner.wait(runner.tempo.unaware)
    runner.linger()
    runner.gone(event, since)


def started(runner: Runner) -> None:
    """Events that have started before anybody could be told (D04): its own, and one of a neighbour."""
    with runner.failed_hosts(runner.vm, runner.neighbour) as events:
        for event in events:
            runner.shown(event, "Started")
        runner.linger()
        runner.over(*events)


def errors(runner: Runner) -> None:
    """Every error that the real service was seen to give, while an event is announced."""
    _under(runner, "errors", "500", "503", "429", "410", "404", "400")


def empty_answer(runner: Runner) -> None:
    """A 200 with nothing in it, while an event is announced."""
    _under(runner, "empty-answer", "empty")


def cut_answer(runner: Runner) -> None:
    """Connections that end too early, while an event is announced."""
    _under(runner, "cut-answer", "drop", "half")


def late_answer(runner: Runner) -> None:
    """Bytes that come slowly, while an event is announced."""
    _under(runner, "late-answer", "slow")


def incarnation(runner: Runner) -> None:
    """An event with an incarnation far from the last."""
    runner.kit.jump()
    _handle_one(runner, "incarnation")


def neighbour_removed(runner: Runner) -> None:
    """The end of a VM beside it: it is deleted, then evicted."""
    for event_type in REMOVALS:
        if runner.reads_of(event_type):
            _pass_by(runner, runner.remove(runner.neighbour, event_type))


def terminate(runner: Runner) -> None:
    """Its VM is deleted."""
    _remove(runner, EventType.TERMINATE)


def preempt(runner: Runner) -> None:
    """Its VM is evicted."""
    _remove(runner, EventType.PREEMPT)


def _remove(runner: Runner, event_type: EventType) -> None:
    """The end of its VM: a client that has read of it may end."""
    if not runner.reads_of(event_type) or runner.may_have_ended:
        return
    event = runner.remove(runner.vm, event_type)
    runner.shown(event, "Scheduled")
    with runner.free_to_end():
        runner.handled(TYPE_NAMES[event_type].lower(), event)
        runner.over(event)


def _pass_by(runner: Runner, *events: RaisedEvent) -> None:
    """Events that are not for it to approve."""
    for event in events:
        runner.shown(event, "Scheduled")
    runner.linger()
    runner.over(*events)


def _handle_one(runner: Runner, rule: str, kind: Kind | None = None) -> None:
    event = runner.raise_one(kind)
    runner.handled(rule, event)
    runner.over(event)


def _under(runner: Runner, rule: str, *faults: str) -> None:
    runner.answered_with(faults[0])
    event = runner.raise_one()
    for fault in faults[1:]:
        runner.answered_with(fault)
    runner.handled(rule, event)
    runner.over(event)


def _trial(name: str, about: str, lead: Callable[[Runner], None], tries: str) -> Trial:
    return Trial(name, about, lead, frozenset(tries.split()))


TRIALS = (
    _trial("first-answer", "the first answer is late", first_answer, ""),
    _trial(
        "own-events",
        "its own Freeze, Reboot and Redeploy, by the platform and by its user",
        own_events,
        "comes-back once started work empty-not-before",
    ),
    _trial("incarnation", "an incarnation that jumps", incarnation, "incarnation"),
    _trial("neighbour", "a Freeze, Reboots and Redeploys of another VM of its set", neighbour, "neighbour"),
    _trial("leader", "a Freeze, Reboots and Redeploys that another VM leads", leader, "leader"),
    _trial("peers", "an event that it leads, for others too", peers, "peers"),
    _trial("several", "two events at once", several, "every-event"),
    _trial("cancelled", "an event that is cancelled as soon as it is read", cancelled, "cancelled"),
    _trial(
        "started",
        "events that are Started from the beginning, its own and a neighbour's",
        started,
        "started empty-not-before neighbour",
    ),
    _trial("errors", "500, 503, 429, 410, 404 and 400 while an event waits", errors, "errors"),
    _trial("empty-answer", "an empty 200 while an event waits", empty_answer, "empty-answer"),
    _trial("cut-answer", "a dropped connection and half an answer while an event waits", cut_answer, "cut-answer"),
    _trial("late-answer", "a slow answer, byte by byte, while an event waits", late_answer, "late-answer"),
    _trial("neighbour-removed", "another VM of its set is deleted, then evicted", neighbour_removed, "neighbour"),
    _trial("terminate", "the VM is deleted in five minutes", terminate, ""),
    _trial("preempt", "the VM is evicted in 30 seconds", preempt, ""),
)
BY_NAME = {trial.name: trial for trial in TRIALS}


def chosen(names: Iterable[str]) -> tuple[Trial, ...]:
    """The trials of these names in the order of the tour, after the first answer; all of them when none is named."""
    names = list(names)
    for name in names:
        if name not in BY_NAME:
            raise NotFound(f"There is no trial {name!r}.", hint=near_miss(name, BY_NAME, "trials"))
    return tuple(trial for trial in TRIALS if not names or trial.name in names or trial is TRIALS[0])
