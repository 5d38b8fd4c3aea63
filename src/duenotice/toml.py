"""TOML as people write it: a table that knows its place, the line of a key, and the nearest known word. Pure.

`tomllib` reads values, not places. So the text is walked through once more when there is a mistake to show.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, Self, TypeVar

from duenotice.errors import LookAt, Misconfigured, NotFound

T = TypeVar("T")
Path = tuple[str | int, ...]
"""The way to a value: `("rules", 0, "types")`."""
LONGEST = 4 * 1024 * 1024
"""The longest text in which a place is looked for: a file of a million VMs would take too long."""

_SHORT = 200
"""Characters of a line in which nothing can be endless."""
_PIECE = 100_000
"""Characters of a line that are looked through at once; a word as long as that is endless too."""
_LINE_END = "\n"
_LONG_LINE = re.compile(rf"[^\n]{{{_SHORT + 1},}}+")
_KINDS = {str: "a text", int: "a whole number", bool: "true or false", list: "a list", dict: "a table"}
_UNSET: Any = object()
_UNKNOWN_KEY = r"Object contains unknown field `(.*)`"
_PATH_PART = r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]"
_TOKEN = (
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|'''
    r"""\#[^\n]*|[\[\]{}=,\n]|[^\s\[\]{}=,\#"']+"""
)
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_MORE = rf"(?:[ \t]*+\.[ \t]*+{_PART})"
_MOST_OF_A_KEY = rf"{_PART}{_MORE}{{0,100}}+"
_ENDLESS = rf"0[xob][0-9A-Fa-f_]{{1000,}}|{_PART}{_MORE}{{100}}"
"""A number that Python does not print; a key like a.a.a…, for which tomllib needs the square of its length (S26)."""
_OPENS = re.compile("[\"'#]")
_CLOSES = {
    "#": re.compile(r"[^\n]*(?:\n|\Z)"),
    "'": re.compile(r"[^'\n]*['\n]"),
    '"': re.compile(r"""(?:\\.|[^"\\\n])*["\n]"""),
    "'''": re.compile(r".*?'{3,5}", re.DOTALL),
    '"""': re.compile(r"""(?:\\.|[^\\])*?"{3,5}""", re.DOTALL),
}
"""What ends a comment or a text, by what begins it."""
_KEY = r"""[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*'"""


class TomlFile:
    """A TOML text and its name; places in it are shown as `NAME, line 3`, or with another word between."""

    def __init__(self, text: str, name: str, between: str = ", line ") -> None:
        self.name, self._text, self._between = name, text, between

    def read(self) -> dict[str, Any]:
        """What it says."""
        import tomllib  # here, because the command line starts with this module, and mostly needs a near miss only

        self._refuse_endless()
        if len(self._text) > LONGEST:
            self._refuse_long_texts()
        try:
            return tomllib.loads(_with_our_line_ends(self._text))
        except (ValueError, RecursionError) as error:  # also for what TOML allows and tomllib cannot read
            raise Misconfigured(f"{self.name}: not TOML: {error}.", hint="Fix the line and try again.") from None

    def _refuse_endless(self) -> None:
        for begin, end in _long_lines(self._text):
            if any(_is_endless(found) for piece in _pieces(self._text, begin, end) for found in _words_in(piece)):
                where = f"{self.name}{self._between}{self._text.count(_LINE_END, 0, begin) + 1}"
                what = f"{where}: a number has over 1000 digits, a key over 100 parts, or a word 100,000 characters."
                raise Misconfigured(what, hint="Fix the line and try again.")

    def _refuse_long_texts(self) -> None:
        """Comments and texts, which tomllib reads in one go: other threads would wait for the end of it (S26)."""
        text, at = self._text, 0
        while (opened := _opens(text, at)) is not None:
            three = text[opened : opened + 3]
            opener = three if three in _CLOSES else three[0]
            begin = opened + len(opener)
            closed = _CLOSES[opener].match(text, begin, begin + _PIECE)
            if closed is None or closed.end() == begin + _PIECE:
                where = f"{self.name}{self._between}{text.count(_LINE_END, 0, opened) + 1}"
                what = f"{where}: a comment or a text has no end, or has more than {_PIECE:,} characters."
                raise Misconfigured(what, hint="Fix the line and try again.")
            at = closed.end()

    def where(self, path: Path = ()) -> str:
        """The file and the line of a value; in a very large file the line is not looked for."""
        return self.name if len(self._text) > LONGEST else f"{self.name}{self._between}{line_of(self._text, path)}"


