"""The line of a key in a TOML text: `tomllib` reads values, not places. For texts that it has read; pure."""

import re
from collections.abc import Iterator
from typing import NamedTuple

Path = tuple[str | int, ...]
LONGEST = 4 * 1024 * 1024
"""The longest text in which a place is looked for: a file of a million VMs would take too long."""

_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[\[\]{}=,\n]|[^\s\[\]{}=,\#"']+''',
    re.DOTALL,
)
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*'""")


class Token(NamedTuple):
    """A piece of the text and the line it begins on."""

    text: str
    line: int


def line_of(text: str, path: Path) -> int:
    """The line of `path`, or of the nearest table above it that the text has; else 1."""
    places: dict[Path, int] = {}
    if len(text) <= LONGEST:
        _Scan(text, places).run()
    return next((places[path[:length]] for length in range(len(path), 0, -1) if path[:length] in places), 1)


class _Scan:
    """Walks through the text once; the first line of each place counts."""

    def __init__(self, text: str, places: dict[Path, int]) -> None:
        self._tokens = [token for token in _tokens(text) if not token.text.startswith("#")]
        self._places, self._at = places, 0

    def run(self) -> None:
        table: Path = ()
        counts: dict[Path, int] = {}
        while self._skip_lines():
            if self._peek() == "[":
                table = self._header(counts)
            else:
                self._pair(table)

    def _header(self, counts: dict[Path, int]) -> Path:
        """`[a.b]`, or `[[a.b]]`, which adds to a list; the last `[[a]]` before it says which list."""
        line, is_list = self._tokens[self._at].line, self._peek(1) == "["
        keys = _keys(self._until("]", "\n"))
        self._until("\n")
        path: Path = ()
        for key in keys[:-1]:
            path = (*path, key)
            path = (*path, counts[path]) if path in counts else path
        path = (*path, *keys[-1:])
        if is_list:
            self._places.setdefault(path, line)
            counts[path] = counts.get(path, -1) + 1
            path = (*path, counts[path])
        elif path in counts:
            path = (*path, counts[path])
        self._places.setdefault(path, line)
        return path

    def _pair(self, table: Path) -> None:
        line = self._tokens[self._at].line
        path = (*table, *_keys(self._until("=", "\n")))
        for length in range(len(table) + 1, len(path) + 1):
            self._places.setdefault(path[:length], line)
        self._at += 1
        self._value(path)

    def _value(self, path: Path) -> None:
        opening = self._peek()
        if opening == "[":
            self._list(path)
        elif opening == "{":
            self._inline_table(path)
        else:
            self._until(",", "]", "}", "\n")  # a date may be two pieces

    def _list(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._skip_lines() and self._peek() != "]":
            if self._peek() == ",":
                number += 1
                self._at += 1
            else:
                self._places.setdefault((*path, number), self._tokens[self._at].line)
                self._value((*path, number))
        self._at += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while self._skip_lines() and self._peek() != "}":
            if self._peek() == ",":
                self._at += 1
            else:
                self._pair(path)
        self._at += 1

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].text if at < len(self._tokens) else ""

    def _skip_lines(self) -> bool:
        """Go to the next piece that is not blank; returns whether there is one."""
        while self._peek() == "\n":
            self._at += 1
        return self._at < len(self._tokens)

    def _until(self, *ends: str) -> str:
        """Go to the next one of these; returns the text before it."""
        begin = self._at
        while (text := self._peek()) and (text not in ends or self._at == begin):
            self._at += 1
        return " ".join(token.text for token in self._tokens[begin : self._at])


def _tokens(text: str) -> Iterator[Token]:
    line = 1
    at = 0
    for found in _TOKEN.finditer(text):
        line += text.count("\n", at, found.start())
        at = found.start()
        yield Token(found[0], line)


def _keys(dotted: str) -> Path:
    return tuple(key.strip("\"'") for key in _KEY.findall(dotted))
