"""From the operator's request to the agent's first handler: with a service that waits, and polled; and its memory."""

import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.support.children import Child
from benchmarks.support.console import step
from benchmarks.support.machine import LOAD_CORE, pinned
from benchmarks.support.node import Node
from benchmarks.support.process import resident_bytes
from benchmarks.support.results import Row, p50, p99, within
from benchmarks.support.yard import Yard
from duenotice.agent.ledger import NAME, read_ledger
from duenotice.agent.state import LedgerRecord
from duenotice.client import OperatorClient

FLEET = 1000
VM = "poller"
POLLED_LIMIT, WAITING_LIMIT, MEMORY_LIMIT = 1.3, 50.0, 40.0
PROOF = 11.0
"""Seconds of quiet in which the client learns that the service holds its polls."""
CONFIG = """
[metadata]
endpoint = "http://{metadata}"
[[rules]]
handlers = ["hook"]
[handlers.hook]
kind = "command"
prepare = ["/bin/true"]
recover = ["/bin/true"]
"""
POLLS = "import re; from duenotice.client import watch; watch._TAG = re.compile('(?!)')\n"
"""No entity tag is worth sending back: as with a service that has none, the client polls once a second."""
MAIN = "from duenotice.cli import main; main()"


def measure(yard: Yard) -> list[Row]:
    """The same agent twice: as it is, and against a service that holds no poll."""
    count = 10 if yard.quick else 50
    with Node(yard.data_dir(FLEET)) as node:
        with _agent(yard, node, "waits", MAIN) as agent:
            time.sleep(PROOF)
            waited = [_sample(agent, node) for _ in range(count)]
            memory = resident_bytes(agent.pid) / 1e6
        with _agent(yard, node, "polls", POLLS + MAIN) as agent:
            polled = [_sample(agent, node) for _ in range(count)]
    return [
        within(f"first handler begins, service waits, p99 of {count}", p99(waited) * 1e3, WAITING_LIMIT, "ms"),
        Row("the same, median", f"{p50(waited) * 1e3:.1f} ms"),
        within(f"first handler begins, one poll a second, p99 of {count}", p99(polled), POLLED_LIMIT, "s"),
        Row("the same, median", f"{p50(polled):.2f} s"),
        within("resident memory of the agent", memory, MEMORY_LIMIT, "MB"),
    ]


class _Agent(Child):
    """A real agent; its ledger tells when a handler began."""

    ledger: Path


def _agent(yard: Yard, node: Node, name: str, code: str) -> _Agent:
    folder = yard.folder(f"agent-{name}")
    folder.mkdir()
    (folder / "agent.toml").write_text(CONFIG.format(metadata=node.metadata))
    arguments = ["agent", "run", "--config", str(folder / "agent.toml"), "--state-dir", str(folder / "state")]
    agent = _Agent(pinned(LOAD_CORE, [sys.executable, "-c", code, *arguments]), folder / "log")
    agent.ledger = folder / "state" / NAME
    _until(agent, lambda: '"name-learned"' in (folder / "log").read_text())
    step(f"the agent {name}")
    return agent


def _sample(agent: _Agent, node: Node) -> float:
    """Seconds from just before the operator's request to the record of the handler's beginning."""
    time.sleep(0.3 + random.random())  # at any moment between two polls
    began = datetime.now(UTC)
    client = _client(node)
    event_id = client.schedule_event("Freeze", [VM]).events[0].id.upper()
    _until(agent, lambda: _find(agent, event_id, "prepared") is not None)
    first = _find(agent, event_id, "preparing")
    client.cancel_event(event_id)
    client.close()
    _until(agent, lambda: _find(agent, event_id, "recovered") is not None)
    assert first is not None
    return (first.at - began).total_seconds()


def _client(node: Node) -> OperatorClient:
    """An operator who asks once: a request that is sent again would be measured wrong."""
    return OperatorClient(f"http://{node.operator}", node.token, budget=0)


def _find(agent: _Agent, event_id: str, what: str) -> LedgerRecord | None:
    records = read_ledger(agent.ledger).records
    return next((each for each in records if (each.event_id, each.kind) == (event_id, what)), None)


def _until(agent: Child, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        if agent.has_ended or time.monotonic() > deadline:
            raise agent.failed("did not do its work")
        time.sleep(0.005)
