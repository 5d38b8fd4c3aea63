"""A disk that can lose its power: what is surely on it, what may be, and the images that a cut may leave.

The rules are those that SQLite counts on. A sync makes all that was written to its file durable, with its size; a sync
of a directory makes its names durable. Since then anything may have reached the disk: some writes and not others, later
ones before earlier ones, parts of one. A sector of 512 bytes is written as a whole, and has what it had after some
write since the sync. A file may have any of the sizes it had; where it has grown and nothing was written, there are
zeros or old bytes of others. Names change in the order in which they were changed, as a file system's journal does it.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

SECTOR = 512


class Write(NamedTuple):
    """Bytes were written."""

    file: int
    offset: int
    data: bytes


class Resize(NamedTuple):
    """A file was cut off or made longer."""

    file: int
    size: int


class Sync(NamedTuple):
    """A file was synced."""

    file: int


class Name(NamedTuple):
    """A file got a name, in place of `instead_of` if it had one; without a file, a directory was made."""

    path: str
    file: int | None
    instead_of: str = ""


class Unname(NamedTuple):
    """A name was removed."""

    path: str


class SyncNames(NamedTuple):
    """A directory was synced."""

    directory: str


class Mark(NamedTuple):
    """Not an act on the disk: somebody outside learned or asked something at this moment."""

    what: object


Act = Write | Resize | Sync | Name | Unname | SyncNames | Mark
Image = dict[str, bytes | None]
"""Contents by path; None for a directory."""
Choice = Callable[[int, list[int]], int]
"""Which version of a sector is there, of those after these writes (-1: the synced one)."""


@dataclass
class File:
    """What was synced, and what was done to it since."""

    durable: bytes = b""
    since: list[Write | Resize] = field(default_factory=list)

    def whole(self) -> bytes:
        """As a running system sees it."""
        now = bytearray(self.durable)
        for act in self.since:
            change(now, act)
        return bytes(now)


def change(content: bytearray, act: Write | Resize) -> tuple[int, int]:
    """Do it; returns from where to where it has changed."""
    before = len(content)
    if isinstance(act, Resize):
        del content[act.size :]
        content.extend(bytes(max(0, act.size - len(content))))
        return min(before, act.size), max(before, act.size)
    if act.offset > before:
        content.extend(bytes(act.offset - before))
    content[act.offset : act.offset + len(act.data)] = act.data
    return min(before, act.offset), act.offset + len(act.data)


class Disk:
    """Follows the acts one by one; `image` may be asked for at any moment."""

    def __init__(self, image: Image | None = None) -> None:
        self._files: dict[int, File] = {}
        self._names: dict[str, int | None] = {}
        self._renames: list[Name | Unname] = []
        for number, (path, content) in enumerate((image or {}).items()):
            self._names[path] = None if content is None else number
            if content is not None:
                self._files[number] = File(content)

    def do(self, act: Act) -> None:
        """Follow one act."""
        match act:
            case Write() | Resize():
                self._files.setdefault(act.file, File()).since.append(act)
            case Sync(file=number):
                synced = self._files.setdefault(number, File())
                self._files[number] = File(synced.whole())
            case Name() | Unname():
                self._renames.append(act)
            case SyncNames(directory=directory):
                self._sync_names(directory)
            case Mark():
                pass

    def _sync_names(self, directory: str) -> None:
        """Changes before it in other directories may wait; those that a synced one stands on go with it."""
        done = [act for act in self._renames if parent(act.path) == directory]
        _rename(self._names, done)
        self._renames = [act for act in self._renames if parent(act.path) != directory]

    def image(self, chance: random.Random) -> Image:
        """One of the many that a cut in this moment may leave."""
        names = dict(self._names)
        _rename(names, self._renames[: chance.choice((0, len(self._renames), chance.randint(0, len(self._renames))))])
        return {
            path: None if number is None else left_of(self._files.get(number, File()), chance)
            for path, number in sorted(names.items())
            if parent(path) in names or parent(path) == ""
        }


def parent(path: str) -> str:
    """The directory that a path is in."""
    return path.rpartition("/")[0]


def _rename(names: dict[str, int | None], acts: Iterable[Name | Unname]) -> None:
    for act in acts:
        if isinstance(act, Unname):
            names.pop(act.path, None)
        else:
            names.pop(act.instead_of, None)
            names[act.path] = act.file


def left_of(file: File, chance: random.Random) -> bytes:
    """What a cut leaves of a file."""
    if not file.since:
        return file.durable
    ways: tuple[Callable[[int, random.Random], Choice], ...] = (_first, _some, _torn, _torn_last)
    choice = chance.choice(ways)(len(file.since), chance)
    now, versions, sizes = bytearray(file.durable), dict[int, list[tuple[int, bytes]]](), [len(file.durable)]
    for number, act in enumerate(file.since):
        begin, end = change(now, act)
        sizes.append(len(now))
        for sector in range(begin // SECTOR, -(-end // SECTOR)):
            at = sector * SECTOR
            known = versions.setdefault(sector, [(-1, file.durable[at : at + SECTOR])])
            known.append((number, bytes(now[at : at + SECTOR])))
    return _put_together(file.durable, versions, choice, _size(choice, sizes, chance), chance)


def _size(choice: Choice, sizes: list[int], chance: random.Random) -> int:
    """The size belongs to some write, mostly to the one that the others are chosen by."""
    newest = choice(-1, list(range(-1, len(sizes) - 1))) + 1
    return chance.choice(sizes) if chance.random() < 0.3 else sizes[newest]


def _put_together(
    durable: bytes, versions: dict[int, list[tuple[int, bytes]]], choice: Choice, size: int, chance: random.Random
) -> bytes:
    image = bytearray(durable[:size].ljust(size, b"\0"))
    junk = chance.random() < 0.2
    for sector, known in versions.items():
        at = sector * SECTOR
        if at >= size:
            continue
        content = dict(known)[choice(sector, [number for number, _ in known])]
        if not content and junk:
            content = chance.randbytes(SECTOR)
        room = min(SECTOR, size - at)
        image[at : at + room] = content[:room].ljust(room, b"\0")
    return bytes(image)


def _first(count: int, chance: random.Random) -> Choice:
    """All writes up to one, in order; none and all are likely."""
    last = chance.choice((-1, count - 1, chance.randrange(count)))
    return lambda _sector, numbers: max(number for number in numbers if number <= last)


def _some(count: int, chance: random.Random) -> Choice:
    """Some writes, as a whole, and not others, whatever their order."""
    share = chance.random()
    kept = {-1, *(number for number in range(count) if chance.random() < share)}
    return lambda _sector, numbers: max(number for number in numbers if number in kept)


def _torn(_count: int, chance: random.Random) -> Choice:
    """Each sector for itself."""
    newest = chance.random()
    return lambda _sector, numbers: numbers[-1] if chance.random() < newest else chance.choice(numbers)


def _torn_last(count: int, chance: random.Random) -> Choice:
    """All writes up to one, and a part of the next."""
    last = chance.randrange(count)

    def choose(_sector: int, numbers: list[int]) -> int:
        possible = [number for number in numbers if number <= last]
        return chance.choice(possible[-2:]) if possible[-1] == last else possible[-1]

    return choose
