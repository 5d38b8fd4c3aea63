"""What clients of the Azure door send costs other VMs nothing, with a token or without (S24, S29).

The numbers are those of an attack on an older commit, or larger.
"""

import json
import socket
import ssl
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from duenotice.azure_api.sign_in import TENANT
from duenotice.bounds import PAGE_BYTES
from tests.promises.prober import Prober
from tests.promises.stalls.moment import LIMIT, TRIES
from tests.support.azure import GROUP, SUBSCRIPTION, Azure
from tests.support.node import Answer
from tests.support.ports import free_port
from tests.support.served import Served

pytestmark = pytest.mark.serial
CROWD, FLOCK = 2_000, 10_000
"""VMs on one host, each with an event of its own; and VMs of one update domain of a set."""
TOLD = 1_000
"""How many of those share one event, which is as many as may be."""
READERS = 60
MOST_MEMORY = 100 * 1024 * 1024
"""Bytes that nothing from outside may raise the memory of the process by."""
PATIENCE = 60.0


class Door(NamedTuple):
    """A node, its Azure door, and who polls meanwhile."""

    node: Served
    azure: Azure
    prober: Prober

    def connect(self, small: bool = False) -> ssl.SSLSocket:
        """A connection on which anything may be sent; the kernel keeps little for one that is `small`."""
        host, _, port = self.azure.url.removeprefix("https://").partition(":")
        plain = socket.socket()
        plain.settimeout(PATIENCE)
        if small:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.connect((host, int(port)))
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


def of_flock(number: int) -> str:
    """A name as long as names can be."""
    return f"flock-{number:058d}"


