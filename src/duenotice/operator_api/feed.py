"""Committed records as server-sent events: first what was missed, then live.

Slow readers and revoked tokens are disconnected.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duenotice.domain.records import FleetDeclared, MaintenanceStarted, Record, TokenRevoked, VmsPut, VmsRemoved
from duenotice.engine.engine import Engine
from duenotice.operator_api.answers import encode, problem
from duenotice.wire.operator import from_domain
from duenotice.wire.operator.from_domain import action_of

HEARTBEAT_SECONDS = 15.0
GOODBYE_SECONDS = 1.0
QUEUE = 10_000
"""Records that may wait for one reader; a reader that falls further behind has to come back with Last-Event-ID."""

MOST_READERS = 100
PLACES_OF_ONE = 10
"""Connections that one token may have, so that a faulty program does not take the places of others."""

READ_AT_ONCE = 50
"""Records read for one reader at once. Each may have a thousand VMs, and a reader that does not read holds them."""

SENT_AT_ONCE = 10
"""Records sent to one reader in one turn of the loop."""

FRAMES_KEPT, LONGEST_KEPT = 2_000, 4_096
"""How many encoded records are kept: each is encoded once for all readers."""

LARGE = (FleetDeclared, MaintenanceStarted, VmsPut, VmsRemoved)
"""Changes that may contain the whole fleet."""

PIECE = 64 * 1024
"""Bytes handed over at once: a reader that does not read holds one piece, not a whole fleet."""


class SentRecord:
    """The bytes of one record, the same for all readers."""

    __slots__ = ("__weakref__", "body")

    def __init__(self, body: bytes) -> None:
        self.body = body


class Reader:
    """One reader; `closed` is set when it has to end."""

    def __init__(self, token_id: str) -> None:
        self.token_id = token_id
        self.waiting: asyncio.Queue[Record] = asyncio.Queue(QUEUE)
        self.closed = asyncio.Event()

    def tell(self, records: Sequence[Record]) -> None:
        """Note records to send, or give up on this reader."""
        try:
            for record in records:
                self.waiting.put_nowait(record)
        except asyncio.QueueFull:
            self.closed.set()


class Feed:
    """Knows who listens and how far the journal has come."""

    def __init__(self, engine: Engine) -> None:
        self.position = engine.state.position
        self.readers: set[Reader] = set()
        self._engine = engine
        self._over = False
        self._frames: OrderedDict[int, SentRecord] = OrderedDict()
        self._under_way: WeakValueDictionary[int, SentRecord] = WeakValueDictionary()
        self._encodes_large = asyncio.Lock()
        engine.on_commit.append(self._tell)

    def close(self) -> None:
        """Disconnect all readers, and accept no more."""
        self._over = True
        for reader in self.readers:
            reader.closed.set()

    def admit(self, reader: Reader) -> Response | None:
        """Accept a reader, or return the answer that says why not."""
        later = {"Retry-After": "30"}
        if self._over or len(self.readers) >= MOST_READERS:
            return problem(503, "Too many readers listen to the feed.", "Try again later.", later)
        if sum(other.token_id == reader.token_id for other in self.readers) >= PLACES_OF_ONE:
            title = f"This token already listens to the feed {PLACES_OF_ONE} times."
            return problem(429, title, "End one of them, or give each program a token of its own.", later)
        self.readers.add(reader)
        return None

    async def records(self, reader: Reader, after: int) -> AsyncIterator[Record | None]:
        """The records after a position, then new ones; None when nothing came for a while."""
        while after < self.position and (missed := await self._engine.history(after, READ_AT_ONCE)):
            for record in missed:
                yield record
            after = missed[-1].position
            if after < self.position:
                # Still behind: the journal has all that waits here.
                reader.waiting = asyncio.Queue(QUEUE)
        while not reader.closed.is_set():
            came: Record | None = None
            # Not wait_for, which in Python 3.11 may swallow that we are cancelled.
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    came = await reader.waiting.get()
            if came is None or came.position > after:
                after = after if came is None else came.position
                yield came

    async def frame(self, record: Record) -> SentRecord:
        """A record as it is sent, encoded once for all readers."""
        if isinstance(record.transition, LARGE):
            return await self._large_frame(record)
        if (known := self._frames.get(record.position)) is not None:
            return known
        made = _frame(record)
        if len(made.body) <= LONGEST_KEPT:
            self._frames[record.position] = made
            if len(self._frames) > FRAMES_KEPT:
                self._frames.popitem(last=False)
        return made

    async def _large_frame(self, record: Record) -> SentRecord:
        """It is encoded off the loop (S26), and kept while somebody is sending it."""
        async with self._encodes_large:
            if (known := self._under_way.get(record.position)) is None:
                known = self._under_way[record.position] = await self._engine.aside(lambda: _frame(record))
        return known

    def _tell(self, records: Sequence[Record]) -> None:
        self.position = records[-1].position
        changes = (record.transition for record in records)
        revoked = {change.token_id for change in changes if isinstance(change, TokenRevoked)}
        for reader in self.readers:
            if reader.token_id in revoked:
                reader.closed.set()
            else:
                reader.tell(records)


class FeedResponse(Response):
    """An answer without an end."""

    media_type = "text/event-stream"

    def __init__(self, feed: Feed, after: int, token_id: str) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._feed = feed
        self._after = min(after, feed.position)  # a reader that has seen more has read another journal
        self._reader = Reader(token_id)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the reader goes, is too slow, or we close."""
        if (refusal := self._feed.admit(self._reader)) is not None:
            await refusal(scope, receive, send)
            return
        ways_out = [self._send_all(send), gone(receive), self._reader.closed.wait()]
        tasks = [asyncio.ensure_future(way) for way in ways_out]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._feed.readers.discard(self._reader)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # A client that does not read cannot be told that it ends.
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        # An id without data: a client that loses the connection early knows where to go on from.
        await send(_chunk(b"id: %d\nretry: 2000\n\n" % self._after))
        sent = 0
        async for record in self._feed.records(self._reader, self._after):
            if record is None:
                await send(_chunk(b": still here\n\n"))
            elif not from_domain.is_quiet(record):
                await send_frame(send, await self._feed.frame(record))
            sent += 1
            if sent % SENT_AT_ONCE == 0:
                await asyncio.sleep(0)  # otherwise a full queue or a quick reader would keep VMs waiting


async def send_frame(send: Send, frame: SentRecord) -> None:
    """Send it in pieces: the next one when the reader has taken most of the last."""
    for start in range(0, len(frame.body), PIECE):
        await send(_chunk(frame.body[start : start + PIECE]))


async def gone(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _chunk(body: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": True}


def _frame(record: Record) -> SentRecord:
    head = f"id: {record.position}\nevent: {action_of(record)}\ndata: ".encode()
    return SentRecord(head + encode(from_domain.record(record)) + b"\n\n")
