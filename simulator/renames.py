"""The table of renames: rows of two commits are equal if only names differ, and the table has each of these names.

What is stored is read as plain JSON, without any class of ours. Every name on both sides becomes the newest one, so a
pair of commits can be compared wherever they stand. All else stays as it is: order of keys, kinds of numbers, spaces.
"""

import tomllib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

KINDS = ("field", "tag", "format")
TAG_FIELD = "change"
"""The field (by its newest name) whose value says which kind of object it is; it becomes part of the path."""

Mapped = tuple[str, bytes]
"""How some bytes are written (`json`, or `bytes` if they are anything else), and the bytes with the newest names."""


class Rename(NamedTuple):
    """One line of the table; `where` is a pattern for paths, such as `record/transition:vms-put/vms`."""

    kind: str
    old: str | int
    new: str | int
    where: str = "*"


class Renames:
    """Maps names; what goes wrong on the way is in `problems`, because those who store must not fail by it."""

    def __init__(self, lines: Iterable[Rename] = ()) -> None:
        self.lines = tuple(lines)
        self.problems: list[str] = []
        self._known: dict[tuple[str, str], Mapping[Any, Any]] = {}
        for line in self.lines:
            _refuse_circle(line, self.lines)

    def format(self, kind: str, number: int) -> int:
        """The number of the newest format that differs from this one in nothing but names."""
        return int(self._newest("format", (kind,), number))

    def mapped(self, kind: str, payload: bytes) -> Mapped:
        """Some bytes with the newest names; `kind` begins their paths: `record`, `snapshot`, `ledger` or `answer`."""
        try:
            plain = msgspec.json.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return "bytes", payload
        if msgspec.json.encode(plain) != payload:  # JSON, but written in another way: then every byte counts
            return "bytes", payload
        return "json", msgspec.json.encode(self._value(kind, plain)) if self.lines else payload

    def _value(self, path: str, value: Any) -> Any:
        match value:
            case dict():
                return self._object(path, value)
            case list():
                return [self._value(path, each) for each in value]
            case str():
                return self._text(path, value)
        return value

    def _object(self, path: str, value: dict[str, Any]) -> dict[str, Any]:
        tag = next((key for key in value if self._newest("field", (path,), key) == TAG_FIELD), None)
        kind = "" if tag is None else self._value(f"{path}/{TAG_FIELD}", value[tag])
        whole = f"{path}:{kind}" if kind else path
        names = {key: self._newest("field", (path, whole), key) for key in value}
        if len(set(names.values())) < len(names):
            self.problems.append(f"At {whole} the table of renames gives two fields one name: {names}")
        inner = {key: kind if key == tag else self._value(f"{whole}/{names[key]}", value[key]) for key in value}
        return {names[key]: each for key, each in inner.items()}

    def _text(self, path: str, value: str) -> str:
        """Some texts are JSON again, or bytes that are: what an operator was answered, for example."""
        if value.startswith('{"'):
            framing, inner = self.mapped(path, value.encode())
            return inner.decode() if framing == "json" else value
        if value.startswith("eyJ"):  # {" in base64
            try:
                framing, inner = self.mapped(path, b64decode(value, validate=True))
            except ValueError:
                return value
            return b64encode(inner).decode() if framing == "json" else value
        return str(self._newest("tag", (path,), value))

    def _newest(self, kind: str, paths: Sequence[str], name: str | int) -> Any:
        for path in dict.fromkeys(paths):
            names = self._names(kind, path)
            while name in names:
                name = names[name]
        return name

    def _names(self, kind: str, path: str) -> Mapping[Any, Any]:
        if (names := self._known.get((kind, path))) is None:
            fitting = [line for line in self.lines if line.kind == kind and _fits(line.where, path)]
            names = self._known[kind, path] = {line.old: line.new for line in fitting}
        return names


def _fits(where: str, path: str) -> bool:
    """What operators are answered is everybody's business: only lines that say so change its names."""
    return fnmatchcase(path, where) and where.startswith("answer") == path.startswith("answer")


def read(path: Path) -> Renames:
    """The table in a file; `ValueError` says what is wrong with it. Without a file there are no renames."""
    if not path.exists():
        return Renames()
    try:
        table = tomllib.loads(path.read_text())
        if table.keys() - {"rename"}:
            raise ValueError(f"{sorted(table.keys() - {'rename'})} is not known here; a line begins with [[rename]]")
        return Renames(_line(number, line) for number, line in enumerate(table.get("rename", ()), start=1))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _line(number: int, line: Mapping[str, Any]) -> Rename:
    kind = int if line.get("kind") == "format" else str
    if line.get("kind") not in KINDS or line.keys() - set(Rename._fields):
        raise ValueError(f"line {number} needs a kind ({', '.join(KINDS)}), old and new, and may have where: {line}")
    if not all(isinstance(line.get(key), kind) for key in ("old", "new")) or not isinstance(line.get("where", ""), str):
        raise ValueError(f"line {number}: old and new are names, or numbers if they are formats: {line}")
    return Rename(**line)


def _refuse_circle(line: Rename, lines: Sequence[Rename]) -> None:
    names, name = {each.old: each.new for each in lines if each.kind == line.kind}, line.new
    for _ in lines:
        if name == line.old:
            raise ValueError(f"{line.old!r} becomes {line.new!r}, and that becomes {line.old!r} again: which is newer?")
        name = names.get(name, name)
