"""What clients of the Azure door send costs other VMs nothing, with a token or without (S24, S29).

The numbers are those of an attack on an older commit, or larger.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from duenotice.azure_api.sign_in import TENANT
from tests.promises.prober import Prober
from tests.promises.stalls.moment import LIMIT, TRIES
from tests.support.azure import Azure
from tests.support.ports import free_port
from tests.support.served import Served

pytestmark = pytest.mark.serial
FLEET = """
[site]
resource_group = "demo"
[[vms]]
name = "poller"
address = "127.0.0.1"
"""
MOST_MEMORY = 100 * 1024 * 1024
"""Bytes that nothing from outside may raise the memory of the process by."""
PATIENCE = 60.0


class Door(NamedTuple):
    """A node, its Azure door, and who polls meanwhile."""

    node: Served
    azure: Azure
    prober: Prober

    def connect(self) -> ssl.SSLSocket:
        """A connection on which anything may be sent."""
        host, _, port = self.azure.url.removeprefix("https://").partition(":")
        plain = socket.create_connection((host, int(port)), PATIENCE)
        return ssl.create_default_context(cafile=self.azure.ca).wrap_socket(plain, server_hostname=host)

    def slowest_poll(self, attack: Callable[[], object]) -> float:
        """Of another VM, in seconds. The machine is shared: what was too slow is done again, and the best counts."""
        slowest = float("inf")
        for _ in range(TRIES):
            with self.prober.watching() as watch:
                attack()
            assert not (watch.polls.trouble or watch.polls.unanswered), self.node.server.log()
            slowest = min(slowest, watch.polls.slowest)
            if slowest <= LIMIT:
                break
        return slowest

    def memory(self, what: str = "VmRSS") -> int:
        """Bytes of the process; VmHWM is the most since the last `forget`."""
        lines = Path(f"/proc/{self.node.server.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))

    def forget(self) -> int:
        """Count the most memory from now on; what it is now."""
        Path(f"/proc/{self.node.server.pid}/clear_refs").write_text("5")
        return self.memory()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A real `duenotice serve` whose Azure door is open."""
    folder = tmp_path_factory.mktemp("azure-door")
    (folder / "fleet.toml").write_text(FLEET)
    listen = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        node = stack.enter_context(Served(folder / "data", folder / "fleet.toml", azure_listen=listen, throttle=1e9))
        azure = Azure.at(f"https://{listen}", str(folder / "data" / "azure-ca.pem"), node.token)
        yield Door(node, stack.enter_context(azure), stack.enter_context(Prober(node.metadata_address)))


# Without a token


FORM = (b"%=%&" * 250_000)[:1_000_000]
"""A million bytes, half a million fields."""


def _said(framing: str) -> tuple[bytes, bytes]:
    """The head of a sign-in with this form, and its body but for the last byte."""
    head = f"POST /{TENANT}/oauth2/v2.0/token HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode()
    if "chunked" in framing:
        return head, b"%x\r\n%b\r\n0\r\n\r" % (len(FORM), FORM)
    return head, FORM[:-1]


@pytest.mark.parametrize("framing", [f"Content-Length: {len(FORM)}", "Transfer-Encoding: chunked"])
def test_thirty_sign_ins_of_a_million_bytes_at_once_delay_no_poll(door: Door, framing: str) -> None:
    """Their last bytes come together; none of them is read any further than a form can be long, and all are refused."""
    head, body = _said(framing)
    before = door.forget()

    def attack() -> list[bytes]:
        everybody = threading.Barrier(30)

        def one(_: int) -> bytes:
            with door.connect() as line:
                with suppress(OSError):  # it may hang up while we send
                    line.sendall(head + body)
                everybody.wait(PATIENCE)
                with suppress(OSError):
                    line.sendall(b"\n")
                with suppress(OSError):
                    return line.recv(12)
            return b""

        with ThreadPoolExecutor(30) as threads:
            return list(threads.map(one, range(30)))

    answers = list[bytes]()
    assert door.slowest_poll(lambda: answers.extend(attack())) <= LIMIT
    assert {answer for answer in answers if answer} <= {b"HTTP/1.1 413"}
    assert door.memory("VmHWM") - before < MOST_MEMORY
