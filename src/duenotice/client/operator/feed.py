"""The live feed: records as they are committed, across lost connections, from the position last seen."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, NamedTuple

from duenotice.backoff import Backoff
from duenotice.client.operator.answers import decoded, failure_of, problem_in
from duenotice.client.operator.config import Settings
from duenotice.client.operator.errors import ForeignAnswer, least_pause
from duenotice.client.operator.request import OperatorRequest, T
from duenotice.client.retry import retry
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.http.flow import FAILURES, Close, Emit, Flow, Open, Read, Sleep
from duenotice.http.http1 import Response, ResponseHead
from duenotice.http.transport import FlowEnded, Runner
from duenotice.wire.operator import Record

if TYPE_CHECKING:
    from duenotice.http.async_transport import AsyncRunner

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
class FeedFlow(Generic[T]):
    """One feed: where it is, and whether the connection is lost."""

    request: OperatorRequest[T]
    settings: Settings
    on_lost: OnLost = _ignore
    on_found: OnFound = _ignore
    position: int | None = None
    is_open: bool = False
    lost: bool = False
    failures: int = 0

    def run(self) -> Flow[None]:
        """Emits None once it is open, then each record; never ends by itself.

        The first connection has to succeed, as any other call. A refusal ends it: the token may be revoked.
        """
        settings = self.settings
        yield from retry(self._open, least_pause, settings.policy, settings.now, settings.jitter)
        while True:
            try:
                yield from self._read()
                raise Unavailable("The service ended the feed.", hint="It is tried again.")
            except (Unavailable, ForeignAnswer) as error:
                self._note_loss(error)
            yield Close()
            yield from self._come_back()

    def _open(self, deadline: float) -> Flow[None]:
        seen = "" if self.position is None else str(self.position)
        request, begun = replace(self.request, last_event_id=seen), self.settings.now()
        try:
            head: ResponseHead = yield Open(request.to_http(self.settings.token), deadline)
            if head.status != 200:
                response = Response(head.status, head.headers, (yield from self._rest(deadline)))
                raise problem_in(response, self.settings.url)
        except FAILURES as error:
            raise failure_of(error, self.settings.url, deadline - begun) from None

    def _rest(self, deadline: float) -> Flow[bytes]:
        whole = b""
        while piece := (yield Read(deadline)):
            whole += piece
        yield Close()
        return whole

    def _read(self) -> Flow[None]:
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
                    yield Emit(None)
                if frame.data:
                    yield Emit(decoded(frame.data, self.request.kind, self.settings.url))

    def _next_piece(self) -> Flow[bytes]:
        seconds = max(SILENCE_SECONDS, self.settings.policy.timeout)
        try:
            piece: bytes = yield Read(self.settings.now() + seconds)
        except FAILURES as error:
            raise failure_of(error, self.settings.url, seconds) from None
        return piece

    def _come_back(self) -> Flow[None]:
        """A connection again, after growing pauses, however long that takes."""
        while True:
            yield Sleep(AGAIN.after(self.failures) * (0.5 + self.settings.jitter() / 2))
            self.failures += 1
            try:
                return (yield from self._open(self.settings.now() + self.settings.policy.timeout))
            except (Unavailable, ForeignAnswer):
                yield Close()

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


class RecordFeed:
    """An iterator of records; waits for the next one, and never ends by itself."""

    def __init__(self, feed: FeedFlow[Record], runner: Runner) -> None:
        self._feed, self._runner, self._flow = feed, runner, feed.run()

    @property
    def position(self) -> int | None:
        """How far it has come in the journal: give it as `after` to go on there another day."""
        return self._feed.position

    def open(self) -> None:
        """Connect, if it is not yet connected: from then on nothing is missed."""
        if not self._feed.is_open:
            with suppress(FlowEnded):
                self._run()

    def close(self) -> None:
        """Listen no longer. Another thread that waits for the next record comes to the end of the feed."""
        self._runner.end()

    def __enter__(self) -> "RecordFeed":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "RecordFeed":
        return self

    def __next__(self) -> Record:
        self.open()
        try:
            emitted = self._run()
        except FlowEnded:
            self._runner.close()
            raise StopIteration from None
        if emitted is None:  # an error has ended it
            raise StopIteration
        record: Record = emitted.value
        return record

    def _run(self) -> Emit | None:
        try:
            return self._runner.run(self._flow)
        except DuenoticeError as error:
            self._runner.close()
            raise self._feed.settings.explain(error) from None


class AsyncRecordFeed:
    """An asynchronous iterator of records; waits for the next one, and never ends by itself."""

    def __init__(self, feed: FeedFlow[Record], runner: "AsyncRunner") -> None:
        self._feed, self._runner, self._flow = feed, runner, feed.run()

    @property
    def position(self) -> int | None:
        """How far it has come in the journal: give it as `after` to go on there another day."""
        return self._feed.position

    async def open(self) -> None:
        """Connect, if it is not yet connected: from then on nothing is missed."""
        if not self._feed.is_open:
            with suppress(FlowEnded):
                await self._run()

    async def close(self) -> None:
        """Listen no longer. Another task that waits for the next record comes to the end of the feed."""
        await self._runner.end()

    async def __aenter__(self) -> "AsyncRecordFeed":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> "AsyncRecordFeed":
        return self

    async def __anext__(self) -> Record:
        await self.open()
        try:
            emitted = await self._run()
        except FlowEnded:
            await self._runner.close()
            raise StopAsyncIteration from None
        if emitted is None:  # an error has ended it
            raise StopAsyncIteration
        record: Record = emitted.value
        return record

    async def _run(self) -> Emit | None:
        try:
            return await self._runner.run(self._flow)
        except DuenoticeError as error:
            await self._runner.close()
            raise self._feed.settings.explain(error) from None
