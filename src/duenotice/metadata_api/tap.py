"""Copies every byte of connections, for judging clients; a door without a tap has no cost from it."""

import asyncio
from typing import Any, Protocol, cast

from duenotice.metadata_api.caller import plain_address
from duenotice.metadata_api.door import Door
from duenotice.metadata_api.protocol import Connection


class TappedLine(Protocol):
    """One connection, overheard."""

    def received(self, data: bytes) -> None:
        """The client has sent this."""

    def sent(self, data: bytes) -> None:
        """The client is sent this."""

    def ended(self) -> None:
        """The client will send no more."""

    def closed(self) -> None:
        """The connection is gone."""


class Tap(Protocol):
    """A listener that gets all bytes."""

    def opened(self, address: str) -> TappedLine:
        """A client has connected."""


class TappedConnection(Connection):
    """A connection that tells a line what passes over it."""

    __slots__ = ("_line", "_tap")

    def __init__(self, door: Door, tap: Tap) -> None:
        super().__init__(door)
        self._tap = tap

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Put ourselves between the connection and its transport."""
        self._line = self._tap.opened(plain_address((transport.get_extra_info("peername") or ("",))[0]))
        super().connection_made(cast(asyncio.Transport, _Overheard(transport, self._line)))

    def data_received(self, data: bytes) -> None:
        """Tell first, so that a request is known before its answer."""
        self._line.received(data)
        super().data_received(data)

    def eof_received(self) -> bool:
        """Tell that the client has closed, as far as that can be known."""
        self._line.ended()
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell that it is over."""
        self._line.closed()
        super().connection_lost(error)


class _Overheard:
    """A transport whose writes are told; everything else is the transport's own."""

    __slots__ = ("_line", "_transport")

    def __init__(self, transport: asyncio.BaseTransport, line: TappedLine) -> None:
        self._transport, self._line = cast(asyncio.Transport, transport), line

    def write(self, data: bytes) -> None:
        """Tell and send."""
        self._line.sent(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
