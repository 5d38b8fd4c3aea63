"""On which line of a TOML file something stands, so that a mistake can be found. It may guess, but must not crash."""

import re
from collections import Counter

_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.-]+)\s*\]")
_KEY = re.compile(r'\s*"?([\w-]+)"?\s*=')
_QUOTES = ('"""', "'''")


class Lines:
    """Places such as `steps[2]`, `steps[2].within` or `cast.vm`, and where they are."""

    def __init__(self, text: str) -> None:
        self._found: dict[str, int] = {"": 1}
        here, tables, quoted = "", Counter[str](), False
        for number, line in enumerate(text.splitlines(), start=1):
            if not quoted:
                here = _header(line, tables) or here
                key = _KEY.match(line)
                place = f"{here}.{key[1]}" if key else here
                self._found.setdefault(place.strip("."), number)
            quoted ^= sum(line.count(mark) for mark in _QUOTES) % 2 == 1

    def of(self, place: str) -> int:
        """The line of a place, else of the table around it."""
        while place and place not in self._found:
            place = place.removesuffix("]").rpartition("[" if place.endswith("]") else ".")[0]
        return self._found[place]


def _header(line: str, tables: Counter[str]) -> str:
    header = _HEADER.match(line)
    if header is None or header[1] == "[":
        return header[2] if header else ""
    tables[header[2]] += 1
    return f"{header[2]}[{tables[header[2]]}]"
