"""Giving back very many objects in small steps: one step for all of them would stop every other thread (S26)."""

from collections.abc import Iterable
from typing import Any

from duenotice.domain.bulk import chunks
from duenotice.domain.commands import ApplyFleet


def let_go(things: list[Any]) -> None:
    """Empty the list. What is large in it is taken apart first, and its parts are given back one after the other.

    Others may still use such a thing, so it is never changed: only its parts are held here until their turn comes.
    """
    while things:
        things.extend(_parts(things.pop()))


def _parts(thing: object) -> Iterable[Any]:
    """Tuples hold records, sets and tuples; a list is one part. A dict has a million VMs as its values."""
    if isinstance(thing, ApplyFleet):
        return [list(some) for some in chunks(thing.declaration.vms)]
    if isinstance(thing, dict):
        return [list(some) for some in chunks(thing.values())]
    return thing if isinstance(thing, tuple) else ()
