"""What the state remembers so that a fleet file changes only what it says newly: what it said last, and what has gone.

A thing of a fleet file has a key: `site`, `host/h1`, `set/web`, `service/shop`, `scale-set/batch`, `vm/db-0`. An
instance of a scale set has none: it comes and goes with the capacity, which belongs to the key of its scale set.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b, sha256

import msgspec
from msgspec import Struct, structs

from duenotice.domain.fleet import Declaration, Fleet, GroupKind, LastApplied

SITE, HOST, VM = "site", "host/", "vm/"
SCALE_SET = f"{GroupKind.SCALE_SET.value}/"

MOST_FILES = 100
"""Nodes whose files are remembered (S24); the file of one that was forgotten counts as read for the first time."""
REMOVED_KEPT = 100_000
"""Things that are gone and remembered (S24). The oldest are forgotten: a file of a node that is new may add them."""

MOST_TOLD = 10
_HASH_BYTES = 6
"""A change is overlooked once in 280,000,000,000,000 times; two bytes more would cost 2 MB for a million VMs."""
_encode = msgspec.json.Encoder().encode


def lines_of(declared: Declaration) -> str:
    """A line for each thing that is declared: its key, a space, a hash of all that is said about it."""
    return "\n".join(f"{key} {hashed}" for key, hashed in _hashed(declared))


def digest_of(lines: str) -> str:
    """A hash of a declaration, by its lines; a comment or a blank in its file does not change it."""
    return sha256(lines.encode()).hexdigest()


def packed(lines: str) -> bytes:
    """As they are kept: names are much alike, so these are a third as long."""
    return zlib.compress(lines.encode(), level=1)


def by_key(lines: bytes) -> dict[str, str]:
    """The hash of each key."""
    return dict(line.split(" ", 1) for line in zlib.decompress(lines).decode().split("\n")) if lines else {}


def is_away(fleet: Fleet, key: str) -> bool:
    """Whether a thing with this key is not in the fleet."""
    kind, _, name = key.partition("/")
    if kind == "vm":
        return name not in fleet.vms
    if kind == "host":
        return name not in fleet.hosts
    return key != SITE and key not in fleet.groups


def difference(one: LastApplied, other: LastApplied, names: tuple[str, str]) -> str:
    """In which keys the files of two nodes differ, in words; some of them, if they are many."""
    ours, theirs = by_key(one.lines), by_key(other.lines)
    only_here = [key for key in ours if key not in theirs]
    only_there = [key for key in theirs if key not in ours]
    unlike = [key for key, said in ours.items() if theirs.get(key, said) != said]
    parts = {f"only in the file of {names[0]}": only_here, f"only in the file of {names[1]}": only_there}
    parts["said otherwise"] = unlike
    return "; ".join(f"{what}: {some_of(keys)}" for what, keys in parts.items() if keys)


def some_of(keys: Sequence[str]) -> str:
    """The first ones, and how many more there are."""
    more = len(keys) - MOST_TOLD
    return ", ".join(keys[:MOST_TOLD]) + (f" and {more} more" if more > 0 else "")


def _hashed(declared: Declaration) -> Iterator[tuple[str, str]]:
    yield SITE, _hash(declared.site)
    for host in declared.hosts:
        yield HOST + host.name, _hash(host)
    capacity = Counter(vm.group for vm in declared.vms if is_instance(vm.group))
    for group in declared.groups:
        yield group.key, _hash(group, capacity[group.key])
    for vm in declared.vms:
        if not is_instance(vm.group):
            yield VM + vm.name, _hash(vm)


def is_instance(group: str | None) -> bool:
    """Whether a VM of this group is an instance of a scale set."""
    return group is not None and group.startswith(SCALE_SET)


def _hash(thing: Struct, capacity: int = 0) -> str:
    return blake2b(_encode((thing, capacity)), digest_size=_HASH_BYTES).hexdigest()


def note(fleet: Fleet, file: LastApplied) -> None:
    """What the file of a node says from now on; lines that another file has too are kept once."""
    same = next((each.lines for each in fleet.last_applied.values() if each.digest == file.digest), file.lines)
    fleet.last_applied.pop(file.node, None)
    fleet.last_applied[file.node] = structs.replace(file, lines=same)
    while len(fleet.last_applied) > MOST_FILES:
        del fleet.last_applied[next(iter(fleet.last_applied))]


def each_once(fleet: Fleet) -> tuple[LastApplied, ...]:
    """To be stored: the lines of each digest are in the first file that has it."""
    first: dict[str, str] = {}
    for file in fleet.last_applied.values():
        first.setdefault(file.digest, file.node)
    return tuple(
        file if first[file.digest] == file.node else structs.replace(file, lines=b"")
        for file in fleet.last_applied.values()
    )


def came(fleet: Fleet, keys: Iterable[str]) -> None:
    """These are in the fleet."""
    if fleet.removed:
        for key in keys:
            fleet.removed.pop(key, None)


def went(fleet: Fleet, key: str, by_file: bool) -> None:
    """This has left the fleet, because a fleet file says so, or in another way."""
    fleet.removed.pop(key, None)
    fleet.removed[key] = by_file
    while len(fleet.removed) > REMOVED_KEPT:
        del fleet.removed[next(iter(fleet.removed))]
