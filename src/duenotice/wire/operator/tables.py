"""Tables for people in the operator's contract: filtered, sorted and counted by the service, and read by place."""

from duenotice.wire.operator.events import Event, Life
from duenotice.wire.operator.fleet import Vm
from duenotice.wire.operator.words import AnswerBody, Count, HitKind, Moment, RequestBody


class EventQuery(RequestBody, frozen=True):
    """Which events a table has: `OPEN_STATES`, unless `state` says otherwise; `by` is one of `EVENT_PILES`."""

    state: str = ""
    type: str = ""
    cause: str = ""
    group: str = ""
    host: str = ""
    maintenance: str = ""
    vm: str = ""
    q: str = ""
    by: str = ""


class EventRow(Life, frozen=True):
    """An event with what it belongs to; `host` is the one that is the reason, else that of its first VM."""

    group: str | None
    host: str | None


class EventTable(AnswerBody, frozen=True):
    """Some rows of all that match; `counts` has every state, whatever states were asked for."""

    now: Moment
    total: Count
    counts: dict[str, int]
    items: tuple[EventRow, ...]


class VmQuery(RequestBody, frozen=True):
    """Which VMs a table has; `sort` is one of `VM_SORTS`, with a `-` before it the other way round."""

    group: str = ""
    host: str = ""
    state: str = ""
    listens: str = ""
    q: str = ""
    sort: str = ""


class VmRow(Vm, frozen=True):
    """A VM, when it last asked since this start, and the most urgent event that hits it."""

    last_seen: Moment | None
    next_event: Event | None


class VmTable(AnswerBody, frozen=True):
    """Some rows of all VMs that match."""

    total: Count
    items: tuple[VmRow, ...]


class Hit(AnswerBody, frozen=True):
    """Something that a search has found: its kind, what names it, and a few words about it.

    `exact` says that the text is its whole name, key, address or id.
    """

    kind: HitKind
    name: str
    about: str
    exact: bool


class Hits(AnswerBody, frozen=True):
    """The best hits, the best first; `more` says that there are others."""

    items: tuple[Hit, ...]
    more: bool
