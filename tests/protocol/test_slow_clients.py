"""Clients that send slowly, or nothing, are closed in time, and nobody else notices."""

import resource
import socket
import time
from dataclasses import replace

import pytest

from duenotice.metadata_api.options import MetadataOptions
from tests.programs import skip_unless_ci
from tests.protocol.raw import POLL, Client
from tests.protocol.world import GENEROUS, World, running

TRICKLERS = 2000


@pytest.fixture
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * TRICKLERS + 500
    if hard < needed:
        skip_unless_ci(f"needs {needed} open files; the limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def trickler(world: World, number: int) -> socket.socket:
    client = socket.create_connection(world.address, 5, (f"127.0.3.{1 + number // 50}", 0))
    client.setblocking(False)
    client.send(POLL[:10])
    return client


def is_open(client: socket.socket, byte: bytes) -> bool:
    """Send one more byte; False once the server has closed."""
    try:
        client.send(byte)
        while client.recv(1000):
            pass
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.serial
def test_2_000_trickling_connections_are_closed_within_10_s_while_honest_polls_never_fail(many_files: None) -> None:
    with running(MetadataOptions(throttle=100)) as world, Client(world, timeout=1) as honest:
        begin = time.monotonic()
        open_ones = [trickler(world, number) for number in range(TRICKLERS)]
        for byte in POLL[10:] * 10:
            assert honest.ask().status == 200
            still_open = [client for client in open_ones if is_open(client, bytes([byte]))]
            for client in set(open_ones) - set(still_open):
                client.close()
            open_ones = still_open
            if not open_ones or time.monotonic() - begin > 10:
                break
            time.sleep(0.1)
        assert not open_ones
        assert 5 <= time.monotonic() - begin <= 10


def test_who_connects_and_says_nothing_is_closed() -> None:
    with running(replace(GENEROUS, request_seconds=0.2)) as world, Client(world, timeout=10) as client:
        assert client.is_closed()
