"""The one rule of order that every journal keeps: positions begin at 1, have no gaps and are given once."""

from collections.abc import Sequence

from duenotice.domain.records import Record
from duenotice.errors import Conflict, InvariantBroken


def refuse_unless_next(newest: int, records: Sequence[Record]) -> None:
    """Raise unless the records follow the newest stored one; two engines never share a position (S21)."""
    first = records[0].position
    if 1 <= first <= newest:
        raise Conflict(
            f"position {first} of the journal is already taken; the newest is {newest}",
            hint="Another engine has written: read on from the journal, then decide again.",
        )
    if any(record.position != newest + n for n, record in enumerate(records, start=1)):
        raise InvariantBroken(f"records at {first}… do not follow position {newest} of the journal without a gap")


def refuse_unless_reached(newest: int, position: int) -> None:
    """Raise when a snapshot claims to hold records that the journal does not have."""
    if position > newest:
        raise InvariantBroken(f"a snapshot at {position} is ahead of the journal, which ends at {newest}")
