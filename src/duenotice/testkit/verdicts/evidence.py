"""What is known about a client when it is judged: what it sent, what it was told, and what happened to its VM. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

from duenotice.domain import transitions as t
from duenotice.errors import Malformed
from duenotice.testkit.overheard import Exchange
from duenotice.wire.document_json import SeenDocument, SeenEvent, decode_document
from duenotice.wire.start_requests_json import decode_start_requests


class Life(NamedTuple):
    """When things happened to an event, on the service's clock."""

    id: str
    resources: tuple[str, ...]
    raised: datetime
    started: datetime | None = None
    ended: datetime | None = None
    cancelled: bool = False


class Evidence:
    """Everything that a rule may look at."""

    def __init__(
        self,
        vm: str,
        exchanges: Sequence[Exchange],
        records: Iterable[t.Record],
        begun: float,
        ended: float,
        exit_code: int | None = None,
    ) -> None:
        """`begun` and `ended` in real monotonic seconds; `exit_code` of a program that ended before it was told to."""
        self.vm, self.begun, self.ended, self.exit_code = vm, begun, ended, exit_code
        self.exchanges = [exchange for exchange in exchanges if exchange.vm == vm or not exchange.vm]
        self.lives = _lives(records)

    @cached_property
    def polls(self) -> list[Exchange]:
        """All requests for the document."""
        return [exchange for exchange in self.exchanges if exchange.is_poll]

    @cached_property
    def approvals(self) -> list[Exchange]:
        """All requests to approve, also those that were refused."""
        return [exchange for exchange in self.exchanges if exchange.is_approval]

    @cached_property
    def documents(self) -> list[tuple[Exchange, SeenDocument]]:
        """Every document that the client was given."""
        read = ((poll, _document(poll)) for poll in self.polls)
        return [(poll, document) for poll, document in read if document is not None]

    def approved_ids(self, approval: Exchange) -> list[str]:
        """The events that a request wanted to approve; none when it could not be understood."""
        try:
            return [event_id.upper() for event_id in decode_start_requests(approval.body)]
        except Malformed:
            return []

    def polls_after(self, exchange: Exchange) -> list[Exchange]:
        """The polls that came later."""
        return [poll for poll in self.polls if poll.number > exchange.number]

    def silence_after(self, exchange: Exchange) -> float:
        """Real seconds from the answer to an exchange until the next poll, or the end."""
        later = self.polls_after(exchange)
        return (later[0].monotonic if later else self.ended) - (exchange.answered or exchange.monotonic)

    def seen_before(self, exchange: Exchange, event_id: str) -> list[SeenEvent]:
        """How an event was shown to the client before a request, oldest first."""
        shown = (document for poll, document in self.documents if poll.number < exchange.number)
        return [event for document in shown for event in document.events if event.event_id.upper() == event_id]


def _document(poll: Exchange) -> SeenDocument | None:
    if poll.status != 200 or not poll.answer:
        return None
    try:
        return decode_document(poll.answer)
    except Malformed:
        return None


def _lives(records: Iterable[t.Record]) -> dict[str, Life]:
    lives: dict[str, Life] = {}
    for record in records:
        match record.transition:
            case t.EventRaised(event):
                born_started = record.at if event.started_at is not None else None
                lives[event.id] = Life(event.id, event.resources, record.at, born_started)
            case t.EventStarted(event) if event.id in lives:
                lives[event.id] = lives[event.id]._replace(started=record.at)
            case t.EventCompleted(event_id) | t.EventFailed(event_id) if event_id in lives:
                lives[event_id] = lives[event_id]._replace(ended=record.at)
            case t.EventCancelled(event_id) if event_id in lives:
                lives[event_id] = lives[event_id]._replace(ended=record.at, cancelled=True)
    return lives
