"""The stream of one follower: what it has missed, then what happens, each record encoded once for all who listen.

A stream first catches up with the journal; then its follower joins, and from then on nothing is shown that it has not
hidden (`engine/followers.py`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from msgspec import Raw, structs
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duenotice.clock import seconds
from duenotice.domain.fleet import Vm
from duenotice.domain.records import (
    FleetDeclared,
    GroupsPut,
    GroupsRemoved,
    Record,
    SessionBegun,
    SessionEnded,
    SubscriptionCreated,
    TokenCreated,
)
from duenotice.domain.snapshot import Snapshot, partial_snapshot
from duenotice.domain.state import State
from duenotice.engine.engine import Engine
from duenotice.engine.followers import Followers
from duenotice.engine.interest import Interest
from duenotice.engine.writer import News
from duenotice.operator_api.answers import encode
from duenotice.operator_api.feed import LARGE, READ_AT_ONCE, gone
from duenotice.store.codec import RECORDS, SNAPSHOTS
from duenotice.wire import replication as f

LINES = "application/x-ndjson"
FEW = 20
"""Records that are encoded on the loop, if none is large; VMs that are looked at there."""

FOR_ALL = (FleetDeclared, GroupsPut, GroupsRemoved)
"""Changes that touch no scope, but what VMs are told about themselves (A12)."""

Chooses = Callable[[Vm], bool]


class Lines:
    """Records as lines, encoded once for all who listen; many or large ones off the loop (S26)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._made: tuple[tuple[int, int], asyncio.Future[bytes]] | None = None

    async def of(self, records: Sequence[Record]) -> bytes:
        """All of them."""
        span = (records[0].position, records[-1].position)
        if self._made is None or self._made[0] != span:
            self._made = (span, asyncio.ensure_future(self._encoded(records)))
        return await asyncio.shield(self._made[1])

    async def _encoded(self, records: Sequence[Record]) -> bytes:
        if len(records) <= FEW and not any(isinstance(record.transition, LARGE) for record in records):
            return _written(records)
        return await self._engine.aside(lambda: _written(records))


class FollowerEar:
    """Where one follower listens: what is still to be sent, and the VMs that it answers."""

    def __init__(self, engine: Engine, lines: Lines, choice: Chooses | None) -> None:
        self.waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.choice, self.interest = choice, Interest(choice)
        self._engine, self._lines = engine, lines

    async def hear(self, news: News) -> bool:
        """Of all records, or of their result for the chosen VMs. The state stays as it is while we are here."""
        if self.choice is None:
            self.waiting.put_nowait(await self._lines.of(news.records))
            return True
        interest, touched, vms = self.interest, news.touched, news.state.fleet.vms
        if len(touched.vms) <= FEW:
            is_met = interest.take(touched, vms)
        else:
            is_met = await self._engine.aside(lambda: interest.take(touched, vms))
        if is_met or any(isinstance(record.transition, FOR_ALL) for record in news.records):
            chosen = tuple(self.interest.names)
            self.waiting.put_nowait(await self._engine.aside(lambda: _part(partial_snapshot(news.state, chosen))))
        else:
            self.waiting.put_nowait(_line(f.Skipped(news.records[-1].position)))
        return is_met

    def hear_hold(self, position: int) -> None:
        """Hide what is up to here, until it may be shown."""
        self.waiting.put_nowait(_line(f.Hold(position)))

    def hear_shown(self, position: int) -> None:
        """All up to here may be shown."""
        self.waiting.put_nowait(_line(f.Visible(position)))

    def dismiss(self) -> None:
        """Say that it is over."""
        self.waiting.put_nowait(_line(f.Goodbye()))

    def close(self) -> None:
        """End the stream."""
        self.closed.set()


