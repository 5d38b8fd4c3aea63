"""`haproxy`: drains servers through the runtime socket, waits for their sessions, and puts back what it drained."""

import asyncio
import csv
import re
from typing import Annotated

from msgspec import Meta, Struct

from duenotice.agent.handlers.base import (
    Handler,
    HandlerContext,
    HandlerFailed,
    SpanSeconds,
    TryAgain,
    seconds_left,
    until,
)
from duenotice.clock import monotonic
from duenotice.errors import Misconfigured
from duenotice.settings import parse_listen

MAINTENANCE, DRAIN = 0x01, 0x08
"""Bits of srv_admin_state that an administrator sets; the others have other causes."""
LONGEST_ANSWER = 16 * 1024 * 1024
_NEEDS_ADMIN = "Is this HAProxy's socket, with `level admin`?"
_SERVER = re.compile(r"[\w.:-]+/[\w.:-]+", re.ASCII)


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """Which servers (`backend/server`), and where HAProxy listens for commands: a path or HOST:PORT."""

    servers: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Each as `backend/server`."""
    socket: str = "/run/haproxy/admin.sock"
    """A path, or HOST:PORT."""
    limit: SpanSeconds | None = None
    """How long to wait for sessions to end, before going on anyway. Without it, all must end in time."""

    def __post_init__(self) -> None:
        for server in self.servers:
            if not _SERVER.fullmatch(server):
                raise ValueError(f"{server!r} is not BACKEND/SERVER")
        if not self.socket.startswith("/"):
            _address(self.socket)


class Haproxy(Handler[Options]):
    """Does not touch servers that somebody else has drained or taken out."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        states = await self._states()
        ours = [server for server in self._options.servers if not states[server] & (MAINTENANCE | DRAIN)]
        await context.note("drained", sorted({*context.notes.get("drained", []), *ours}))
        for server in ours:
            await self._ask(f"set server {server} state drain")
        await self._wait_for_sessions(context)

    async def recover(self, context: HandlerContext) -> None:
        drained = context.notes.get("drained", [])
        states = await self._states() if drained else {}
        for server in drained:
            # Maintenance replaces drain: somebody took the server out for another reason, so it stays out.
            if states[server] & DRAIN:
                await self._ask(f"set server {server} state ready")

    async def undone(self, context: HandlerContext) -> str:
        """HAProxy has been reloaded, or somebody has given a server its traffic back."""
        states = await self._states()
        ready = [server for server in context.notes.get("drained", []) if not states[server] & (MAINTENANCE | DRAIN)]
        return f"{', '.join(ready)} takes new sessions again" if ready else ""

    async def _wait_for_sessions(self, context: HandlerContext) -> None:
        limit = self._options.limit
        enough = context.deadline if limit is None else monotonic() + min(limit, seconds_left(context))

        async def idle() -> bool:
            return await self._sessions() == 0 or (limit is not None and monotonic() >= enough)

        await until(context, f"sessions of {', '.join(self._options.servers)} to end", idle)

    async def _sessions(self) -> int:
        rows = csv.DictReader((await self._table("show stat")).splitlines())
        ours = [row for row in rows if f"{row['pxname']}/{row['svname']}" in self._options.servers]
        return sum(int(row["scur"] or 0) + int(row["qcur"] or 0) for row in ours)

    async def _states(self) -> dict[str, int]:
        head, *lines = (await self._table("show servers state")).splitlines()
        rows = [dict(zip(head.split(), line.split(), strict=False)) for line in lines if line]
        states = {f"{row['be_name']}/{row['srv_name']}": int(row["srv_admin_state"]) for row in rows}
        if missing := [server for server in self._options.servers if server not in states]:
            raise HandlerFailed(f"HAProxy has no server {missing[0]}.", hint=f"It has: {', '.join(sorted(states))}.")
        return states

    async def _table(self, command: str) -> str:
        """An answer from its heading on; an answer without a heading is an error."""
        complaint, heading, table = (await self._ask(command)).partition("# ")
        if not heading:
            raise HandlerFailed(f"HAProxy refused {command!r}: {complaint.strip()[:200]}", hint=_NEEDS_ADMIN)
        return table

    async def _ask(self, command: str) -> str:
        try:
            answer = await _exchange(self._options.socket, command)
        except OSError as error:
            raise TryAgain(f"HAProxy does not answer at {self._options.socket}: {error}.", hint="Is it up?") from None
        if command.startswith("set ") and answer.strip():
            raise HandlerFailed(f"HAProxy refused {command!r}: {answer.strip()}", hint=_NEEDS_ADMIN)
        return answer


async def _exchange(socket: str, command: str) -> str:
    opened = (
        asyncio.open_unix_connection(socket) if socket.startswith("/") else asyncio.open_connection(*_address(socket))
    )
    reader, writer = await opened
    try:
        writer.write(command.encode() + b"\n")
        answer = b""
        while (chunk := await reader.read(65536)) and len(answer) < LONGEST_ANSWER:
            answer += chunk
        return answer.decode(errors="replace")
    finally:
        writer.transport.abort()


def _address(socket: str) -> tuple[str, int]:
    try:
        return parse_listen("socket", socket)
    except Misconfigured as error:
        raise ValueError(error.message) from None
