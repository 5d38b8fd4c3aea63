"""How the answers of two endpoints differ, as far as a client could notice it. Pure."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from duenotice.testkit.recording import RecordedAnswer


class Difference(NamedTuple):
    """One thing that is not the same: where, and what either endpoint has."""

    api_version: str
    where: str
    first: str
    second: str


def differences(api_version: str, first: RecordedAnswer, second: RecordedAnswer) -> list[Difference]:
    """Status, the kind of content, and the shape of the body; ids, times and numbers may differ."""
    return [Difference(api_version, where, *pair) for where, pair in _compared(first, second) if pair[0] != pair[1]]


def _compared(first: RecordedAnswer, second: RecordedAnswer) -> Iterable[tuple[str, tuple[str, str]]]:
    yield "status", (str(first.status), str(second.status))
    yield "content-type", (_kind(first), _kind(second))
    yield "has an ETag", (str("etag" in first.headers), str("etag" in second.headers))
    shapes = _shape(_parsed(first.body)), _shape(_parsed(second.body))
    for place in sorted(set(shapes[0]) | set(shapes[1])):
        if any(_is_empty(shape, place) for shape in shapes):
            continue
        yield f"body {place}".strip(), (shapes[0].get(place, "–"), shapes[1].get(place, "–"))


def _is_empty(shape: dict[str, str], place: str) -> bool:
    """Whether a place is inside a list that has no items here."""
    parts = place.split("[]")
    lists = ("[]".join(parts[:count]) for count in range(1, len(parts)))
    return any(around in shape and not any(at.startswith(f"{around}[]") for at in shape) for around in lists)


def _kind(answered: RecordedAnswer) -> str:
    return answered.headers.get("content-type", "").replace(" ", "").lower()


def _parsed(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body


def _shape(value: Any, place: str = "") -> dict[str, str]:
    """The type at every place of a JSON value; all items of a list are one place, so their number does not matter."""
    if isinstance(value, dict):
        keys = {place: f"object with {' '.join(value)}"}
        return keys | {at: kind for key, inner in value.items() for at, kind in _shape(inner, f"{place}.{key}").items()}
    if isinstance(value, list):
        return {place: "list"} | {at: kind for inner in value for at, kind in _shape(inner, f"{place}[]").items()}
    return {place: "nothing" if value == "" and not place else type(value).__name__}