class FollowResponse(Response):
    """A stream for one follower."""

    media_type = LINES

    def __init__(
        self,
        engine: Engine,
        followers: Followers,
        ear: FollowerEar,
        life: str,
        after: int,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._engine, self._followers, self._ear = engine, followers, ear
        self._life, self._after, self._on_end = life, after, on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the follower goes or is put out, or we close."""
        ways_out = [self._send_all(send), gone(receive), self._ear.closed.wait()]
        tasks = [asyncio.ensure_future(way) for way in ways_out]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._followers.ended(self._life, self._ear)
            self._on_end()
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(1.0):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        catch_up = self._catch_up if self._ear.choice is None else self._choose
        async for lines in catch_up():
            await send({"type": "http.response.body", "body": lines, "more_body": True})
        async for lines in self._live():
            await send({"type": "http.response.body", "body": lines, "more_body": True})

    async def _catch_up(self) -> AsyncIterator[bytes]:
        """What the follower has missed; then it joins."""
        after = self._after
        while after < self._followers.told:
            missed = await self._engine.history(after, READ_AT_ONCE)
            yield await self._engine.aside(lambda records=missed: _written(records))  # type: ignore[misc]
            after = missed[-1].position
        yield self._join(self._followers.told)

    async def _choose(self) -> AsyncIterator[bytes]:
        """What the chosen VMs are answered from, and what waits to be shown, if it concerns them (N17)."""
        choice, followers, ahead = self._ear.choice, self._followers, None
        with followers.noted() as changed:
            interest = await self._engine.look(lambda state: Interest(choice, state.fleet.vms.values()))
            interest.follow(changed, self._engine.state.fleet.vms)
            self._ear.interest, frozen, chosen = interest, self._engine.publisher.freeze(), tuple(interest.names)
            news, owes = followers.pending, frozen.position
            if news is not None and interest.take(news.touched, news.state.fleet.vms):
                owes, ahead = followers.told, partial_snapshot(news.state, tuple(interest.names))
            hello, hold = self._join(owes), _line(f.Hold(followers.asked))
        yield await self._engine.aside(lambda: _part(partial_snapshot(frozen, chosen)))
        yield hello
        if ahead is not None:
            yield await self._engine.aside(lambda: _part(ahead)) + hold

    def _join(self, owes: int) -> bytes:
        self._followers.join(self._life, self._ear, self._after, owes)
        followers = self._followers
        return _line(f.Joined(followers.shown, followers.terms.lease, followers.asked))

    async def _live(self) -> AsyncIterator[bytes]:
        """What comes, and a sign of life when nothing does."""
        quiet = seconds(self._followers.terms.lease) / 3
        while True:
            came = b""
            with suppress(TimeoutError):
                async with asyncio.timeout(quiet):
                    came = await self._ear.waiting.get()
            yield came or _line(f.Visible(self._followers.shown))


def chosen_of(state: State, choice: Chooses) -> list[str]:
    """The names of the VMs that are chosen."""
    return [vm.name for vm in state.fleet.vms.values() if choice(vm)]


def _told(record: Record) -> Record:
    match record.transition:
        case TokenCreated(token):
            return structs.replace(record, transition=TokenCreated(structs.replace(token, digest="")))
        case FleetDeclared(file=file) as declared if file is not None:
            return structs.replace(record, transition=structs.replace(declared, file=None))
        case SubscriptionCreated(known):
            return structs.replace(record, transition=SubscriptionCreated(known.without_secrets()))
        case SessionBegun(session, name):
            return structs.replace(record, transition=SessionBegun(structs.replace(session, digest=""), name))
        case SessionEnded(_, name, reason):
            return structs.replace(record, transition=SessionEnded("", name, reason))
    return record


def _written(records: Sequence[Record]) -> bytes:
    rows = (RECORDS.pack(_told(record)) for record in records)
    return b"".join(_line(f.LogRecord(*row[:3], Raw(row.payload))) for row in rows)


def _part(part: Snapshot) -> bytes:
    row = SNAPSHOTS.pack(part)
    return _line(f.PartialSnapshot(*row[:3], Raw(row.payload)))


def _line(line: f.Line) -> bytes:
    return encode(line) + b"\n"
