"""One connection of a VM as asyncio sees it: its calls, and the warm path of the poll that most VMs send.

All else is in `conversation`.
"""

import asyncio
import os
from collections.abc import Callable
from typing import cast

from duenotice.metadata_api.answers import THROTTLED
from duenotice.metadata_api.bare_connection import BareConnection
from duenotice.metadata_api.caller import plain_address
from duenotice.metadata_api.connection_states import IDLE, LAST
from duenotice.metadata_api.conversation import MOVES, VmConversation
from duenotice.metadata_api.door import Door
from duenotice.metadata_api.questions import VmRequest
from duenotice.metadata_api.responses import document_tail, error

READ_AHEAD = 4096
"""Bytes read with a new connection; more than any request that is remembered has."""

TOO_MANY = error(429, "Too many connections. Close some, or keep one open and use it again.", "Retry-After: 1")


def warm_answer(door: Door, address: str, ask: VmRequest) -> bytes | None:
    """The answer to the one request that most VMs send once a second, in as few steps as possible; None for others.

    A refusal is as short: who asks too often must cost the others nothing (A08). After many of them it is left to the
    long way, which ends the connection.
    """
    if (version := ask.plain) is None or (lane := door.lanes.get(address)) is None:
        return None
    if not (page := lane.page).enabled:
        return None
    if not lane.polls.take((pulse := door.pulse).now):
        return pulse.heading.render(THROTTLED, ask.connection) if lane.refusals.take(pulse.now) else None
    try:
        tail = page.rendered[version.index] or document_tail(page, version)
    except Exception:
        return None  # the long way fails too, and reports it
    page.last_poll = pulse.steady
    return pulse.heading.ok(ask.connection, tail)


def fresh_answer(door: Door, address: str, ask: VmRequest) -> bytes | None:
    """The same for a VM that has not asked before, or whose document has changed since; it was admitted already."""
    if (version := ask.plain) is None:
        return None
    try:
        if door.callers.find(address) is None or (lane := door.lanes.get(address)) is None:
            return None
        if not (page := door.callers.page_of(lane)).enabled:
            return None
        tail = document_tail(page, version)
    except Exception:
        return None  # the long way fails too, and reports it
    page.last_poll = door.pulse.steady
    return door.pulse.heading.ok(ask.connection, tail)


class Connection(VmConversation):
    """A client's connection."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # There is no peer name when the client has reset the connection before we took it up.
        self.address = plain_address((transport.get_extra_info("peername") or ("",))[0])
        self.deadline = self.door.pulse.request_until
        if self.door.crowd.enter(self):
            self._read_ahead()
        else:
            self._turn_away()

    def _read_ahead(self) -> None:
        """Take what came with the connection; the loop begins to read only after this, and asks the kernel first."""
        try:
            data = os.read(self.transport.get_extra_info("socket").fileno(), READ_AHEAD)
        except OSError:
            return
        if data:
            self.data_received(data)
        else:
            self.close()

    def data_received(self, data: bytes) -> None:
        """Answer a request that is known and asked for often; leave all others."""
        door = self.door
        if self.reader is None and (ask := door.known.get(data)) is not None:
            answer = warm_answer(door, self.address, ask)
            if answer is not None:
                self.deadline = door.pulse.idle_until
                self.transport.write(answer)
                if ask.closes:
                    self.close()
                return
        MOVES[self.state].bytes_came(self, data)

    def eof_received(self) -> bool:
        """The client sends no more, but may still read. If nothing is pending, the connection ends."""
        self.ended = True
        stays = self.state not in (IDLE, LAST)
        MOVES[self.state].client_ended(self)
        return stays

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        MOVES[self.state].writing_paused(self)

    def resume_writing(self) -> None:
        """It does again."""
        MOVES[self.state].writing_resumed(self)

    def expire(self) -> None:
        """The deadline has passed."""
        MOVES[self.state].deadline_passed(self)

    def drain(self) -> None:
        """The service is about to stop: answer who waits, close what is idle, let the rest finish."""
        MOVES[self.state].server_stops(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """In every state the same: it is over."""
        self.state = LAST
        self.door.waiting.let_go(self)
        self.door.leave(self)

    def _turn_away(self) -> None:
        """Too many connections: say so, as long as there are not too many even for that."""
        if self.door.crowd.is_flooded_by(self):
            self.transport.abort()
        else:
            self.say_goodbye(TOO_MANY)

    def send_rest(self, data: bytes, closes: bool) -> None:
        """The rest of an answer that did not fit into the kernel."""
        self.deadline = self.door.pulse.idle_until
        self.transport.write(data)
        if closes:
            self.close()


GoOn = Callable[[Connection], None]


class TakenOver(Connection):
    """A connection that was bare until now: it takes its place and goes on where that was."""

    __slots__ = ("_bare", "_go_on")

    def __init__(self, door: Door, bare: BareConnection, go_on: GoOn) -> None:
        super().__init__(door)
        self._bare, self._go_on = bare, go_on

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Its place is its own: it may have been the last one."""
        self.transport = cast(asyncio.Transport, transport)
        self.address, self.deadline = self._bare.address, self._bare.deadline
        self.door.crowd.leave(self._bare)
        self.door.crowd.enter(self)
        self._go_on(self)
        del self._bare, self._go_on
