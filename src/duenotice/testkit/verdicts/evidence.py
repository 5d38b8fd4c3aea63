"""What is known about a client when it is judged: what it sent, what it was told, and what happened to its VM. Pure."""

from bisect import bisect, bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from duenotice.domain import transitions as t
from duenotice.errors import Malformed
from duenotice.testkit.emulator import Happened
from duenotice.testkit.overheard import Exchange
from duenotice.wire.seen_document import SeenDocument, SeenEvent, read_document
from duenotice.wire.start_requests_json import decode_start_requests

PREVIEW = "2017-03-01"


class Tempo(NamedTuple):
    """How long things may take, in real seconds: a client polls in real time, however fast the clock runs."""

    patience: float = 30.0
    """The shortest notice there is (D01): whoever is silent for so long may miss one whole."""

    notice: float = 15.0
    """How long the notice of an event lasts: what a client has to get ready and approve."""

    linger: float = 3.0
    """How long we watch for something that must not happen."""

    late: float = 5.0
    """How late the first answer is (F01)."""


class Trial(NamedTuple):
    """One thing a client was put through: events of its own that it was to handle until a moment in real time."""

    rule: str
    event_ids: tuple[str, ...]
    until: float


class Window(NamedTuple):
    """A time in which answers were wrong on purpose."""

    fault: str
    begun: float
    ended: float


@dataclass
class Notes:
    """What whoever leads a client through trials has written down."""

    trials: list[Trial] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    ready: dict[str, float] = field(default_factory=dict)
    """When the other VMs of an event were ready; empty when nobody could be told."""
    work: dict[int, str] | None = None
    """What the file of finished work said when an approval came, by its number; None without such a file."""


class Life(NamedTuple):
    """When things happened to an event, in real monotonic seconds."""

    id: str
    resources: tuple[str, ...]
    raised: float
    started: float | None = None
    ended: float | None = None
    cancelled: bool = False


class Shown(NamedTuple):
    """A document that the client was given."""

    poll: Exchange
    document: SeenDocument


@dataclass
class Evidence:
    """Everything that a rule may look at; times are real monotonic seconds."""

    vm: str
    exchanges: Sequence[Exchange]
    happened: Sequence[Happened]
    begun: float
    ended: float
    exit_code: int | None = None
    """Of a program that ended before it was told to."""
    notes: Notes = field(default_factory=Notes)
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
        """The approvals of each event."""
        found: dict[str, list[Exchange]] = {}
        for approval in self.approvals:
            for event_id in approved_ids(approval):
                found.setdefault(event_id, []).append(approval)
        return found

    @cached_property
    def lives(self) -> dict[str, Life]:
        """What became of events."""
        return _lives(self.happened)

    @cached_property
    def shown(self) -> list[Shown]:
        """Every document that the client was given, oldest first."""
        read = ((poll, document_of(poll)) for poll in self.polls)
        return [Shown(poll, document) for poll, document in read if document is not None]

    @cached_property
    def seen(self) -> dict[str, list[tuple[Exchange, SeenEvent]]]:
        """How each event was shown to the client, oldest first."""
        found: dict[str, list[tuple[Exchange, SeenEvent]]] = {}
        for poll, document in self.shown:
            for event in document.events:
                found.setdefault(event.event_id, []).append((poll, event))
        return found

    def mine(self, document: SeenDocument) -> set[str]:
        """The events of a document that hit the client's VM."""
        return {event.event_id for event in document.events if event.hits(self.vm)}

    def fault_at(self, moment: float) -> str:
        """The fault that there was then."""
        return next((window.fault for window in self.notes.windows if window.begun <= moment < window.ended), "")

    def next_ask(self, exchange: Exchange) -> Exchange | None:
        """The question that came after."""
        index = bisect(self.asks, exchange.number, key=lambda ask: ask.number)
        return self.asks[index] if index < len(self.asks) else None

    def document_before(self, exchange: Exchange) -> SeenDocument | None:
        """The last document that the client had been given."""
        index = bisect_left(self.shown, exchange.number, key=lambda shown: shown.poll.number)
        return self.shown[index - 1].document if index else None

    def silence_after(self, exchange: Exchange) -> float:
        """Real seconds from the end of an exchange until the next question, or until we stopped to watch."""
        later = self.next_ask(exchange)
        end = self.ended if later is None else later.monotonic
        return max(0.0, end - max(exchange.monotonic, exchange.answered or 0.0))


def approved_ids(approval: Exchange) -> list[str]:
    """The events that a request wanted to approve; none when it could not be understood."""
    try:
        return [event_id.upper() for event_id in decode_start_requests(approval.body)]
    except Malformed:
        return []


def document_of(poll: Exchange) -> SeenDocument | None:
    """The document that a poll was answered with; None when it was none."""
    return _read(poll.answer, poll.api_version == PREVIEW) if poll.is_poll and poll.status == 200 else None


@lru_cache(maxsize=64)
def _read(answer: bytes, underscore: bool) -> SeenDocument | None:
    try:
        return read_document(answer, underscore=underscore)
    except Malformed:
        return None


def _lives(happened: Iterable[Happened]) -> dict[str, Life]:
    lives: dict[str, Life] = {}
    for at, record in happened:
        match record.transition:
            case t.EventRaised(event):
                lives[event.id] = Life(event.id, event.resources, at, None if event.started_at is None else at)
            case t.EventStarted(event) if event.id in lives:
                lives[event.id] = lives[event.id]._replace(started=at)
            case t.EventCompleted(event_id) | t.EventFailed(event_id) if event_id in lives:
                lives[event_id] = lives[event_id]._replace(ended=at)
            case t.EventCancelled(event_id) if event_id in lives:
                lives[event_id] = lives[event_id]._replace(ended=at, cancelled=True)
    return lives
