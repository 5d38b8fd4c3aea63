"""What is logged and how: one line per committed change, JSON unless on a terminal; polls are not logged."""

import asyncio
import atexit
import json
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, NoReturn, TextIO, cast

import msgspec
import structlog

from duenotice.clock import wall
from duenotice.domain import records as t
from duenotice.domain.event import Event
from duenotice.domain.plan import Status
from duenotice.domain.state import Scope, State
from duenotice.domain.token import session_id
from duenotice.escape import each_in_one_line, lines

WAITING_LINES = 10_000
LAST_SECONDS = 1.0
GATHER_SECONDS = 0.02
"""How long a line may wait for others, so that they are written together."""
CHANGES_SECONDS = 0.1
"""How long lines about changes may wait."""
LINES_AT_ONCE, PAUSE_SECONDS = 4, 0.002
"""Lines about changes that are made in one go, and then a pause: the next command waits for all of them."""
_SHARE, _MOST_AT_ONCE = 16, 400
"""If more wait, one in so many of them is made in one go, up to a limit."""
_FEW_LINES, _SHORT_SECONDS = 500, 0.0005
"""So few are made by the thread that writes, with these pauses, mostly while a command waits for the disk. It gets too
little time to make very many."""


def configure(log_format: str, stream: TextIO | None = None) -> None:
    """Lines on standard error or into a file, for people on a terminal and for machines elsewhere."""
    writer = _Writer(stream or sys.stderr)
    _WRITERS.append(writer)
    atexit.register(writer.drain, LAST_SECONDS)
    console = log_format == "console" or (log_format == "auto" and (stream or sys.stderr).isatty())
    people = structlog.dev.ConsoleRenderer(event_key="message")
    renderers = (_plain, people) if console else (_MACHINES,)  # JSON is all ASCII: nothing in it acts on a terminal
    logging.getLogger("asyncio").handlers = [ToOurLog(logging.WARNING)]
    structlog.configure(
        processors=[
            *([_drop] if log_format == "none" else []),
            structlog.processors.add_log_level,
            _stamped,
            structlog.processors.format_exc_info,
            # "event" is a word we keep for scheduled events.
            structlog.processors.EventRenamer("message"),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=cast(TextIO, writer)),
        cache_logger_on_first_use=True,
    )


def _as_json(line: object, default: Callable[[Any], Any]) -> str:
    """All ASCII, so that nothing in it acts on a terminal (S28). Nearly all lines are; msgspec makes these quickly."""
    try:  # not `suppress`, which takes as long as the rest
        quickly = msgspec.json.format(msgspec.json.encode(line), indent=0)
        if quickly.isascii() and b"\x7f" not in quickly:
            return quickly.decode()
    except (TypeError, ValueError, RecursionError):
        pass
    return json.dumps(line, default=default)


_MACHINES = structlog.processors.JSONRenderer(_as_json)


def _drop(*_: object) -> NoReturn:
    """Log nothing, whatever it is."""
    raise structlog.DropEvent


