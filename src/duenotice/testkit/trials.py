"""The tour: the trials that a client goes through, one by one. The rules judge the result."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from duenotice.clock import monotonic
from duenotice.domain import commands as c
from duenotice.domain.event import EventType, Source
from duenotice.errors import NotFound
from duenotice.testkit.guide import Guide
from duenotice.testkit.verdicts.evidence import FaultWindow
from duenotice.testkit.watch import TrialEnded
from duenotice.toml import near_miss

FLEET = """
[site]
location = "testkit"
resource_group = "testkit"

[[hosts]]
name = "host-1"

[[availability_sets]]
name = "web"
update_domains = 2
vms = [
  {{ name = "{vm}", address = "192.0.2.1", update_domain = 0, host = "host-1" }},
  {{ name = "{peer}", address = "192.0.2.2", update_domain = 0 }},
  {{ name = "{neighbour}", address = "192.0.2.3", update_domain = 1 }},
]
"""
"""The client's VM has a peer in its update domain, which is hit with it, and a neighbour in another; addresses are
those of documentation, so that every client is the default VM."""

HOST = "host-1"


class Trial(NamedTuple):
    """One trial: its name, what it is about, what is done, and the rules that it tries."""

    name: str
    about: str
    lead: Callable[[Guide], None]
    tries: frozenset[str]


def first_answer(guide: Guide) -> None:
    """F01: the service is told how late to be before it starts."""
    guide.first_request()
    begun, since = monotonic(), 0
    guide.notes.windows.append(FaultWindow("late", 0.0, begun + guide.tempo.late))
    guide.asked(lambda one: one.is_poll and one.status in (200, 304), since)


def reboot(guide: Guide) -> None:
    """Events of its own: from the platform, from its user, and one more from a source that it approves."""
    for source in Source:
        _handle_one(guide, "comes-back", source)
    if guide.is_approver:
        _handle_one(guide, "comes-back")


def neighbour(guide: Guide) -> None:
    """An event that it is told of and not hit by."""
    event = guide.reboot(guide.neighbour)
    guide.shown(event, "Scheduled")
    guide.linger()
    guide.over(event)


def leader(guide: Guide) -> None:
    """An event that another VM leads; that one approves in the end."""
    event = guide.reboot(guide.peer, guide.vm)
    guide.shown(event, "Scheduled")
    guide.linger()
    event.approve()
    guide.over(event)


def peers(guide: Guide) -> None:
    """An event that it leads; the other VM is ready only after a while."""
    event = guide.reboot(guide.vm, guide.peer)
    guide.shown(event, "Scheduled")
    guide.linger()
    guide.peers_are_ready(event)
    guide.handled("peers", event)
    guide.over(event)


def several(guide: Guide) -> None:
    """Two events at once; the first is not over before the time to approve the second ends."""
    events = guide.reboot(), guide.reboot()
    guide.handled("every-event", *events, share=0.5)
    guide.over(*events)


def cancelled(guide: Guide) -> None:
    """An event that is cancelled as soon as it was read."""
    event = guide.reboot()
    guide.cancel_when_shown(event)
    since = guide.shown(event, "Scheduled")
    guide.wait(guide.tempo.unaware)
    guide.linger()
    guide.gone(event, since)


def started(guide: Guide) -> None:
    """An event that has started before anybody could be told (D04)."""
    try:
        event = guide.fail_host(HOST)
        guide.shown(event, "Started")
        guide.linger()
        guide.over(event)
    finally:
        guide.kit.submit(c.RepairHost(HOST))


def errors(guide: Guide) -> None:
    """Every error that the real service was seen to give, while an event is announced."""
    _under(guide, "errors", "500", "503", "429", "410", "404", "400")


def empty_answer(guide: Guide) -> None:
    """A 200 with nothing in it, while an event is announced."""
    _under(guide, "empty-answer", "empty")


def cut_answer(guide: Guide) -> None:
    """Connections that end too early, while an event is announced."""
    _under(guide, "cut-answer", "drop", "half")


def late_answer(guide: Guide) -> None:
    """Bytes that come slowly, while an event is announced."""
    _under(guide, "late-answer", "slow")


def incarnation(guide: Guide) -> None:
    """An event with an incarnation far from the last."""
    guide.kit.jump()
    _handle_one(guide, "incarnation")


def neighbour_preempted(guide: Guide) -> None:
    """The end of a spot VM beside it."""
    if guide.reads_of(EventType.PREEMPT):
        event = guide.kit.vm(guide.neighbour).preempt()
        guide.shown(event, "Scheduled")
        guide.linger()
        guide.over(event)


def preempt(guide: Guide) -> None:
    """The end of a spot VM: a client that has read of it may end."""
    if not guide.reads_of(EventType.PREEMPT):
        return
    event = guide.kit.vm(guide.vm).preempt()
    guide.shown(event, "Scheduled")
    with suppress(TrialEnded):
        guide.handled("preempt", event)
        event.start()
        guide.shown(event, "Started")
        guide.linger()


def _handle_one(guide: Guide, rule: str, source: Source | None = None) -> None:
    event = guide.reboot(source=source)
    guide.handled(rule, event)
    guide.over(event)


def _under(guide: Guide, rule: str, *faults: str) -> None:
    guide.answered_with(faults[0])
    event = guide.reboot()
    for fault in faults[1:]:
        guide.answered_with(fault)
    guide.handled(rule, event)
    guide.over(event)


def _trial(name: str, about: str, lead: Callable[[Guide], None], tries: str) -> Trial:
    return Trial(name, about, lead, frozenset(tries.split()))


TRIALS = (
    _trial("first-answer", "the first answer is late", first_answer, ""),
    _trial(
        "reboot",
        "events of its own: by the platform, by its user, and once more",
        reboot,
        "comes-back once started work empty-not-before",
    ),
    _trial("incarnation", "an incarnation that jumps", incarnation, "incarnation"),
    _trial("neighbour", "an event of another VM of its set", neighbour, "neighbour"),
    _trial("leader", "an event that another VM leads", leader, "leader"),
    _trial("peers", "an event that it leads, for others too", peers, "peers"),
    _trial("several", "two events at once", several, "every-event"),
    _trial("cancelled", "an event that is cancelled as soon as it is read", cancelled, "cancelled"),
    _trial("started", "an event that is Started from the beginning", started, "started empty-not-before"),
    _trial("errors", "500, 503, 429, 410, 404 and 400 while an event waits", errors, "errors"),
    _trial("empty-answer", "an empty 200 while an event waits", empty_answer, "empty-answer"),
    _trial("cut-answer", "a dropped connection and half an answer while an event waits", cut_answer, "cut-answer"),
    _trial("late-answer", "a slow answer, byte by byte, while an event waits", late_answer, "late-answer"),
    _trial("neighbour-preempted", "30 seconds to the end of another VM of its set", neighbour_preempted, "neighbour"),
    _trial("preempt", "30 seconds to the end of the VM", preempt, ""),
)
BY_NAME = {trial.name: trial for trial in TRIALS}


def chosen(names: Iterable[str]) -> tuple[Trial, ...]:
    """The trials of these names in the order of the tour, after the first answer; all of them when none is named."""
    names = list(names)
    for name in names:
        if name not in BY_NAME:
            raise NotFound(f"There is no trial {name!r}.", hint=near_miss(name, BY_NAME, "trials"))
    return tuple(trial for trial in TRIALS if not names or trial.name in names or trial is TRIALS[0])
