"""What is known about a client when it is judged: what it sent, what it was told, and what happened to its VM. Pure."""

from bisect import bisect, bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from duenotice.domain import records as t
from duenotice.domain.event import EventType, Source
from duenotice.errors import Malformed
from duenotice.testkit.emulator import Happened
from duenotice.testkit.request_log import Exchange
from duenotice.wire.api_versions import BY_NAME
from duenotice.wire.documents import decode_start_requests
from duenotice.wire.seen_documents import SeenDocument, SeenEvent, read_document

PREVIEW = "2017-03-01"
PATH_OF_2016 = "/metadata/latest/scheduledevents"
"""It is answered like the preview, and needs no api-version (A14)."""


REMOVALS = ("Preempt", "Terminate")
"""The types of events after which a VM is gone."""


class Tempo(NamedTuple):
    """How long things may take, in real seconds: a client polls in real time, however fast the clock runs."""

    patience: float = 30.0
    """The shortest notice (D01): a client that is silent for this long may miss a whole one."""

    notice: float = 15.0
    """How long the notice of an event lasts: what a client has to get ready and approve."""

    linger: float = 3.0
    """How long we wait for something that must not happen."""

    late: float = 5.0
    """How late the first answer is (F01)."""

    slow: float = 10.0
    """How long an answer takes that comes bit by bit."""

    unaware: float = 2.0
    """How long it may take until a client that polls once a second knows of a change."""

    most_a_second: float = 5.0
    """Requests that the service allows a VM (A08)."""


class Duty(NamedTuple):
    """Events of its own that a client had to handle by a moment in real time, and the rule that asks for it."""

    rule: str
    event_ids: tuple[str, ...]
    until: float


class Kind(NamedTuple):
    """What tells events apart for a client that does not handle all of them."""

    type: EventType
    source: Source


class FaultWindow(NamedTuple):
    """A time in which answers were wrong on purpose."""

    fault: str
    begun: float
    ended: float


class Ending(NamedTuple):
    """A program ended by itself, before it was told to."""

    at: float
    code: int


@dataclass
class RunnerNotes:
    """The notes of the runner that leads a client through trials."""

    duties: list[Duty] = field(default_factory=list)
    windows: list[FaultWindow] = field(default_factory=list)
    tries: frozenset[str] = frozenset()
    """The rules that the chosen trials are about."""
    ended: str = ""
    """Why the tour ended before its last trial; empty when it did not."""
    endings: list[Ending] = field(default_factory=list)
    ends_unseen: bool = False
    """Whether nobody can see that the client ends: it was started elsewhere."""
    stops: list[float] = field(default_factory=list)
    """When we stopped a program that was silent, to start it again."""
    has_peers_file: bool = False
    """Whether the client can be told that other VMs are ready."""
    ready: dict[str, float] = field(default_factory=dict)
    """When the other VMs of an event were ready."""
    work: dict[int, str] | None = None
    """What the file of finished work said when an approval came, by its number; None without such a file."""


class EventTimes(NamedTuple):
    """An event, and when it was over, in real monotonic seconds."""

    id: str
    resources: tuple[str, ...]
    kind: Kind
    ended: float | None = None
    cancelled: bool = False

    @property
    def type(self) -> EventType:
        """What happens to its VMs."""
        return self.kind.type


class ShownDocument(NamedTuple):
    """A document that the client was given."""

    poll: Exchange
    document: SeenDocument
    run: int
    """Which start of the program read it."""


