"""On which line of a TOML text a key stands: `tomllib` reads values, not places. A good guess, never a reader."""

import re
from collections.abc import Iterator
from typing import NamedTuple

Path = tuple[str | int, ...]
_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_ASSIGNED = re.compile(rf"\s*({_DOTTED})\s*=(.*)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"' + r"|'[^']*'")


class Place(NamedTuple):
    """A key or table and the line it begins on."""

    path: Path
    line: int


def line_of(text: str, path: Path) -> int:
    """The line of the nearest thing on the way to `path` that the text shows; 1 when there is none."""
    places = list(_places(text))
    for length in range(len(path), 0, -1):
        for place in places:
            if place.path == path[:length]:
                return place.line
    return 1


def _places(text: str) -> Iterator[Place]:
    table: Path = ()
    counts: dict[Path, int] = {}
    depth = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if depth == 0 and (header := _HEADER.match(line)):
            table = _table(header, counts)
            yield Place(table, number)
        elif depth == 0 and (assigned := _ASSIGNED.match(line)):
            yield Place(table + _keys(assigned[1]), number)
            depth = _open_brackets(assigned[2])
        else:
            depth = max(0, depth + _open_brackets(line))  # inside a list of several lines


def _table(header: re.Match[str], counts: dict[Path, int]) -> Path:
    path = _keys(header[2])
    if header[1] == "[[":
        counts[path] = counts.get(path, -1) + 1
        return (*path, counts[path])
    return path


def _keys(dotted: str) -> Path:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, dotted))


def _open_brackets(value: str) -> int:
    bare = _STRING.sub("", value).partition("#")[0]
    return bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}")
