"""The little D-Bus that systemd's jobs need: one connection, method calls, signals. Strings in, values out."""

import asyncio
import os
from contextlib import suppress
from typing import Any

from duenotice.agent.handlers.base import HandlerFailed, TryAgain
from duenotice.agent.handlers.dbus_wire import (
    DESTINATION,
    ERROR,
    ERROR_NAME,
    INTERFACE,
    MEMBER,
    PATH,
    REPLY_SERIAL,
    SIGNAL,
    Message,
    encode_call,
    read_message,
)

SYSTEM_BUS = "/run/dbus/system_bus_socket"


class CallFailed(HandlerFailed):
    """The other side of D-Bus answered a call with an error."""


class Connection:
    """`async with Connection(socket) as bus:` — authenticated as this user and known to the bus."""

    def __init__(self, socket: str = SYSTEM_BUS) -> None:
        self._socket = socket
        self._serial = 0
        self.signals: list[Message] = []

    async def __aenter__(self) -> "Connection":
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(self._socket)
        except OSError as error:
            raise TryAgain(f"D-Bus does not answer at {self._socket}: {error}.", hint="Is it running?") from None
        try:
            await self._authenticate()
            await self.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello")
        except BaseException:
            self._writer.transport.abort()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()

    async def call(self, to: str, path: str, interface: str, member: str, *arguments: str) -> list[Any]:
        """Call a method whose arguments are strings; returns the values of its answer. Signals are kept for later."""
        self._serial += 1
        fields = {PATH: path, INTERFACE: interface, MEMBER: member, DESTINATION: to}
        self._writer.write(encode_call(self._serial, fields, list(arguments)))
        while True:
            message = await self._receive()
            if message.fields.get(REPLY_SERIAL) != self._serial:
                self._keep(message)
            elif message.kind == ERROR:
                raise CallFailed(f"{message.fields.get(ERROR_NAME, '?')}: {(message.body or [''])[0]}")
            else:
                return message.body

    async def next_signal(self) -> Message:
        """The oldest signal that was not taken yet; waits for one."""
        while not self.signals:
            self._keep(await self._receive())
        return self.signals.pop(0)

    def _keep(self, message: Message) -> None:
        if message.kind == SIGNAL:
            self.signals.append(message)

    async def _authenticate(self) -> None:
        identity = str(os.geteuid()).encode().hex()
        self._writer.write(b"\0AUTH EXTERNAL " + identity.encode() + b"\r\n")
        answer = await self._reader.readline()
        if not answer.startswith(b"OK "):
            raise HandlerFailed(f"D-Bus refused this user: {answer.decode(errors='replace').strip()}.")
        self._writer.write(b"BEGIN\r\n")

    async def _receive(self) -> Message:
        with suppress(asyncio.IncompleteReadError, OSError):
            return await read_message(self._reader)
        raise TryAgain("D-Bus closed the connection.", hint="See the journal of dbus.")
