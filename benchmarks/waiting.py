"""10,000 VMs of one scope wait for news: the time until the last of them has the whole new document."""

import gc
import json
from collections.abc import Sequence
from time import monotonic, process_time
from typing import NamedTuple

from benchmarks.support.console import step
from benchmarks.support.crowd import Crowd, check_ok
from benchmarks.support.fleets import set_members
from benchmarks.support.http import poll, post
from benchmarks.support.machine import CannotMeasure
from benchmarks.support.node import Node
from benchmarks.support.process import cpu_seconds
from benchmarks.support.results import Row, figure, p50, within
from benchmarks.support.yard import FLEET, Yard

WAIT = "&wait=120s"
LIMIT = 100.0
EVERY = 0.001
"""Seconds after which the load looks again who was told."""


class Told(NamedTuple):
    """Milliseconds until the last VM knew, since the operator asked and was answered; and what work that was."""

    since_asked: float
    since_answered: float
    server_cpu: float
    load_cpu: float


def measure(yard: Yard) -> list[Row]:
    """Let them wait, schedule an event, and see when the last one knows; several times, the median counts."""
    members = set_members(FLEET)
    with Node(yard.data_dir()) as node, Crowd() as crowd:
        vms = crowd.join(node.metadata, [address for _, address in members], poll())
        operator, fence = crowd.connect(node.operator), crowd.connect(node.metadata)
        step(f"{len(vms):,} VMs connected")
        told = [_round(node, crowd, vms, operator, fence, incarnation) for incarnation in range(yard.rounds)]
    return [
        within(f"last of {len(vms):,} told, since just before the operator's request", _median(told, 0), LIMIT, "ms"),
        Row("the same in the worst round", f"{figure(max(each.since_asked for each in told))} ms"),
        Row(f"last of {len(vms):,} told, since the operator's answer", f"{figure(_median(told, 1))} ms"),
        Row("processor time of that: the server's, and the load's on its own core", _cpu(told)),
    ]


def _round(node: Node, crowd: Crowd, vms: Sequence[int], operator: int, fence: int, incarnation: int) -> Told:
    """The VMs have the document of that incarnation and wait for the next."""
    crowd.send(vms, poll(f'If-None-Match: "{incarnation}"', more=WAIT))
    # The server reads connections in the order in which bytes came: once it answers these, it has read the others.
    for _ in range(2):
        check_ok(crowd.ask([fence], poll()))
    gc.collect()
    gc.disable()
    server_before, load_before = cpu_seconds(node.pid), process_time()
    began = monotonic()
    crowd.send([operator], _schedule(node.token))
    heard = crowd.hear(len(vms) + 1, EVERY)
    server_cpu, load_cpu = cpu_seconds(node.pid) - server_before, process_time() - load_before
    gc.enable()
    answered = heard.pop(operator)
    if not answered.answer.startswith(b"HTTP/1.1 201 "):
        raise CannotMeasure(f"The operator was answered {answered.answer!r}.")
    check_ok(heard, b'{"DocumentIncarnation":%d,' % (incarnation + 1))
    last = max(at for _, at in heard.values())
    told = Told(*(seconds * 1e3 for seconds in (last - began, last - answered.at, server_cpu, load_cpu)))
    step(
        f"round {incarnation + 1}: {told.since_asked:.0f} ms, {told.since_answered:.0f} ms since the answer; "
        f"{told.server_cpu:.0f} ms of work for the server, {told.load_cpu:.0f} ms for the load"
    )
    return told


def _schedule(token: str) -> bytes:
    name, _ = set_members(FLEET, 1)[0]
    return post("/v1/events", token, json.dumps({"type": "Freeze", "resources": [name]}).encode())


def _cpu(told: Sequence[Told]) -> str:
    return f"{p50([each.server_cpu for each in told]):.0f} ms, {p50([each.load_cpu for each in told]):.0f} ms"


def _median(told: Sequence[Told], which: int) -> float:
    return p50([each[which] for each in told])
