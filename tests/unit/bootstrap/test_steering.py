"""The kernel gives all connections of an address to the same process, and spreads addresses over all of them."""

import socket
from collections import Counter
from contextlib import ExitStack, suppress

import pytest

from duenotice.bootstrap.workers import attach_reuseport_bpf

PROCESSES, ADDRESSES, TIMES = 3, 30, 4


@pytest.mark.parametrize("host", ["127.0.0.1", "::"])
def test_an_address_always_gets_the_same_process(host: str) -> None:
    """Also IPv4 on a socket for both; each process gets its part of the addresses."""
    with ExitStack() as stack:
        sharing: list[socket.socket] = []
        for number in range(PROCESSES):
            made = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.bind((host, sharing[0].getsockname()[1] if sharing else 0))
            if not number:
                attach_reuseport_bpf(made, PROCESSES)
            made.listen()
            made.setblocking(False)
            sharing.append(made)
        got: dict[str, set[int]] = {}
        for address in [f"127.0.1.{last + 1}" for last in range(ADDRESSES)] * TIMES:
            port = sharing[0].getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), source_address=(address, 0)):
                got.setdefault(address, set()).add(_accepted(sharing))
    assert {len(numbers) for numbers in got.values()} == {1}
    counts = Counter(number for numbers in got.values() for number in numbers)
    assert set(counts) == set(range(PROCESSES))


def _accepted(sharing: list[socket.socket]) -> int:
    """Which of them has a connection."""
    while True:
        for number, listening in enumerate(sharing):
            with suppress(BlockingIOError):
                listening.accept()[0].close()
                return number
