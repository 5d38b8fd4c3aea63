"""Reads the query of a request, and `If-None-Match`. Pure."""

import re
from urllib.parse import unquote

from duenotice.errors import Malformed
from duenotice.wire.spans import parse_duration

MAX_WAIT = 300.0
"""Seconds; a longer wait is cut to this."""

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_query(query: str) -> dict[str, list[str]]:
    """Parameters by name, in lower case, each with all the values it was given."""
    parameters: dict[str, list[str]] = {}
    for piece in filter(None, query.split("&")):
        name, _, value = piece.partition("=")
        parameters.setdefault(unquote(name).lower(), []).append(unquote(value))
    return parameters


def parse_wait(text: str) -> float | None:
    """Seconds from `500ms`, `30s`, `2m` or `30`; None when it is not a span of time."""
    try:
        return min(parse_duration(text), MAX_WAIT)
    except Malformed:
        return None


def parse_tags(values: list[str]) -> frozenset[str]:
    """What `If-None-Match` names, bare, quoted or weak (A10)."""
    tags = (tag.strip().removeprefix("W/").strip('"') for value in values for tag in value.split(","))
    return frozenset(filter(None, tags))


def is_newer(version: str, known: tuple[str, ...]) -> bool:
    """Whether this could be an api-version of the future."""
    return _DATE.fullmatch(version) is not None and version > max(known)
