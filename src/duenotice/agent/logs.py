"""What the agent says: JSON lines on standard error, one for each action, as journald likes them; never a secret."""

import json
import sys
from contextlib import suppress
from typing import Any

from duenotice.clock import monotonic, wall
from duenotice.errors import DuenoticeError
from duenotice.plain_text import one_line


def log(action: str, level: str = "info", **fields: Any) -> None:
    """One line; a full disk or a closed pipe is no reason to stop."""
    line = {"timestamp": wall().isoformat(timespec="milliseconds"), "level": level, "action": action, **fields}
    with suppress(OSError, ValueError):
        sys.stderr.write(one_line(json.dumps(line, ensure_ascii=False, default=str)) + "\n")
        sys.stderr.flush()


_SAME_AGAIN = 60.0
_last: dict[str, tuple[str, float]] = {}


def complain(action: str, error: Exception, **fields: Any) -> None:
    """One line about something that went wrong; what goes on going wrong is said once a minute."""
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
