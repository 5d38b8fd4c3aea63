"""The Azure door, driven by the real SDK: long lists, what it costs beside our own API, and what VMs feel of it."""

import asyncio
import http.client
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import Any, NamedTuple

from azure.identity import ClientSecretCredential
from azure.identity.aio import ClientSecretCredential as AsyncCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.compute.aio import ComputeManagementClient as AsyncCompute

from benchmarks.support.console import step
from benchmarks.support.fleets import alone
from benchmarks.support.machine import CannotMeasure
from benchmarks.support.node import Node
from benchmarks.support.results import Duel, Row, at_most, figure, p50, within
from benchmarks.support.wrk import run_wrk
from benchmarks.support.yard import Yard
from duenotice.client import OperatorClient

SIZE = 50_000
"""VMs, of which a fifth are listed: the others are instances of scale sets."""
LISTED = SIZE // 5
POLLERS = 100
SETTLE_SECONDS = 20
"""So long pollers wait before they are measured: the first polls of each are held for a short time only."""
CONNECTIONS = 64
ROUNDS, RESTARTS = 3, 50
GROUP, SUBSCRIPTION = "duenotice", "00000000-0000-0000-0000-000000000000"
TENANT = "d0e07a00-0000-4000-8000-000000000000"
_URL = re.compile(rb"(https://[\d.]+:\d+)")


class Door(NamedTuple):
    """Where it is, and how to get in."""

    url: str
    ca: str
    token: str

    def arguments(self) -> dict[str, Any]:
        """What every management client is given."""
        return {"base_url": self.url, "credential_scopes": [f"{self.url}/.default"], "connection_verify": self.ca}

    def sign_in(self, kind: type[Any]) -> Any:
        """A credential."""
        known = {"authority": self.url, "disable_instance_discovery": True, "connection_verify": self.ca}
        return kind(TENANT, "benchmark", self.token, **known)


def measure(yard: Yard) -> list[Row]:
    """Lists, restarts in turns, polls in turns."""
    data_dir = yard.data_dir(SIZE)
    with Node(data_dir, None, "--azure-listen", "127.0.0.1:0") as node:
        door = Door(node._next(_URL)[1].decode(), str(data_dir / "azure-ca.pem"), node.token)
        with ComputeManagementClient(door.sign_in(ClientSecretCredential), SUBSCRIPTION, **door.arguments()) as compute:
            pages = [_paged(door) for _ in range(ROUNDS)]
            lists = [_listed(compute) for _ in range(ROUNDS)]
            restarts = _restarts(node, compute, RESTARTS)
        polls = [_polls(node, door, yard.seconds, number) for number in range(ROUNDS)]
    (sdk, ours), duel = restarts, Duel(*zip(*polls, strict=True))
    return [
        within(f"a list of {LISTED:,} VMs, page by page, as JSON", p50(pages), 1000, "ms"),
        Row("the same as models of the SDK, which takes their making", f"{figure(p50(lists))} ms"),
        within("a restart through the SDK, beside one through our API", p50(sdk) - p50(ours), 5, "ms"),
        Row("the two alone", f"{figure(p50(sdk))} ms", f"{figure(p50(ours))} ms"),
        at_most(f"p99 of a poll while {POLLERS} SDK pollers wait, beside none", duel, 1.2, "µs"),
    ]


def _paged(door: Door) -> float:
    """All pages on one connection; what a page says is read, but no model is made of it."""
    token = door.sign_in(ClientSecretCredential).get_token(f"{door.url}/.default").token
    tls, headers = ssl.create_default_context(cafile=door.ca), {"Authorization": f"Bearer {token}"}
    line = http.client.HTTPSConnection(door.url.removeprefix("https://"), context=tls)
    target, count = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/virtualMachines", 0
    began = perf_counter()
    while target:
        line.request("GET", target, headers=headers)
        page = json.loads(line.getresponse().read())
        count, target = count + len(page["value"]), page.get("nextLink", "").removeprefix(door.url)
    took = (perf_counter() - began) * 1e3
    line.close()
    step(f"{count:,} VMs in pages in {took:.0f} ms")
    if count != LISTED:
        raise CannotMeasure(f"{count:,} VMs are listed instead of {LISTED:,}.")
    return took


def _listed(compute: Any) -> float:
    began = perf_counter()
    count = sum(1 for _ in compute.virtual_machines.list_all())
    took = (perf_counter() - began) * 1e3
    if count != LISTED:
        raise CannotMeasure(f"{count:,} VMs are listed instead of {LISTED:,}.")
    step(f"{count:,} VMs listed in {took:.0f} ms")
    return took


def _restarts(node: Node, compute: Any, count: int) -> tuple[list[float], list[float]]:
    """In turns, each of another VM that listens."""
    sdk, ours = list[float](), list[float]()
    with OperatorClient(f"http://{node.operator}", node.token) as operator:
        for place, (name, _) in enumerate(alone(2 * count + 2, SIZE)):
            operator.listen_vm(name)
            began = perf_counter()
            if place % 2:
                compute.virtual_machines.begin_restart(GROUP, name, polling=False)
            else:
                operator.restart_vm(name)
            (sdk if place % 2 else ours).append((perf_counter() - began) * 1e3)
    step(f"{count} restarts each: {p50(sdk):.2f} ms through the SDK, {p50(ours):.2f} ms through our API")
    return sdk[1:], ours[1:]  # the first makes connections


def _polls(node: Node, door: Door, seconds: int, number: int) -> tuple[float, float]:
    with _pollers(node, door):
        sleep(SETTLE_SECONDS)
        waited = run_wrk(node.metadata, CONNECTIONS, seconds).p99
    quiet = run_wrk(node.metadata, CONNECTIONS, seconds).p99
    step(f"round {number + 1}: p99 {figure(waited)} µs with {POLLERS} pollers, {figure(quiet)} µs without")
    return waited, quiet


@contextmanager
def _pollers(node: Node, door: Door) -> Iterator[None]:
    """So many pollers of the asyncio SDK, each waiting for a restart that nobody approves."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    crowd = asyncio.run_coroutine_threadsafe(_crowd(node, door), loop).result(60)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(_leave(crowd), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        with OperatorClient(f"http://{node.operator}", node.token) as operator:
            for event in list(operator.events()):
                operator.cancel_event(event.id)


class Crowd(NamedTuple):
    """Who waits, with what."""

    waiting: list["asyncio.Task[Any]"]
    compute: Any
    credential: Any


async def _crowd(node: Node, door: Door) -> Crowd:
    credential = door.sign_in(AsyncCredential)
    compute = AsyncCompute(credential, SUBSCRIPTION, **door.arguments())
    with OperatorClient(f"http://{node.operator}", node.token) as operator:
        names = [name for name, _ in alone(POLLERS, SIZE)]
        for event in list(operator.events()):
            operator.cancel_event(event.id)
        for name in names:
            operator.listen_vm(name)
    pollers = [await compute.virtual_machines.begin_restart(GROUP, name) for name in names]
    return Crowd([asyncio.ensure_future(poller.result()) for poller in pollers], compute, credential)


async def _leave(crowd: Crowd) -> None:
    for task in crowd.waiting:
        task.cancel()
    await asyncio.gather(*crowd.waiting, return_exceptions=True)
    await crowd.compute.close()
    await crowd.credential.close()
