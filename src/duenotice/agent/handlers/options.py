"""The values that handlers' keys may hold, and how a TOML table becomes them."""

from typing import Any

from duenotice.errors import Malformed
from duenotice.wire.spans import parse_duration

Argv = tuple[str, ...]
"""A program and its arguments; never a line for a shell."""


class SpanSeconds(float):
    """Seconds, written as `30s`, `5m` or a plain number."""


def read_value(kind: type, value: Any) -> Any:
    """msgspec's hook for the types that TOML does not have."""
    if kind is not SpanSeconds or isinstance(value, bool):
        raise TypeError("Expected a span such as 30s")
    try:
        return SpanSeconds(parse_duration(str(value)))
    except Malformed as error:
        raise ValueError(f"{error.message} {error.hint}") from None