@dataclass
class Evidence:
    """Everything that a rule may look at; times are real monotonic seconds."""

    vm: str
    exchanges: Sequence[Exchange]
    happened: Sequence[Happened]
    begun: float
    ended: float
    notes: RunnerNotes = field(default_factory=RunnerNotes)
    tempo: Tempo = field(default_factory=Tempo)

    @cached_property
    def polls(self) -> list[Exchange]:
        """All requests for the document."""
        return [exchange for exchange in self.exchanges if exchange.is_poll]

    @cached_property
    def asks(self) -> list[Exchange]:
        """All questions: polls, and whatever else it wants to know first."""
        return [exchange for exchange in self.exchanges if exchange.method == "GET"]

    @cached_property
    def approvals(self) -> list[Exchange]:
        """All requests to approve, also those that were refused."""
        return [exchange for exchange in self.exchanges if exchange.is_approval]

    @cached_property
    def approved(self) -> dict[str, list[Exchange]]:
        """The approvals of each event; an event that is named twice in one request counts once."""
        found: dict[str, list[Exchange]] = {}
        for approval in self.approvals:
            for event_id in dict.fromkeys(approved_ids(approval)):
                found.setdefault(event_id, []).append(approval)
        return found

    @cached_property
    def taken(self) -> dict[str, list[Exchange]]:
        """The approvals of each event that were not refused."""
        taken = {event_id: [one for one in ones if one.status == 200] for event_id, ones in self.approved.items()}
        return {event_id: ones for event_id, ones in taken.items() if ones}

    @cached_property
    def approved_kinds(self) -> set[Kind]:
        """The kinds of events that it approves."""
        return {self.lives[event_id].kind for event_id in self.taken if event_id in self.lives}

    def is_approved_kind(self, duty: Duty) -> bool:
        """Whether it approves events such as these; some clients approve only what their user asked for."""
        return {self.lives[event_id].kind for event_id in duty.event_ids} <= self.approved_kinds

    @cached_property
    def lives(self) -> dict[str, EventTimes]:
        """What happened to events."""
        return _lives(self.happened)

    @cached_property
    def shown(self) -> list[ShownDocument]:
        """Every document that the client was given, oldest first."""
        read = ((poll, document_of(poll)) for poll in self.polls)
        return [ShownDocument(poll, document, self.run_of(poll)) for poll, document in read if document is not None]

    @cached_property
    def seen(self) -> dict[str, list[tuple[Exchange, SeenEvent]]]:
        """How each event was shown to the client, oldest first."""
        found: dict[str, list[tuple[Exchange, SeenEvent]]] = {}
        for poll, document, _ in self.shown:
            for event in document.events:
                found.setdefault(event.event_id, []).append((poll, event))
        return found

    @cached_property
    def told(self) -> list[EventTimes]:
        """The events that it read of."""
        return [life for life in self.lives.values() if life.id in self.seen]

    @cached_property
    def own(self) -> list[str]:
        """The events of its own VM that it read of."""
        return [life.id for life in self.told if self.vm in life.resources]

    def mine(self, document: SeenDocument) -> set[str]:
        """The events of a document that hit the client's VM."""
        return {event.event_id for event in document.events if event.hits(self.vm)}

    def fault_at(self, moment: float) -> str:
        """The fault that there was then."""
        return next((window.fault for window in self.notes.windows if window.begun <= moment < window.ended), "")

    def is_right(self, exchange: Exchange) -> bool:
        """Whether it was answered correctly, even if late."""
        return self.fault_at(exchange.monotonic) in ("", "late")

    def next_ask(self, exchange: Exchange) -> Exchange | None:
        """The question that came after."""
        index = bisect(self.asks, exchange.number, key=lambda ask: ask.number)
        return self.asks[index] if index < len(self.asks) else None

    def document_before(self, exchange: Exchange) -> SeenDocument | None:
        """The last document that the client had been given since it was started."""
        index = bisect_left(self.shown, exchange.number, key=lambda shown: shown.poll.number)
        before = self.shown[index - 1] if index else None
        return before.document if before is not None and before.run == self.run_of(exchange) else None

    def _is_told_to_go(self, exchange: Exchange) -> bool:
        """Whether the last document that it was given by then removes its VM."""
        index = bisect(self.shown, exchange.number, key=lambda shown: shown.poll.number)
        events = self.shown[index - 1].document.events if index else ()
        return any(event.type in REMOVALS and event.hits(self.vm) for event in events)

    @cached_property
    def _cuts(self) -> list[float]:
        """When the program ended or was stopped; after each it may have been started again."""
        return sorted([*(ending.at for ending in self.notes.endings), *self.notes.stops])

    def run_of(self, exchange: Exchange) -> int:
        """Which start of the program an exchange belongs to."""
        return bisect_left(self._cuts, exchange.monotonic)

    def last_of(self, run: int) -> Exchange | None:
        """The last exchange of a start of the program."""
        return next((one for one in reversed(self.exchanges) if self.run_of(one) == run), None)

    def ending_of(self, run: int) -> Ending | None:
        """How a start of the program ended, if it did so by itself."""
        return next((ending for ending in self.notes.endings if bisect_left(self._cuts, ending.at) == run), None)

    def silence_after(self, exchange: Exchange) -> float:
        """Real seconds from the end of an exchange until the next request, or until the client had ended."""
        if exchange.answered is None and "wait" in exchange.query:
            return 0.0  # it waits for us
        later = self.next_ask(exchange)
        if later is None and self.notes.ends_unseen and self._is_told_to_go(exchange):
            return 0.0  # it may have ended, which is right
        cuts = self._cuts[self.run_of(exchange) :]
        end = min([self.ended, *cuts, *([] if later is None else [later.monotonic])])
        return end - read_at(exchange)


def needs_header(exchange: Exchange) -> bool:
    """Whether a request is refused without the Metadata header (A03)."""
    version = BY_NAME.get(version_of(exchange))
    return version is None or version.needs_header or not (exchange.is_poll or exchange.is_approval)


def version_of(exchange: Exchange) -> str:
    """The api-version that answers a request; empty when it names none and its path needs one."""
    return PREVIEW if asks_as_in_2016(exchange) else exchange.api_version


def asks_as_in_2016(exchange: Exchange) -> bool:
    """Whether its path is that of 2016."""
    return exchange.path.lower().rstrip("/") == PATH_OF_2016


def read_at(exchange: Exchange) -> float:
    """When the client had its answer; when it asked, if it got none."""
    return exchange.monotonic if exchange.answered is None else exchange.answered


def approved_ids(approval: Exchange) -> list[str]:
    """The events that a request wanted to approve; none when it could not be understood."""
    try:
        return [event_id.upper() for event_id in decode_start_requests(approval.body)]
    except Malformed:
        return []


def document_of(poll: Exchange) -> SeenDocument | None:
    """The document that a poll was answered with; None when the answer was not a document."""
    return _read(poll.answer, version_of(poll) == PREVIEW)


@lru_cache(maxsize=64)
def _read(answer: bytes, underscore: bool) -> SeenDocument | None:
    try:
        return read_document(answer, underscore=underscore)
    except Malformed:
        return None


def _lives(happened: Iterable[Happened]) -> dict[str, EventTimes]:
    lives: dict[str, EventTimes] = {}
    for at, record in happened:
        match record.transition:
            case t.EventRaised(event):
                lives[event.id] = EventTimes(event.id, event.resources, Kind(event.type, event.source))
            case t.EventCompleted(event_id) | t.EventFailed(event_id) if event_id in lives:
                lives[event_id] = lives[event_id]._replace(ended=at)
            case t.EventCancelled(event_id) if event_id in lives:
                lives[event_id] = lives[event_id]._replace(ended=at, cancelled=True)
    return lives