def _opens(text: str, at: int) -> int | None:
    """Where the next comment or text begins."""
    while at < len(text):
        if (found := _OPENS.search(text, at, at + _PIECE)) is not None:
            return found.start()
        at += _PIECE
    return None


def _with_our_line_ends(text: str) -> str:
    """As tomllib makes them, but of a large text in pieces (S26)."""
    if len(text) <= LONGEST or "\r\n" not in text:
        return text
    pieces = [text[begin : begin + _PIECE] for begin in range(0, len(text), _PIECE)]
    for number, piece in enumerate(pieces):
        is_cut = piece.endswith("\r") and number + 1 < len(pieces) and pieces[number + 1].startswith("\n")
        pieces[number] = (piece[:-1] if is_cut else piece).replace("\r\n", "\n")
    return "".join(pieces)


def _long_lines(text: str) -> Iterator[tuple[int, int]]:
    """Where they begin and end. Nothing is copied: a fleet file may have 256 MiB, and a copy holds up other threads."""
    begin = 0
    while begin < len(text):
        end = text.rfind("\n", begin, begin + _PIECE) + 1
        if end:
            yield from (found.span() for found in _LONG_LINE.finditer(text, begin, end))
        else:  # one line, or what is left of the last one
            end = text.find("\n", begin) + 1 or len(text)
            if end - begin > _SHORT:
                yield begin, end
        begin = end


def _pieces(text: str, begin: int, end: int) -> Iterator[str]:
    """A line in pieces that overlap: to look through a very long one at once would hold up other threads (S26)."""
    return (text[start : min(end, start + 2 * _PIECE)] for start in range(begin, end, _PIECE))


def _words_in(piece: str) -> Iterator[re.Match[str]]:
    return re.finditer(_MOST_OF_A_KEY, piece)


def _is_endless(found: re.Match[str]) -> bool:
    if found.end() - found.start() >= _PIECE:
        return True  # nobody writes such a word, and tomllib reads it in one go
    return found.end() - found.start() > _SHORT and re.fullmatch(_ENDLESS, found[0]) is not None


class Table:
    """One table of a file; a key that is never taken is a mistake."""

    def __init__(self, file: TomlFile, values: object, path: Path = (), place: str = "") -> None:
        self.file, self.path, self.place = file, path, place or shown(path)
        if not isinstance(values, dict):
            raise self.wrong("must be a table", "Write it as a table of keys.")
        self._values = dict(values)
        self._known: list[str] = []

    @property
    def keys(self) -> list[str]:
        """The keys that nobody took yet."""
        return list(self._values)

    def has(self, key: str) -> bool:
        """Whether the table has this key; it counts as known from now on."""
        self._known.append(key)
        return key in self._values

    def wrong(self, what: str, hint: str, *keys: str) -> Misconfigured:
        """An error about a key, or about the whole table."""
        place = f"{self.place} " if self.place else ""
        return Misconfigured(f"{self.where(*keys)}: {place}{what}.", hint=hint)

    def where(self, *keys: str) -> str:
        """The file, and the line of a key or of the table."""
        return self.file.where((*self.path, *keys))

    def take(self, key: str, kind: type[T], default: Any = _UNSET) -> T:
        """The value of a key, of the right kind, or its default."""
        self._known.append(key)
        value: T = self._values.pop(key, default)
        if value is _UNSET:
            raise self._missing(key)
        if value is not default and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise self.wrong(f"{key} must be {_KINDS[kind]}", f"Found {value!r}.", key)
        return value

    def _missing(self, key: str) -> Misconfigured:
        """A missing key may be there with a name that is almost right."""
        if near := nearest(key, self._values):
            return self.wrong(f"has an unknown key {near!r}", f"Did you mean {key!r}?", near)
        return self.wrong(f"has no {key!r}", f"Add {key} = …")

    def within(self, key: str, low: int, high: int, default: Any = _UNSET) -> int:
        """A whole number in bounds."""
        value = self.take(key, int, default)
        if not low <= value <= high:
            raise self.wrong(f"{key} = {value} is out of bounds", f"Use {low} to {high}.", key)
        return value

    def tables(self, key: str) -> Iterator[Self]:
        """The tables of a list, each with its own place."""
        for number, values in enumerate(self.take(key, list, [])):
            place = f"{self.place}." if self.place else ""
            yield type(self)(self.file, values, (*self.path, key, number), f"{place}{key}[{number + 1}]")

    def done(self) -> None:
        """Refuse keys that nobody took; the hint names the nearest known key."""
        for key in self._values:
            what = f"has an unknown key {key!r}" if self.place else f"unknown key {key!r}"
            raise self.wrong(what, near_miss(key, self._known, "keys"), key)


