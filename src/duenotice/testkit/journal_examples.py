"""Values to test a journal with: short plain ones, and any that the types allow. It needs hypothesis."""

import types
from datetime import UTC, datetime
from typing import Any, Union, get_args, get_origin

from hypothesis import strategies as st
from msgspec import Struct, structs

from duenotice.clock import Mark
from duenotice.domain.fleet import Vm
from duenotice.domain.records import Record as Record
from duenotice.domain.records import ScopeEnabled, Transition, VmsPut
from duenotice.domain.snapshot import Snapshot

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TRANSITIONS: tuple[type[Struct], ...] = get_args(Transition)

_PLAIN = {
    str: st.text(),
    bytes: st.binary(),
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    datetime: st.datetimes(timezones=st.just(UTC)),
    type(None): st.none(),
}


def record(position: int, scope: str = "vm/db-0") -> Record:
    """A small record."""
    return Record(position, NOON, "operator", ScopeEnabled(f"{scope}/{position}"))


def records(first: int, last: int) -> list[Record]:
    """Small records from one position to another."""
    return [record(position) for position in range(first, last + 1)]


def snapshot(position: int, digest: str = "", vms: int = 0) -> Snapshot:
    """A snapshot, with as many VMs as wanted."""
    return Snapshot(position, NOON, digest, vms=tuple(Vm(f"vm-{n}", f"10.0.0.{n}") for n in range(vms)))


def big_record(position: int) -> Record:
    """A record that fills several pages of a database."""
    return Record(position, NOON, "operator", VmsPut(tuple(Vm(f"vm-{n}", f"10.0.0.{n}") for n in range(300))))


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that a type of the domain allows."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if get_origin(kind) in (Union, types.UnionType):
        return st.one_of(*map(any_of, get_args(kind)))
    if get_origin(kind) is tuple:
        return _tuples(get_args(kind))
    if kind is Mark:
        return st.builds(Mark, *map(any_of, Mark.__annotations__.values()))
    if issubclass(kind, Struct):
        return st.builds(kind, **{field.name: any_of(field.type) for field in structs.fields(kind)})
    return st.sampled_from(kind)


def _tuples(kinds: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if kinds[1:] == (...,):
        return st.lists(any_of(kinds[0]), max_size=3).map(tuple)
    return st.tuples(*map(any_of, kinds))
