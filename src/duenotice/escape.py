"""Makes texts from outside safe to show: what controls a terminal, hides or reorders is written as `\u001b` (S28).

The escapes are those of JSON. So JSON stays JSON, with the same meaning.
Pure; every terminal, log and page gets its texts through here.
"""

import re
import unicodedata
from functools import lru_cache
from typing import Any

_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\uffa0\U000e0100-\U000e01ef]")
"""Characters that Unicode calls letters or marks, but that draw nothing. Emoji need the selectors of U+FE0x."""

_IN_ONE_LINE = re.compile("[^ -~]")
_IN_LINES = re.compile("[^ -~\n\t]")
_DIGITS = re.compile(r"[0-9]+")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def one_line(text: str) -> str:
    """For a place that is one line: a line end is written as `\\n`, so that no text can begin a line of its own."""
    return _IN_ONE_LINE.sub(_written, text)


def lines(text: str) -> str:
    """For a place of many lines, and for JSON: line ends and tabs stay."""
    return _IN_LINES.sub(_written, text)


def natural(name: str) -> str:
    """A key to sort by as people count: `web-9` comes before `web-10`."""
    return _DIGITS.sub(lambda found: f"{found[0]:0>20}", name)


def each_in_one_line(value: Any) -> Any:
    """The same thing with every text in it in one line, keys included."""
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, list | tuple):
        return [each_in_one_line(inner) for inner in value]
    if isinstance(value, dict):
        return {each_in_one_line(key): each_in_one_line(inner) for key, inner in value.items()}
    return value


def _written(found: re.Match[str]) -> str:
    return _shown(found.group())


@lru_cache(1024)
def _shown(character: str) -> str:
    """A character as it is if it can be seen and stays in its place; Python knows that of letters, signs and spaces."""
    harmless = character.isprintable() or unicodedata.category(character) == "Zs"
    if harmless and not _INVISIBLE.match(character):
        return character
    return _SHORT.get(character) or _escape(character)


def _escape(character: str) -> str:
    """`\\u202e`; beyond the first 65,536 characters two of them, as JSON has it."""
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
