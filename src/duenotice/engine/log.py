"""The engine's log: it goes on when a line cannot be written."""

from contextlib import suppress

import structlog

_log = structlog.get_logger()


def report(level: str, message: str, **details: object) -> None:
    """Log. If that fails, because of a full disk for example, the engine still goes on."""
    with suppress(Exception):
        getattr(_log, level)(message, **details)