def fleet() -> str:
    """A fleet file: who polls, and many others."""
    crowd = ((f"crowd-{n}", f"127.1.{n // 250}.{n % 250}", 'host = "old"\n') for n in range(CROWD))
    alone = [("poller", "127.0.0.1", ""), *crowd]
    vms = "".join(f'[[vms]]\nname = "{name}"\naddress = "{address}"\n{more}' for name, address, more in alone)
    flock = ",".join(f'{{name="{of_flock(n)}",address="127.2.{n // 250}.{n % 250}"}}' for n in range(FLOCK))
    hosts = "".join(f'[[hosts]]\nname = "{name}"\n' for name in ("old", "new"))
    herd = f'[[availability_sets]]\nname = "flock"\nupdate_domains = 1\nvms = [{flock}]\n'
    return f'[site]\nresource_group = "{GROUP}"\n{hosts}{vms}{herd}'


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A real `duenotice serve` whose Azure door is open."""
    folder = tmp_path_factory.mktemp("azure-door")
    (folder / "fleet.toml").write_text(fleet())
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


# With a viewer's token


@pytest.fixture(scope="module")
def viewer(door: Door) -> Iterator[Azure]:
    """Somebody who may read, while a host has failed and a whole update domain is told of an event."""
    door.node.operate("/v1/hosts/old/fail")
    door.node.operate(f"/v1/vms/{of_flock(0)}/listen")
    many = [of_flock(n) for n in range(TOLD)]
    door.node.operate("/v1/events", {"type": "Freeze", "resources": many, "description": "d" * 200})
    made = door.node.operate("/v1/tokens", {"name": "viewer", "role": "viewer"})
    with Azure.at(door.azure.url, door.azure.ca, made["token"]) as reader:
        reader.signed_in_as = reader.access()
        yield reader


GRAPH = "/providers/Microsoft.ResourceGraph/resources"
LISTS = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute"


def _asked(reader: Azure, query: str, **options: object) -> Answer:
    body = {"query": f"maintenanceresources | {query}", "options": {f"${name}": it for name, it in options.items()}}
    return reader.ask("POST", GRAPH, json.dumps(body).encode())


def _times(number: int, text: str, between: str = ", ") -> str:
    return between.join(text.format(n=n) for n in range(number))


LARGEST = _times(64, "p{n} = properties")
QUERIES = {
    "a thousand columns": (f"project {_times(1000, 'p{n}=properties')}", 400),
    "as many columns as there may be": (f"project {LARGEST}", 200),
    "the same of the largest event": (f"where properties.EventType == 'Freeze' | project {LARGEST}", 400),
    "the same as texts": (
        f"project {_times(64, 'p{n} = tostring(properties)')}",
        200,
    ),
    "order by all that there is": (
        f"order by {_times(64, 'tostring(properties.K{n})')}, properties | project name",
        400,
    ),
    "order by long texts": (f"order by {_times(60, 'tostring(properties)')} | project name", 200),
    "groups of long texts": (f"summarize count() by {_times(32, 'p{n} = tostring(properties)')} | count", 200),
    "as many comparisons as there may be": (f"where {_times(100, 'tostring(properties) == 1', ' or ')} | count", 200),
    "very many values": (f"where name in ({_times(4_500, '1', ',')}) | count", 200),
    "brackets": (f"where {'(' * 51}name == 1", 400),
    "steps": (f"{_times(1000, 'limit 9', '|')}", 400),
}


@pytest.mark.parametrize("what", QUERIES)
def test_no_query_of_a_viewer_delays_polls_or_takes_memory(door: Door, viewer: Azure, what: str) -> None:
    """Over 2,001 events, one of them with 1,000 VMs; four at once. Each is answered within a page, or refused."""
    query, status = QUERIES[what]
    before = door.forget()

    def attack() -> list[Answer]:
        with ThreadPoolExecutor(4) as threads:
            return list(threads.map(lambda _: _asked(viewer, query), range(4)))

    answers = list[Answer]()
    assert door.slowest_poll(lambda: answers.extend(attack())) <= LIMIT
    assert {answer.status for answer in answers} == {status}, answers[0].body[:300]
    assert max(len(answer.body) for answer in answers) <= 1.1 * PAGE_BYTES
    assert door.memory("VmHWM") - before < MOST_MEMORY


def test_pages_of_a_query_end_at_a_mebibyte_and_fit_together(viewer: Azure) -> None:
    """Each row once, in the order in which events were raised; no page is larger, but for a row that is alone."""
    names, token, pages = list[str](), None, list[int]()
    while token or not pages:
        answer = _asked(viewer, "project name, a = properties, b = properties, c = properties", skipToken=token)
        told = answer.json()
        assert (told["totalRecords"], told["count"], told["resultTruncated"]) == (CROWD + 1, len(told["data"]), "false")
        names += [row["name"] for row in told["data"]]
        token, pages = told.get("$skipToken"), [*pages, len(answer.body)]
    assert (len(names), len(set(names))) == (CROWD + 1, CROWD + 1)
    assert len(pages) >= 3
    assert max(pages) <= 1.1 * PAGE_BYTES


@pytest.mark.parametrize("place", [[10**9, 1000], [10**9 + 1, 1], [0, 1001], [-1, 1], [0, 0], [0], ["0", "1"], {}])
def test_a_skip_token_that_somebody_made_gets_no_more_than_a_page(viewer: Azure, place: object) -> None:
    """It says how many rows are left out, so a false one is worth nothing; what is not like that is refused."""
    answer = _asked(viewer, "project name", skipToken=urlsafe_b64encode(json.dumps(place).encode()).decode())
    if place == [10**9, 1000]:
        assert (answer.status, answer.json()["data"]) == (200, [])
    else:
        assert (answer.status, answer.json()["error"]["target"]) == (400, "$skipToken")


@pytest.mark.parametrize("target", [f"{LISTS}/virtualMachines", f"{LISTS}/virtualMachines?$expand=instanceView"])
def test_pages_of_a_list_end_at_a_mebibyte_and_fit_together(viewer: Azure, target: str) -> None:
    """nextLink goes on behind the last one."""
    names, sizes = list[str](), list[int]()
    while target:
        answer = viewer.ask("GET", target)
        names += [vm["name"] for vm in answer.json()["value"]]
        target = answer.json().get("nextLink", "").removeprefix(viewer.url)
        sizes.append(len(answer.body))
    assert names == sorted(names)
    assert len(set(names)) == len(names) == CROWD + FLOCK + 1
    assert max(sizes) <= 1.1 * PAGE_BYTES


def test_a_set_that_names_very_many_vms_is_shown_whole(viewer: Azure) -> None:
    """It may be larger than a page; it is written in pieces."""
    (shown,) = viewer.get(f"{LISTS}/availabilitySets")["value"]
    assert len(shown["properties"]["virtualMachines"]) == FLOCK


def test_who_does_not_read_takes_a_bounded_buffer(door: Door, viewer: Azure) -> None:
    """Sixty connections ask for a page of a mebibyte and read nothing; VMs, and who asks for little, are served."""
    target = f"{LISTS}/virtualMachines?$expand=instanceView"
    head = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {viewer.signed_in_as}\r\n\r\n"
    before = door.forget()

    def attack() -> None:
        with ExitStack() as stack:
            for _ in range(READERS):
                stack.enter_context(door.connect(small=True)).sendall(head.encode())
            assert viewer.ask("GET", f"/subscriptions/{SUBSCRIPTION}").status == 200
            assert door.azure.ask("GET", target).status == 200  # another token has places of its own

    assert door.slowest_poll(attack) <= LIMIT
    assert door.memory("VmHWM") - before < MOST_MEMORY
    assert viewer.ask("GET", target).status == 200  # all places are free again
