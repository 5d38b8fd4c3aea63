"""`log`: writes the event for people, to systemd's journal or as JSON lines."""

import json
import os
import socket
import struct
import sys
from typing import Literal

from msgspec import Struct

from duenotice.agent.handlers.base import Handler, HandlerContext, HandlerFailed
from duenotice.clock import wall
from duenotice.escape import one_line
from duenotice.wire.seen_documents import event_to_json

JOURNAL = "/run/systemd/journal/socket"
LONGEST_VALUE = 8_000
NOTICE = "5"
"""syslog's priority: normal but significant."""


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """`file` needs a `path`; `journald` may have one."""

    to: Literal["journald", "stderr", "file"] = "journald"
    path: str = ""
    """The file, or the socket of systemd's journal."""

    def __post_init__(self) -> None:
        if self.to == "file" and not self.path.startswith("/"):
            raise ValueError('to = "file" needs an absolute `path`')
        if self.to == "stderr" and self.path:
            raise ValueError('to = "stderr" has no `path`')


class Log(Handler[Options]):
    """One entry when preparation begins and one when the event is over."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        await context.note("logged", True)
        self._write("prepare", f"{_named(context)} is coming", context)

    async def recover(self, context: HandlerContext) -> None:
        if context.notes.get("logged"):
            self._write("recover", f"{_named(context)} is over", context)
            await context.note("logged", False)

    def _write(self, phase: str, message: str, context: HandlerContext) -> None:
        try:
            if self._options.to == "journald":
                _send(self._options.path or JOURNAL, journal_entry(phase, message, context))
            else:
                _append(self._options.path, json_line(phase, message, context))
        except OSError as error:
            where = self._options.path or self._options.to
            raise HandlerFailed(f"Cannot write to {where}: {error.strerror}.", hint="Check the path.") from None


def json_line(phase: str, message: str, context: HandlerContext) -> bytes:
    """One line, in ASCII only, so that no name can begin another line."""
    head = {"time": wall().isoformat(timespec="milliseconds"), "message": message, "phase": phase, "vm": context.vm}
    return json.dumps(head | {"drill": context.drill, "event": event_to_json(context.event)}).encode() + b"\n"


def journal_entry(phase: str, message: str, context: HandlerContext) -> bytes:
    """journald's native form; values have their length, so none can forge a field, and are made visible (S28)."""
    event = context.event
    fields = {
        "MESSAGE": message,
        "PRIORITY": NOTICE,
        "SYSLOG_IDENTIFIER": "duenotice-agent",
        "DUENOTICE_EVENT_ID": event.event_id,
        "DUENOTICE_EVENT_TYPE": event.type,
        "DUENOTICE_EVENT_STATUS": event.status,
        "DUENOTICE_EVENT_RESOURCES": ",".join(event.resources),
        "DUENOTICE_EVENT_DESCRIPTION": event.description,
        "DUENOTICE_EVENT_PHASE": phase,
        "DUENOTICE_VM": context.vm,
    }
    return b"".join(_field(name, one_line(value[:LONGEST_VALUE])[:LONGEST_VALUE]) for name, value in fields.items())


def _field(name: str, value: str) -> bytes:
    data = value.encode(errors="replace")
    return name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"


def _named(context: HandlerContext) -> str:
    event = context.event
    drill = " (drill)" if context.drill else ""
    return f"{event.type} {event.event_id} of {', '.join(event.resources)}{drill}"


def _send(path: str, entry: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as journal:
        journal.sendto(entry, path)


def _append(path: str, line: bytes) -> None:
    if not path:
        sys.stderr.buffer.write(line)
        sys.stderr.flush()
        return
    # Never through a link: the agent is root, and the folder may belong to another user.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    try:
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)
