"""What the agent says on standard error: one line for each action, readable on a terminal, JSON elsewhere; no secrets.

JSON lines suit journald. Control characters in texts from outside are escaped in both forms (S28).
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from duenotice.clock import monotonic, wall
from duenotice.errors import DuenoticeError
from duenotice.escape import one_line

SHORT_ID = 8
_RED, _PLAIN = "\x1b[31m", "\x1b[0m"
_SAME_AGAIN = 60.0
_last: dict[str, tuple[str, float]] = {}


def log(action: str, level: str = "info", **fields: Any) -> None:
    """Write one line; a full disk or a closed pipe does not stop the agent."""
    line = {"timestamp": wall().isoformat(timespec="milliseconds"), "level": level, "action": action, **fields}
    with suppress(OSError, ValueError):
        sys.stderr.write(_form(line) + "\n")
        sys.stderr.flush()


def configure(log_format: str) -> None:
    """`json`, `console`, or `auto`: console if standard error is a terminal."""
    global _form
    _form = FORMS[("console" if sys.stderr.isatty() else "json") if log_format == "auto" else log_format]


def as_json(line: dict[str, Any]) -> str:
    """For machines."""
    return one_line(json.dumps(line, ensure_ascii=False, default=str))


def for_people(line: dict[str, Any]) -> str:
    """`14:03:20  preparing     805C2F53 handler=drain`; red when something is wrong."""
    rest = dict(line)
    time, level, action = (str(rest.pop(key)) for key in ("timestamp", "level", "action"))
    event_id = str(rest.pop("event_id", ""))[:SHORT_ID]
    words = [event_id, *(f"{key}={_word(value)}" for key, value in rest.items())]
    text = one_line(f"{time[11:19]}  {action:<13} {' '.join(filter(None, words))}".rstrip())
    return f"{_RED}{text}{_PLAIN}" if level == "error" and _has_colours() else text


FORMS: dict[str, Callable[[dict[str, Any]], str]] = {"json": as_json, "console": for_people}
_form = as_json


def complain(action: str, error: Exception, **fields: Any) -> None:
    """One line about something that went wrong; the same problem is logged once a minute."""
    said, at = _last.get(action, ("", 0.0))
    if said == describe(error) and monotonic() < at + _SAME_AGAIN:
        return
    _last[action] = describe(error), monotonic()
    hint = {"hint": error.hint} if isinstance(error, DuenoticeError) and error.hint else {}
    log(action, "error", error=describe(error), **hint, **fields)


def describe(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, DuenoticeError):
        return error.message
    return f"{type(error).__name__}: {error}"


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or "\n" in text or not text else text


def _has_colours() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
