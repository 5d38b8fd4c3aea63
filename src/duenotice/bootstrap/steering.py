"""Which of the processes that share a port gets a connection: always the same one for the same VM.

So one VM's throttle, its connections and its polls that wait are counted in one place (A08, S24). The kernel runs a few
instructions of a classic BPF program for each new connection: it takes the source address and answers with a number.
"""

import ctypes
import socket
import struct
from typing import NamedTuple

import structlog

_ATTACH = getattr(socket, "SO_ATTACH_REUSEPORT_CBPF", 51)
_NETWORK_HEADER = -0x100000
"""Where the kernel has the IP header, whatever is in front of it."""
_VERSION, _FROM_4, _FROM_6 = 0, (12,), (8, 12, 16, 20)
"""Places in the header: the version is in the first half byte, then the source address in words of four bytes."""
_SPREAD, _HIGH_BITS = 2654435761, 16
"""Addresses in a row go to different processes: a multiplication by the golden ratio, of which the high bits count."""

log = structlog.get_logger()


class Instruction(NamedTuple):
    """One instruction: `code` says what, `yes` and `no` how many steps to skip, `value` its number."""

    code: int
    value: int = 0
    yes: int = 0
    no: int = 0


_LOAD_BYTE, _LOAD_WORD, _KEEP = 0x30, 0x20, 0x07
_SHIFT, _MULTIPLY, _MODULO, _XOR_KEPT = 0x74, 0x24, 0x94, 0xAC
_IF_EQUAL, _SKIP, _RETURN = 0x15, 0x05, 0x16


def program(processes: int) -> list[Instruction]:
    """The number of a process for each source address, of IPv4 or IPv6."""
    four, six = _folded(_FROM_4), _folded(_FROM_6)
    return [
        Instruction(_LOAD_BYTE, _NETWORK_HEADER + _VERSION),
        Instruction(_SHIFT, 4),
        Instruction(_IF_EQUAL, 4, no=len(four) + 1),
        *four,
        Instruction(_SKIP, len(six)),
        *six,
        Instruction(_MULTIPLY, _SPREAD),
        Instruction(_SHIFT, _HIGH_BITS),
        Instruction(_MODULO, processes),
        Instruction(_RETURN),
    ]


def _folded(places: tuple[int, ...]) -> list[Instruction]:
    """All words of an address as one."""
    first, *others = (Instruction(_LOAD_WORD, _NETWORK_HEADER + place) for place in places)
    return [first, *(step for other in others for step in (Instruction(_KEEP), other, Instruction(_XOR_KEPT)))]


def steer(listening: socket.socket, processes: int) -> None:
    """For all who share the port of this socket. Without it connections are spread at random, and limits count less."""
    steps = [struct.pack("=HBBI", code, yes, no, value & 0xFFFFFFFF) for code, value, yes, no in program(processes)]
    code = ctypes.create_string_buffer(b"".join(steps))
    try:
        listening.setsockopt(socket.SOL_SOCKET, _ATTACH, struct.pack("@HP", len(steps), ctypes.addressof(code)))
    except OSError as error:
        hint = f"A VM may ask up to {processes} times as often as --throttle says."
        log.warning("VMs are not steered to one worker each", action="not-steered", error=str(error), hint=hint)
