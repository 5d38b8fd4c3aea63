"""The JSON of every command has the keys that docs/cli.md gives for it, no more and no less."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import Node

DOCUMENT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
ALSO = {
    "vm show": {"events", "last_seen"},
    "token create": {"token"},
    "subscription create": {"secret"},
    "subscription show": {"messages"},
}
LINES = {
    "events list": "events list",
    "events show": "events show {event}",
    "events schedule": "events schedule db-0 --type Freeze",
    "events approve": "events approve {event}",
    "events cancel": "events cancel {event}",
    "vm restart": "vm restart db-1",
    "vm redeploy": "vm redeploy db-1",
    "vm evict": "vm evict render-0 --yes",
    "vm delete": "vm delete workers_0 --yes",
    "vm list": "vm list --group set/web",
    "vm show": "vm show web-0",
    "host degrade": "host degrade host-1",
    "host fail": "host fail host-1 --yes",
    "host repair": "host repair host-1",
    "host list": "host list",
    "host drain": "host drain host-3",
    "maintenance start": "maintenance start --on set=web --type Reboot",
    "maintenance start --dry-run": "maintenance start --on set=web --type Reboot --dry-run",
    "maintenance list": "maintenance list",
    "maintenance show": "maintenance show {plan}",
    "maintenance steps": "maintenance steps {plan}",
    "maintenance pause": "maintenance pause {plan}",
    "maintenance resume": "maintenance resume {paused}",
    "maintenance cancel": "maintenance cancel {plan}",
    "audit": "audit --first 3",
    "events history": "events history {event}",
    "search": "search web",
    "clock show": "clock show",
    "clock advance": "clock advance 1s",
    "fleet show": "fleet show",
    "fleet apply": f"fleet apply {DEMO}",
    "subscription list": "subscription list",
    "subscription create": "subscription create https://receiver.invalid/ --format eventgrid",
    "subscription show": "subscription show {subscription}",
    "subscription pause": "subscription pause {subscription}",
    "subscription resume": "subscription resume {subscription}",
    "token list": "token list",
    "node list": "node list",
    "token create": "token create ci",
}
ELSEWHERE = {"events watch", "events acknowledge", "clock speed", "db status", "subscription replay", "node readers"}
"""Proven by tests of their own, below, in test_cli_subscription.py or with the golden tables: they need time, another
clock, or followers."""


def documented() -> Iterator[tuple[str, set[str], str]]:
    """Command, its keys, and whether it gives a list or one thing."""
    for line in DOCUMENT.partition("### Shapes of JSON")[2].partition("\n## ")[0].splitlines():
        if line.startswith("| ") and not line.startswith("| shape"):
            _, _, keys, where, _ = (cell.strip() for cell in line.split("|"))
            for part in where.split(";"):
                how = part.strip().partition(":")[0].partition(",")[0]
                yield from (
                    (command, _words(keys), how) for command in re.findall(r"`([a-z][^`]+)`", part.partition(":")[2])
                )


def _words(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


SHAPES = list(documented())


@pytest.fixture
def names(node: Node) -> dict[str, str]:
    """An event, a maintenance that runs and one that is paused, by their ids."""
    node.enable("web-0", "db-0", "db-1", "render-0", "workers_0", "FrontEnd_IN_0")
    running, paused = (
        node.operate("/v1/maintenances", {"on": [on], "type": "Reboot"})["id"] for on in ("service=shop", "vm=db-1")
    )
    node.operate(f"/v1/maintenances/{paused}/pause")
    subscription = node.operate("/v1/subscriptions", {"url": "http://127.0.0.1:9/", "format": "cloudevents"})["id"]
    event_id = node.schedule("Freeze", "db-0")
    return {"event": event_id, "plan": running, "paused": paused, "subscription": subscription}


@pytest.mark.parametrize(("command", "keys", "how"), [each for each in SHAPES if each[0] not in ELSEWHERE])
def test_its_json_has_the_keys_of_the_document(
    node: Node, names: dict[str, str], command: str, keys: set[str], how: str
) -> None:
    """A list is an array and one thing an object."""
    done = duenotice(node, *LINES[command].format(**names).split(), "-o", "json")
    found = done.json()
    assert isinstance(found, list if how == "list" else dict)
    items = found if isinstance(found, list) else [found]
    assert items
    assert {frozenset(item) for item in items} == {frozenset(keys | ALSO.get(command, set()))}


def test_every_command_with_json_is_in_the_document() -> None:
    """None is forgotten, in the document or here."""
    assert {command for command, _, _ in SHAPES} == set(LINES) | ELSEWHERE


def test_a_change_that_is_watched_is_an_event(node: Node) -> None:
    """One per line."""
    node.enable("db-0")
    node.schedule("Freeze", "db-0")
    done = duenotice(node, "events", "watch", "-o", "jsonl", "--wait-timeout", "500ms")
    (keys,) = [keys for command, keys, _ in SHAPES if command == "events watch"]
    (event,) = [json.loads(line) for line in done.out.splitlines()]
    assert set(event) == keys


def test_the_speed_of_a_clock_is_a_clock() -> None:
    """Where there is a speed to set."""
    with Node(DEMO, clock="60x") as node:
        told: Any = duenotice(node, "clock", "speed", "120x", "-o", "json").json()
        assert (set(told), told["speed"]) == ({"clock", "now", "speed"}, 120)


def test_a_list_is_printed_as_its_pages_come(node: Node) -> None:
    """All 272 VMs in the order of their names, with any page size."""
    lines = duenotice(node, "vm", "list", "-o", "jsonl").out.splitlines()
    names = [json.loads(line)["name"] for line in lines]
    assert names == sorted(node.service.publisher.state.fleet.vms)
