"""Values made from a type alone, the same ones each time, and how they are read: a line for each stored field.

A value follows from the name that its field has where it is stored. So a field that is renamed only in Python changes
nothing here, and a new field changes nothing but its own line.
"""

import dataclasses
import json
import types
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin
from zlib import crc32

from msgspec import NODEFAULT, Struct, structs

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Field(NamedTuple):
    """A field of a struct, dataclass or named tuple: its name in Python, its name where it is stored, its type."""

    name: str
    stored: str
    type: Any
    default: Any


def fields(kind: Any) -> list[Field]:
    """The fields of a kind of value in their order; None when it has none."""
    if issubclass(kind, Struct):
        return [Field(each.name, each.encode_name, each.type, _default(each)) for each in structs.fields(kind)]
    if dataclasses.is_dataclass(kind):
        return [Field(each.name, each.name, each.type, each.default) for each in dataclasses.fields(kind)]
    if hasattr(kind, "_fields"):  # a named tuple is stored as an array: its names are not
        hints = kind.__annotations__
        return [Field(name, str(place), hints[name], NODEFAULT) for place, name in enumerate(kind._fields)]
    return []


def full(kind: Any) -> Any:
    """A value with something in each field."""
    return variants(kind)[0]


def bare(kind: Any, stored: str = "") -> Any:
    """A value with as little as possible: all that has a default is left out."""
    if isinstance(kind, type) and (needed := [each for each in fields(kind) if _is_needed(each)]):
        return kind(**{each.name: bare(each.type, each.stored) for each in needed})
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        return (bare(get_args(kind)[0], stored),)
    return variants(kind, stored)[0]


def variants(kind: Any, stored: str = "") -> list[Any]:
    """Values that show all forms of a type together: each word, each member of a union. The first has everything."""
    if kind in _PLAIN:
        return [_PLAIN[kind](stored, crc32(stored.encode()))]
    if kind is bool:
        return [True, False]
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return [value for each in inside for value in variants(each, stored)]
    if origin is Literal:
        return list(inside)
    if origin is tuple:
        return _tuples(inside, stored)
    if origin is dict:
        return [{f"{stored} {number}": value for number, value in enumerate(variants(inside[1], stored))}]
    if issubclass(kind, Enum):
        return sorted(kind, key=lambda word: str(word.value))
    return _of_fields(kind)


_PLAIN: dict[Any, Any] = {
    str: lambda stored, _: f"the {stored}",
    int: lambda _, number: number % 1_000_000,
    float: lambda _, number: number % 1_000 + 0.5,
    bytes: lambda stored, _: stored.encode(),
    datetime: lambda _, number: NOON + timedelta(seconds=number % 86_400, microseconds=number % 3),
    type(None): lambda *_: None,
    Any: lambda stored, _: {stored: ["é", 1, 2.5, True, None]},
}


def _tuples(inside: tuple[Any, ...], stored: str) -> list[Any]:
    if inside[1:] == (...,):
        return [tuple(variants(inside[0], stored))]
    options = [variants(each, f"{stored} {place}") for place, each in enumerate(inside)]
    return [tuple(each[turn % len(each)] for each in options) for turn in range(max(map(len, options)))]


def _of_fields(kind: Any) -> list[Any]:
    """The first has all fields; the others only those with one more form, and what is needed."""
    options = [(each, variants(each.type, each.stored)) for each in fields(kind)]
    made = [kind(**{each.name: forms[0] for each, forms in options})]
    for turn in range(1, max((len(forms) for _, forms in options), default=0)):
        needed = {each.name: _short(forms[0]) for each, forms in options if _is_needed(each)}
        others = {each.name: forms[turn] for each, forms in options if len(forms) > turn}
        made.append(kind(**(needed | others)))
    return made


def _short(value: Any) -> Any:
    return value[:1] if type(value) is tuple else value


def _default(field: structs.FieldInfo) -> Any:
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return field.default


def _is_needed(field: Field) -> bool:
    return field.default is NODEFAULT or field.default is dataclasses.MISSING


def left_out(kind: Any) -> list[str]:
    """The fields that have only their default in the fullest example of a kind, by stored names."""
    value = full(kind)
    return [each.stored for each in fields(kind) if not _is_needed(each) and getattr(value, each.name) == each.default]


def read(value: Any, path: str = "") -> Iterator[str]:
    """A line for each field, also for those that are not stored because they have their default."""
    here = f"{path}." if path else ""
    kind = type(value)
    if issubclass(kind, Struct) and kind.__struct_config__.tag is not None:
        yield f"{here}{kind.__struct_config__.tag_field} = {json.dumps(kind.__struct_config__.tag)}"
    if found := fields(kind):
        for each in found:
            yield from read(getattr(value, each.name), f"{here}{each.stored}")
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from read(inner, f"{here}{key}")
    elif isinstance(value, list | tuple) and value:
        for place, inner in enumerate(value):
            yield from read(inner, f"{path}[{place}]")
    else:
        yield f"{path} = {_scalar(value)}"


def _scalar(value: Any) -> str:
    match value:
        case Enum():
            return json.dumps(value.value)
        case datetime():
            return value.isoformat()
        case bytes():
            return ascii(value)
        case _:
            return json.dumps(value)


def reached(kind: Any) -> list[Any]:
    """A kind of value and all kinds with fields that can be stored inside of it."""
    found, waiting = dict[Any, None](), [kind]
    while waiting:
        for inner in _inside(waiting.pop()):
            if isinstance(inner, type) and inner not in found and fields(inner):
                found[inner] = None
                waiting += [each.type for each in fields(inner)]
    return list(found)


def words(kind: Any, path: str = "", known: set[Any] | None = None) -> Iterator[str]:
    """The words of each enum that can be stored inside of a kind of value, where they are first."""
    known = set() if known is None else known
    for each in fields(kind) if isinstance(kind, type) else ():
        for inner in _inside(each.type):
            if inner in known:
                continue
            known.add(inner)
            where = f"{path}.{each.stored}" if path else each.stored
            if isinstance(inner, type) and issubclass(inner, Enum):
                yield f"{where}: {' '.join(sorted(word.value for word in inner))}"
            yield from words(inner, where, known)


def _inside(kind: Any) -> Iterator[Any]:
    """The types in a type."""
    yield kind
    if get_origin(kind) is not Literal:
        for inner in get_args(kind):
            yield from _inside(inner)