def _stamped(_: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """With the time of day, whatever year the clock shows: a line is never lost by that."""
    line["timestamp"] = wall().replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    return line


def _plain(_: object, __: str, line: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Only our own colours reach a terminal (S28). A stack trace has many lines, everything else has one."""
    trace = {"exception": lines(str(line["exception"]))} if "exception" in line else {}
    return {**each_in_one_line(dict(line)), **trace}


class ToOurLog(logging.Handler):
    """Messages of libraries, as lines like all others."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        log.warning(record.getMessage(), action="library", library=record.name, exc_info=record.exc_info or None)


class _Writer:
    """A stream behind a thread: a pipe that nobody reads, or a full disk, does not delay VMs.

    Lines that do not fit are dropped and counted. Only the journal must always be written.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: list[str | _Line] = []
        self._unwritten, self._dropped, self._is_urgent = 0, 0, False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def write(self, *lines: "str | _Line") -> None:
        with self._changed:
            was_idle, taken = not self._lines, lines[: WAITING_LINES - self._unwritten]
            self._lines += taken
            self._unwritten += len(taken)
            self._dropped += len(lines) - len(taken)
            if was_idle and taken:
                self._changed.notify_all()

    def flush(self) -> None:
        """Nothing: the thread writes and flushes."""

    def drain(self, seconds: float) -> None:
        """Give the last lines a chance."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._unwritten, seconds)
            self._is_urgent = False

    def _run(self) -> None:
        while True:
            lines, dropped = self._next()
            note = f"({dropped} lines were dropped here)\n" if dropped else ""
            with suppress(OSError, ValueError):
                self._stream.write("".join(self._made(lines)) + note)
                self._stream.flush()
            with self._changed:
                self._unwritten -= len(lines)
                self._changed.notify_all()

    def _made(self, lines: Sequence["str | _Line"]) -> Iterator[str]:
        """The text of each. After a few comes a pause: commands and VMs wait for this thread while it works (S26)."""
        for number, line in enumerate(lines):
            if isinstance(line, str):
                yield line
                continue
            if number % LINES_AT_ONCE == 0 and not self._is_urgent:
                time.sleep(_SHORT_SECONDS)
            yield line.for_machines()

    def _next(self) -> tuple[list["str | _Line"], int]:
        """All lines that came in a moment, to be written as one: to wake up for each would delay commands."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines)
            self._changed.wait_for(lambda: self._is_urgent, GATHER_SECONDS)
            lines, self._lines = self._lines, []
            dropped, self._dropped = self._dropped, 0
        return lines, dropped


_WRITERS: list[_Writer] = []


def drain() -> None:
    """Give the last lines a chance, for a process that ends at once."""
    for writer in _WRITERS:
        writer.drain(LAST_SECONDS)


class ChangeLog:
    """One line for each committed record that a person would want to read.

    Not at once: to make a line and to wake the thread that writes it costs as much as a small commit, and who asked for
    the change would have to wait for it.
    """

    def __init__(self) -> None:
        self._lines: deque[_Line] = deque()

    def add(self, records: Sequence[t.Record], state: State) -> None:
        """These records were committed, and led to this state."""
        at, scopes = wall(), state.scopes
        for record in records:
            change = record.transition
            if isinstance(change, t.QUIET):
                continue
            if not self._lines:
                asyncio.get_running_loop().call_later(CHANGES_SECONDS, self._write_some)
            failed = state.failures.get(change.event_id) if isinstance(change, t.EventFailed) else None
            vms = () if failed is None else failed.event.resources
            self._lines.append(_Line(at, record, scopes.get(_scope_of(change)), vms))

    def write(self) -> None:
        """Write all there is: the service is about to end."""
        _write_all([*self._lines])
        self._lines.clear()

    def _write_some(self) -> None:
        """A few, and then a pause, so that VMs and commands get their turn (S26)."""
        waiting = len(self._lines)
        if waiting <= _FEW_LINES and _for_machines():
            _WRITERS[-1].write(*self._lines)
            self._lines.clear()
            return
        some = min(waiting, _MOST_AT_ONCE, max(LINES_AT_ONCE, waiting // _SHARE))
        _write_all([self._lines.popleft() for _ in range(some)])
        if self._lines:
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self._write_some)


class _Line(NamedTuple):
    """What has happened and when, and its scope as it was then. What is said of it is made when it is written.

    `vms` are those on which an event has failed: its record does not name them.
    """

    at: datetime
    record: t.Record
    scope: Scope | None = None
    vms: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return str(self.record.transition.__struct_config__.tag).replace("-", " ")

    @property
    def level(self) -> str:
        """What needs a person stands out: an error when something was not done, a warning when it is tried again."""
        match self.record.transition:
            case t.EventFailed() | t.MaintenanceChanged(status=Status.FAILED):
                return "error"
            case t.ImpactFailed():
                return "warning"
        return "info"

    def said(self) -> dict[str, object]:
        """Its fields, as people and machines read them."""
        line = _line(self.record)
        if self.scope is not None and "scope" in line:
            line["incarnation"] = self.scope.incarnation
        if self.vms:
            line["vms"] = self.vms
        return line

    def for_machines(self) -> str:
        """The same text that structlog would make of it, in a third of the time."""
        at = self.at.isoformat().removesuffix("+00:00") + "Z"
        return _as_json({**self.said(), "level": self.level, "timestamp": at, "message": self.message}, repr) + "\n"


def _for_machines() -> bool:
    """Whether lines are JSON."""
    processors = structlog.get_config()["processors"]
    return processors[-1:] == [_MACHINES] and _drop not in processors


def _write_all(lines: list[_Line]) -> None:
    if _for_machines():
        _WRITERS[-1].write(*(line.for_machines() for line in lines))
        return
    log = structlog.get_logger()
    for line in lines:
        log.log(logging.getLevelNamesMapping()[line.level.upper()], line.message, **line.said())


def _scope_of(change: t.Transition) -> str:
    event: Event | None = getattr(change, "event", None)
    return getattr(change, "scope", "") if event is None else event.scope


def _line(record: t.Record) -> dict[str, object]:
    action = record.transition.__struct_config__.tag
    return {"action": action, "position": record.position, "actor": record.actor, **_details(record.transition)}


def _details(transition: t.Transition) -> dict[str, object]:
    match transition:
        case (
            t.EventRaised(event)
            | t.EventMoved(event)
            | t.EventNarrowed(event)
            | t.EventPostponed(event)
            | t.EventStarted(event)
        ):
            return {"event_id": event.id, "type": event.type.value, "scope": event.scope, "vms": event.resources}
        case t.EventApproved(event_id, scope) | t.EventCompleted(event_id, scope) | t.ImpactAccepted(event_id, scope):
            return {"event_id": event_id, "scope": scope}
        case t.EventCancelled(event_id, scope, reason) | t.EventFailed(event_id, scope, reason):
            return {"event_id": event_id, "scope": scope, "reason": reason}
        case t.FailureAcknowledged(event_id, scope, note):
            return {"event_id": event_id, "scope": scope, "note": note}
        case t.MaintenanceChanged(maintenance_id, status, reason):
            return {"maintenance": maintenance_id, "status": status.value, "reason": reason}
        case t.ImpactClaimed(event_id, scope, attempt, node):
            return {"event_id": event_id, "scope": scope, "attempt": attempt, "node": node}
        case t.ImpactFailed(event_id, scope, attempt, reason):
            return {"event_id": event_id, "scope": scope, "attempt": attempt, "reason": reason}
        case t.ScopeEnabled(scope) | t.ScopeDisabled(scope):
            return {"scope": scope}
        case t.VmsPut(vms):
            return {"vms": len(vms)}
        case t.VmsRemoved(names):
            return {"vms": names[:10]}
        case t.TokenCreated(token):
            return {"token": token.name, "role": token.role.value}
        case t.TokenRevoked(name=name):
            return {"token": name}
        case t.SessionBegun(session, name):
            return {"token": name, "session": session_id(session.digest)}
        case t.SessionEnded(digest, name, reason):
            return {"token": name, "session": session_id(digest), **({"reason": reason} if reason else {})}
        case t.OperationPerformed(vm, operation):
            return {"vm": vm, "operation": operation}
    return _of_subscription(transition)


def _of_subscription(transition: t.Transition) -> dict[str, object]:
    match transition:
        case t.SubscriptionCreated(known):
            return {"subscription": known.id, "url": known.without_secrets().url}
        case t.SubscriptionTurned(subscription_id, status, reason):
            return {"subscription": subscription_id, "status": status.value, "reason": reason}
        case t.SubscriptionDeleted(subscription_id):
            return {"subscription": subscription_id}
        case t.SubscriptionReplayed(subscription_id, positions):
            return {"subscription": subscription_id, "messages": len(positions)}
        case t.PushDeadLettered(subscription_id, dead_letters):
            return {"subscription": subscription_id, "messages": len(dead_letters)}
    return {}
