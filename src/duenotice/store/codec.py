"""How records and snapshots become rows and back: JSON a person can read, a format number, a checksum.

And the one rule of order that every journal keeps: positions begin at 1, have no gaps and are given once.

If you change the stored shape, even by a field with a default, it is a new format with the next number: an older
duenotice then refuses the row instead of losing the field. Nothing is released yet, so older formats are refused too:
from the first release on `oldest` stays, and rows stay readable for ever.
"""

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Generic, NamedTuple, TypeVar
from zlib import crc32

import msgspec
from msgspec import structs

from duenotice.domain.records import Record
from duenotice.domain.snapshot import Snapshot
from duenotice.errors import Conflict, Damaged, InvariantBroken, Misconfigured

T = TypeVar("T", bound=Record | Snapshot)

_PIECE = 5000
"""Values encoded in one call: encoding stops all other threads, and so delays VMs that ask (S26)."""

_encode = msgspec.json.Encoder().encode


class Row(NamedTuple):
    """One record or snapshot as it is stored."""

    position: int
    format: int
    crc: int
    payload: bytes


Mark = tuple[int, int]
"""Which row it is, among all at this position in all copies of a journal: the position and the checksum."""


def mark_of(row: Row) -> Mark:
    """What tells this row from others."""
    return row.position, row.crc


def checksum(position: int, format: int, payload: bytes) -> int:
    """The checksum covers the position too, so that a good payload in the wrong row is noticed."""
    return crc32(payload, crc32(b"%d %d" % (position, format)))


def is_sound(row: Row) -> bool:
    """Whether it matches its checksum."""
    try:
        return checksum(row.position, row.format, row.payload) == row.crc
    except TypeError:  # a damaged file may hold anything, for example no payload at all
        return False


def encode_in_pieces(value: Snapshot) -> bytes:
    """Gives the same bytes as encoding the whole value at once, but other threads can run in between.

    Nothing copies all of it either, which would take as long: the buffer grows where it is.
    """
    out = BytesIO()
    out.writelines(_encoded_fields(value))
    return out.getvalue()


def _encoded_fields(value: Snapshot) -> Iterator[bytes]:
    before = b"{"
    for name, field in zip(value.__struct_encode_fields__, structs.astuple(value), strict=True):
        yield b'%b"%b":' % (before, name.encode())
        yield from _encoded_field(field)
        before = b","
    yield b"}"


def _encoded_field(field: object) -> Iterator[bytes]:
    if not isinstance(field, tuple) or len(field) <= _PIECE:
        yield _encode(field)
        return
    for begin in range(0, len(field), _PIECE):
        yield b"," if begin else b"["
        yield _encode(field[begin : begin + _PIECE])[1:-1]
    yield b"]"


class Codec(Generic[T]):
    """Writes one format, and reads all since the oldest: those lack only fields that have a default now."""

    def __init__(self, kind: type[T], format: int, oldest: int, encode: Callable[[T], bytes] = _encode) -> None:
        self.format = format
        self._oldest = oldest
        self._kind = kind
        self._encode = encode
        self._decode = msgspec.json.Decoder(kind).decode

    def pack(self, value: T) -> Row:
        """The row to store."""
        payload = self._encode(value)
        return Row(value.position, self.format, checksum(value.position, self.format, payload), payload)

    def unpack(self, row: Row) -> T:
        """The value that was stored; `Damaged`, or `Misconfigured` when another duenotice wrote it."""
        # The checksum comes first: it tells another format from a flipped bit in the format number.
        if not is_sound(row):
            raise Damaged(f"{self._named(row)} does not match its checksum")
        if not self._oldest <= row.format <= self.format:
            raise self._of_another(row)
        value = self._read(row)
        if value.position != row.position:
            raise Damaged(f"{self._named(row)} says it is at position {value.position}")
        return value

    def _read(self, row: Row) -> T:
        try:
            return self._decode(row.payload)
        except msgspec.MsgspecError as error:
            raise Damaged(f"{self._named(row)} cannot be decoded: {error}") from error

    def _of_another(self, row: Row) -> Misconfigured:
        known = f"(format {row.format}, this one knows {self.format})"
        if row.format > self.format:
            hint = "Upgrade duenotice, or restore a backup made by this version."
            return Misconfigured(f"{self._named(row)} was written by a newer duenotice {known}", hint=hint)
        hint = "No released version wrote it. Begin with an empty data directory, or go on with the version that did."
        return Misconfigured(
            f"{self._named(row)} was written by a duenotice before the first release {known}", hint=hint
        )

    def _named(self, row: Row) -> str:
        return f"{self._kind.__name__.lower()} {row.position}"


RECORDS = Codec(Record, 13, oldest=13)
SNAPSHOTS = Codec(Snapshot, 12, oldest=12, encode=encode_in_pieces)


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
