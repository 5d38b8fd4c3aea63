"""What is logged and how: one line per committed change, JSON unless on a terminal; polls are not logged."""

import asyncio
import atexit
import json
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TextIO, cast

import msgspec
import structlog

from duenotice.domain import transitions as t
from duenotice.domain.state import State
from duenotice.plain_text import each_in_one_line, lines

WAITING_LINES = 10_000
LAST_SECONDS = 1.0
CHANGES_SECONDS = 0.02
"""How long lines about changes may wait."""
LINES_AT_ONCE = 20
"""Lines about changes that are made in one turn of the loop, at most; a line takes ten microseconds."""
FEW_LINES, TURNS = 2, 50
"""Fewer when few wait, so that a command that is done meanwhile waits for few: all in so many turns."""

_QUIET = (t.ClockMarked, t.RequestAnswered, t.PushNoted)


def configure(log_format: str, stream: TextIO | None = None) -> None:
    """Lines on standard error or into a file, for people on a terminal and for machines elsewhere."""
    writer = _Writer(stream or sys.stderr)
    _WRITERS.append(writer)
    atexit.register(writer.drain, LAST_SECONDS)
    console = log_format == "console" or (log_format == "auto" and (stream or sys.stderr).isatty())
    machines, people = structlog.processors.JSONRenderer(_as_json), structlog.dev.ConsoleRenderer(event_key="message")
    renderers = (_plain, people) if console else (machines,)  # JSON is all ASCII: nothing in it acts on a terminal
    logging.getLogger("asyncio").handlers = [ToOurLog(logging.WARNING)]
    structlog.configure(
        processors=[
            *([_drop] if log_format == "none" else []),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
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
    with suppress(TypeError, ValueError, RecursionError):
        quickly = msgspec.json.format(msgspec.json.encode(line), indent=0)
        if quickly.isascii() and b"\x7f" not in quickly:
            return quickly.decode()
    return json.dumps(line, default=default)


def _drop(*_: object) -> NoReturn:
    """Log nothing, whatever it is."""
    raise structlog.DropEvent


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
        self._lines: list[str] = []
        self._unwritten, self._dropped = 0, 0
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def write(self, text: str) -> None:
        with self._changed:
            if self._unwritten >= WAITING_LINES:
                self._dropped += 1
                return
            self._lines.append(text)
            self._unwritten += 1
            self._changed.notify_all()

    def flush(self) -> None:
        """Nothing: the thread writes and flushes."""

    def drain(self, seconds: float) -> None:
        """Give the last lines a chance."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unwritten, seconds)

    def _run(self) -> None:
        while True:
            lines, dropped = self._next()
            note = f"({dropped} lines were dropped here)\n" if dropped else ""
            with suppress(OSError, ValueError):
                self._stream.write("".join(lines) + note)
                self._stream.flush()
            with self._changed:
                self._unwritten -= len(lines)
                self._changed.notify_all()

    def _next(self) -> tuple[list[str], int]:
        """All lines that wait, to be written as one: to write each takes longer than to make it."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines)
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
        self._lines: deque[dict[str, object]] = deque()

    def add(self, records: Sequence[t.Record], state: State) -> None:
        """These records were committed, and led to this state."""
        lines = [_line_in(state, record) for record in records if not isinstance(record.transition, _QUIET)]
        if lines and not self._lines:
            asyncio.get_running_loop().call_later(CHANGES_SECONDS, self._write_some)
        self._lines += lines

    def write(self) -> None:
        """Write all there is: the service is about to end."""
        log = structlog.get_logger()
        while self._lines:
            _write(log, self._lines.popleft())

    def _write_some(self) -> None:
        """A few in each turn of the loop, so that VMs get their turn (S26)."""
        log = structlog.get_logger()
        for _ in range(min(lines_at_once(len(self._lines)), len(self._lines))):
            _write(log, self._lines.popleft())
        if self._lines:
            asyncio.get_running_loop().call_soon(self._write_some)


def lines_at_once(waiting: int) -> int:
    """How many lines are made in one turn of the loop, if so many wait."""
    return min(LINES_AT_ONCE, max(FEW_LINES, waiting // TURNS))


def _write(log: Any, line: dict[str, object]) -> None:
    log.info(str(line["action"]).replace("-", " "), **line)


def _line_in(state: State, record: t.Record) -> dict[str, object]:
    line = _line(record)
    scope = state.scopes.get(str(line.get("scope")))
    return line if scope is None else {**line, "incarnation": scope.incarnation}


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
        case t.PushSetAside(subscription_id, set_aside):
            return {"subscription": subscription_id, "messages": len(set_aside)}
    return {}
