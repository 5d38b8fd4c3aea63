"""Makes fleet files of any size: a tenth stands alone, a tenth in availability sets, the rest in scale sets.

All addresses are in 127/8, so that every VM can be played on this machine.
"""

from collections.abc import Iterator

POLLER = "127.0.0.1"
"""A VM of every fleet: the one that wrk is."""

SET_SIZE = 10_000
_SCALE_SET_SIZE = 1_000
_SCALE_SET_NETWORK = 1_024
_ALONE_AT, _SETS_AT, _SCALE_SETS_AT = 0x7F010000, 0x7F400000, 0x7F800000


def fleet_text(size: int) -> str:
    """A fleet file with that many VMs."""
    alone, in_sets = _shares(size)
    parts = [f'[[vms]]\nname = "poller"\naddress = "{POLLER}"\n']
    parts += [f'[[vms]]\nname = "alone-{n}"\naddress = "{_dotted(_ALONE_AT + n)}"\n' for n in range(alone - 1)]
    parts += [_set(number, first, last) for number, (first, last) in enumerate(_cut(in_sets, SET_SIZE))]
    scaled = _cut(size - alone - in_sets, _SCALE_SET_SIZE)
    parts += [_scale_set(number, last - first) for number, (first, last) in enumerate(scaled)]
    return "\n".join(parts)


def set_members(size: int, most: int = SET_SIZE) -> list[tuple[str, str]]:
    """Name and address of the VMs in the first availability set, which are one scope."""
    return [_member(n) for n in range(min(_shares(size)[1], SET_SIZE, most))]


def alone(count: int, size: int) -> list[tuple[str, str]]:
    """Name and address of that many standalone VMs, each its own scope, spread evenly."""
    every = (_shares(size)[0] - 1) / count
    return [(f"alone-{n}", _dotted(_ALONE_AT + n)) for n in (int(k * every) for k in range(count))]


def spread(count: int, size: int) -> list[str]:
    """Addresses of that many scale set instances, spread evenly over the fleet."""
    scaled = size - sum(_shares(size))
    places = (divmod(k * scaled // count, _SCALE_SET_SIZE) for k in range(count))
    return [_dotted(_SCALE_SETS_AT + number * _SCALE_SET_NETWORK + 1 + place) for number, place in places]


def _shares(size: int) -> tuple[int, int]:
    return size // 10, size // 10


def _cut(total: int, most: int) -> Iterator[tuple[int, int]]:
    return ((first, min(first + most, total)) for first in range(0, total, most))


def _set(number: int, first: int, last: int) -> str:
    vms = ",\n".join('  {{ name = "{}", address = "{}" }}'.format(*_member(n)) for n in range(first, last))
    return f'[[availability_sets]]\nname = "set-{number}"\nvms = [\n{vms},\n]\n'


def _member(n: int) -> tuple[str, str]:
    return f"member-{n}", _dotted(_SETS_AT + n)


def _scale_set(number: int, capacity: int) -> str:
    network = f"{_dotted(_SCALE_SETS_AT + number * _SCALE_SET_NETWORK)}/22"
    return f'[[scale_sets]]\nname = "scale-{number}"\ncapacity = {capacity}\naddresses = "{network}"\n'


def _dotted(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