class Misplaced(Misconfigured):
    """A mistake at a place of a file; who knows the file adds its name and the line."""

    def __init__(self, message: str = "", *, hint: str = "", path: Path = ()) -> None:
        super().__init__(message, hint=hint)
        self.path = path


class Misfit(NamedTuple):
    """What msgspec says about a value that does not fit: where, what, and the key that it does not know."""

    path: Path
    problem: str
    unknown: str


def misfit(error: Exception) -> Misfit:
    """msgspec's `Expected `int`, got `str` - at `$.rules[0].types`` taken apart."""
    problem, _, at = str(error).partition(" - at ")
    path: Path = tuple(name or int(number or 0) for name, number in re.findall(_PATH_PART, at.strip("`")))
    unknown = re.fullmatch(_UNKNOWN_KEY, problem)
    return Misfit((*path, unknown[1]) if unknown else path, problem, unknown[1] if unknown else "")


def shown(path: Path) -> str:
    """A path as people read it; they count from 1: `rules[1].types`."""
    return "".join(f"[{key + 1}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


def near_miss(word: str, known: Iterable[str], what: str = "words", otherwise: str = "") -> str:
    """A hint that names the nearest known word; if none is near it is another hint, or names all of them."""
    known = list(known)
    near = nearest(word, known)
    return f"Did you mean {near!r}?" if near else otherwise or f"Known {what}: {', '.join(known)}."


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, in upper or lower case; empty when none is near."""
    spelled = {each.lower(): each for each in known}
    return next((spelled[near] for near in difflib.get_close_matches(word.lower(), spelled, 1)), "")


MOST_COMPARED = 1000
"""How many names are compared to find a hint: each takes some microseconds."""
FEW = 10


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a name that nobody knows: the nearest one, or else the first that there are."""
    compared = list(islice(known, MOST_COMPARED))
    near = nearest(name[:80], compared)
    return f"Did you mean {near!r}?" if near else f"There are {', '.join(compared[:FEW]) or 'none'}."


def missing(message: str, name: str, known: Iterable[str], look_at: LookAt) -> NotFound:
    """The refusal of a name that nobody knows: with the nearest one, or else with the list to look at."""
    near = nearest(name[:80], islice(known, MOST_COMPARED))
    return NotFound(message, hint=f"Did you mean {near!r}?") if near else NotFound(message, look_at=look_at)


def line_of(text: str, path: Path) -> int:
    """The line of `path`, or of the nearest table above it that the text has; else 1."""
    places: dict[Path, int] = {}
    if len(text) <= LONGEST:
        _Scan(text, places).run()
    return next((places[path[:length]] for length in range(len(path), 0, -1) if path[:length] in places), 1)


class TomlPiece(NamedTuple):
    """A piece of the text and the line it begins on."""

    text: str
    line: int


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


def _tokens(text: str) -> Iterator[TomlPiece]:
    line = 1
    at = 0
    for found in re.finditer(_TOKEN, text, re.DOTALL):
        line += text.count("\n", at, found.start())
        at = found.start()
        yield TomlPiece(found[0], line)


def _keys(dotted: str) -> Path:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, dotted))
