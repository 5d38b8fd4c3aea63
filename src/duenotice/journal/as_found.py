"""What a journal is when it is opened, by the notes beside it: put in place or not, and seen by readers up to where."""

from collections.abc import Callable
from typing import NamedTuple

from duenotice.journal.codec import Mark


class AsFound(NamedTuple):
    """`restored`: an older copy, whose incarnations are not lifted yet (S3). `seen`: how far readers have seen it."""

    restored: bool
    seen: int


def as_found(
    newest: int, reached: int | None, seen: int | None, lifted_with: Mark | None, holds: Callable[[Mark], bool]
) -> AsFound:
    """By its newest position, by its notes, and by whether it holds the record that a note names.

    A process may have lifted the incarnations, and been killed before it could note that. Once is enough: another lift
    in the same second would have to be far ahead of the time of day, and the next one behind it. Nobody was answered
    since; followers of the life before may still answer, so they are waited for (N05).
    """
    was_put_in_place = reached is None and newest > 0
    if was_put_in_place and lifted_with is not None and holds(lifted_with):
        return AsFound(restored=False, seen=lifted_with[0] - 1)
    # Without a note nobody can know; then everything counts as seen.
    return AsFound(was_put_in_place, newest if seen is None else min(seen, newest))
