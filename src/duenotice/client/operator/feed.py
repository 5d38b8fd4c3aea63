"""The live feed as a talk: records as they are committed, across lost connections, from the position last seen."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple

from duenotice.backoff import Backoff
from duenotice.client.exchange import FAILURES, Show, Sleep
from duenotice.client.operator.answer import decoded, failure_of, problem_in
from duenotice.client.operator.errors import ForeignAnswer, least_pause
from duenotice.client.operator.request import OperatorRequest, T
from duenotice.client.operator.talks import HangUp, Hear, Listen, Manner, OperatorTalk
from duenotice.client.patience import persistently
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.http.http1 import Response

SILENCE_SECONDS = 40.0
"""A feed that is silent for this long is lost; the service sends a sign of life every 15 s."""

AGAIN = Backoff(0.25, 8.0)

OnLost = Callable[[DuenoticeError], None]
OnFound = Callable[[], None]


class FeedFrame(NamedTuple):
    """One server-sent event; without data it is only our position."""

    position: int
    data: bytes


class Frames:
    """Server-sent events from pieces of bytes; those without an id are signs of life."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._fields: dict[bytes, bytes] = {}

    def feed(self, piece: bytes) -> Iterator[FeedFrame]:
        """The events that this piece completes."""
        self._rest += piece
        if b"\n" not in piece:  # a record may contain a whole fleet, and come in many pieces
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            name, _, value = bytes(line).rstrip(b"\r").partition(b":")
            if name:
                self._fields[name] = value.removeprefix(b" ")
            elif not line.strip():
                fields, self._fields = self._fields, {}
                if (position := fields.get(b"id", b"")).isdigit():
                    yield FeedFrame(int(position), fields.get(b"data", b""))


def _ignore(*_: object) -> None:
    pass


@dataclass(slots=True)
class FeedTalk(Generic[T]):
    """One feed: where it is, and whether the connection is lost."""

    request: OperatorRequest[T]
    manner: Manner
    on_lost: OnLost = _ignore
    on_found: OnFound = _ignore
    position: int | None = None
    is_open: bool = False
    lost: bool = False
    failures: int = 0

    def run(self) -> OperatorTalk[None]:
        """Shows None once it is open, then each record; never ends by itself.

        The first connection has to succeed, as any other call. A refusal ends it: the token may be revoked.
        """
        yield from persistently(self._listen, least_pause, self.manner.patience, self.manner.now, self.manner.dice)
        while True:
            try:
                yield from self._hear()
                raise Unavailable("The service ended the feed.", hint="It is tried again.")
            except (Unavailable, ForeignAnswer) as error:
                self._note_loss(error)
            yield HangUp()
            yield from self._come_back()

    def _listen(self, deadline: float) -> OperatorTalk[None]:
        seen = "" if self.position is None else str(self.position)
        request, begun = replace(self.request, last_event_id=seen), self.manner.now()
        try:
            response: Response = yield Listen(request, deadline)
            if response.status != 200:
                raise problem_in(replace(response, body=(yield from self._rest(deadline))), self.manner.where)
        except FAILURES as error:
            raise failure_of(error, self.manner.where, deadline - begun) from None

    def _rest(self, deadline: float) -> OperatorTalk[bytes]:
        whole = b""
        while piece := (yield Hear(deadline)):
            whole += piece
        yield HangUp()
        return whole

    def _hear(self) -> OperatorTalk[None]:
        """All records of one connection."""
        frames, pieces = Frames(), 0
        while piece := (yield from self._next_piece()):
            pieces += 1
            if pieces > 1:  # it stays open: one that is always ended at once is not tried ever faster
                self.failures = 0
            for frame in frames.feed(piece):
                self._note(frame)
                if not self.is_open:
                    self.is_open = True
                    yield Show(None)
                if frame.data:
                    yield Show(decoded(frame.data, self.request.kind, self.manner.where))

    def _next_piece(self) -> OperatorTalk[bytes]:
        seconds = max(SILENCE_SECONDS, self.manner.patience.timeout)
        try:
            piece: bytes = yield Hear(self.manner.now() + seconds)
        except FAILURES as error:
            raise failure_of(error, self.manner.where, seconds) from None
        return piece

    def _come_back(self) -> OperatorTalk[None]:
        """A connection again, after growing pauses, however long that takes."""
        while True:
            yield Sleep(AGAIN.after(self.failures) * (0.5 + self.manner.dice() / 2))
            self.failures += 1
            try:
                return (yield from self._listen(self.manner.now() + self.manner.patience.timeout))
            except (Unavailable, ForeignAnswer):
                yield HangUp()

    def _note_loss(self, error: DuenoticeError) -> None:
        if not self.is_open:
            raise error
        if not self.lost:
            self.lost = True
            self.on_lost(error)

    def _note(self, frame: FeedFrame) -> None:
        self.position = frame.position
        if self.lost:
            self.lost = False
            self.on_found()
