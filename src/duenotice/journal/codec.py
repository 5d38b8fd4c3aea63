"""How records and snapshots become rows and back: JSON a person can read, a format number, a checksum.

Stored rows stay readable for ever. If you change the stored shape, even by a field with a default, add an upcaster.
That makes a new format number, and an older duenotice then refuses the row instead of losing the field.
"""

from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any, Generic, NamedTuple, TypeVar
from zlib import crc32

import msgspec
from msgspec import structs

from duenotice.domain.snapshot import Snapshot
from duenotice.domain.transitions import Record
from duenotice.errors import Damaged, Misconfigured
from duenotice.journal.answers import answer_in_bytes
from duenotice.journal.away import record_with_homes, snapshot_with_homes
from duenotice.journal.seconds import record_in_micros, snapshot_in_micros

Plain = dict[str, Any]
Upcaster = Callable[[Plain], Plain]
T = TypeVar("T", bound=Record | Snapshot)

_PIECE = 5000
"""Values encoded in one call: encoding stops all other threads, and so delays VMs that ask (S26)."""

_encode = msgspec.json.Encoder().encode
_decode_plain = msgspec.json.Decoder(Plain).decode


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


def _is_sound(row: Row) -> bool:
    try:
        return checksum(row.position, row.format, row.payload) == row.crc
    except TypeError:  # a damaged file may hold anything, for example no payload at all
        return False


def encode_in_pieces(value: Snapshot) -> bytes:
    """Gives the same bytes as encoding the whole value at once, but other threads can run in between.

    Nothing copies all of it either, which would take as long: the buffer grows where it is.
    """
    out = BytesIO()
    out.writelines(_pieces(value))
    return out.getvalue()


def _pieces(value: Snapshot) -> Iterator[bytes]:
    before = b"{"
    for name, field in zip(value.__struct_encode_fields__, structs.astuple(value), strict=True):
        yield b'%b"%b":' % (before, name.encode())
        yield from _pieces_of(field)
        before = b","
    yield b"}"


def _pieces_of(field: object) -> Iterator[bytes]:
    if not isinstance(field, tuple) or len(field) <= _PIECE:
        yield _encode(field)
        return
    for begin in range(0, len(field), _PIECE):
        yield b"," if begin else b"["
        yield _encode(field[begin : begin + _PIECE])[1:-1]
    yield b"]"


class Codec(Generic[T]):
    """Writes the newest format and reads all formats; the upcaster at index 0 turns format 1 into 2, and so on."""

    def __init__(
        self, kind: type[T], upcasters: Sequence[Upcaster] = (), encode: Callable[[T], bytes] = _encode
    ) -> None:
        self.format = 1 + len(upcasters)
        self._upcasters = upcasters
        self._kind = kind
        self._encode = encode
        self._decode = msgspec.json.Decoder(kind).decode

    def pack(self, value: T) -> Row:
        """The row to store."""
        payload = self._encode(value)
        return Row(value.position, self.format, checksum(value.position, self.format, payload), payload)

    def unpack(self, row: Row) -> T:
        """The value that was stored; `Damaged`, or `Misconfigured` when a newer duenotice wrote it."""
        # The checksum comes first: it tells a newer format from a flipped bit in the format number.
        if not _is_sound(row):
            raise Damaged(f"{self._named(row)} does not match its checksum")
        if row.format > self.format:
            raise self._too_new(row)
        value = self._read(row)
        if value.position != row.position:
            raise Damaged(f"{self._named(row)} says it is at position {value.position}")
        return value

    def _read(self, row: Row) -> T:
        try:
            return self._decode(row.payload) if row.format == self.format else self._upcast(row)
        except (msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise Damaged(f"{self._named(row)} cannot be decoded: {error}") from error

    def _upcast(self, row: Row) -> T:
        plain = _decode_plain(row.payload)
        for upcaster in self._upcasters[row.format - 1 :]:
            plain = upcaster(plain)
        return msgspec.convert(plain, self._kind)

    def _too_new(self, row: Row) -> Misconfigured:
        known = f"format {row.format}, this one knows {self.format}"
        return Misconfigured(
            f"{self._named(row)} was written by a newer duenotice ({known})",
            hint="Upgrade duenotice, or restore a backup made by this version.",
        )

    def _named(self, row: Row) -> str:
        return f"{self._kind.__name__.lower()} {row.position}"


def _same(plain: Plain) -> Plain:
    """The next format has more kinds of transitions and more fields with defaults, and nothing else is new."""
    return plain


# Format 1 was written on the way to the first release, 2 had steady time in seconds, as floats; in records of format 3
# the answer to a request was not yet opaque; in records of format 4 and snapshots of format 3 owners had no policy, and
# in the formats after these there were no subscriptions, and no claims of impacts; then plans had no window; then
# answers were kept by the time of day; then nobody knew from which drained host a VM is away, and what drivers did;
# then that host was a field of each VM; then nobody was signed in, steady time stood only where something started or
# was answered, and nobody knew what the fleet file of each node had said; then all of a placement group were told,
# plans knew neither consent nor fault domains, and nobody acknowledged what had failed.
RECORDS = Codec(
    Record,
    [_same, record_in_micros, answer_in_bytes, _same, _same, _same, _same, _same, record_with_homes, _same, _same],
)
SNAPSHOTS = Codec(
    Snapshot,
    [_same, snapshot_in_micros, _same, _same, _same, _same, _same, snapshot_with_homes, _same, _same],
    encode_in_pieces,
)
