"""Hosts, fleets, documents, tokens and the clock on the command line, against a real node."""

from pathlib import Path

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import Node


@pytest.fixture(autouse=True)
def _somebody_listens(node: Node) -> None:
    node.enable("web-0", "db-1")


def test_a_host_degrades_is_repaired_and_fails(node: Node) -> None:
    """High risk is a day ahead; a failure has started when it is told."""
    events = duenotice(node, "host", "degrade", "host-2", "--risk", "high", "-o", "json").json()
    assert {event["phase"] for event in events} == {"scheduled"}
    assert duenotice(node, "host", "repair", "host-2", "-o", "name").out == "host-2\n"
    events = duenotice(node, "host", "fail", "host-2", "--yes", "-o", "json").json()
    assert {event["phase"] for event in events} == {"started"}


def test_the_clock_is_shown_and_advanced(node: Node) -> None:
    """Time passes as told."""
    before = duenotice(node, "clock", "show", "-o", "json").json()
    after = duenotice(node, "clock", "advance", "15m", "-o", "json").json()
    assert before["clock"] == "manual"
    assert after["now"] == node.operate("/v1/clock", method="GET")["now"] > before["now"]


def test_a_fleet_file_is_applied(node: Node, tmp_path: Path) -> None:
    """A broken one is refused with its reason."""
    assert duenotice(node, "fleet", "apply", str(DEMO)).code == 0
    broken = tmp_path / "fleet.toml"
    broken.write_text('[[vms]]\nname = "a"\naddress = "10.0.0.1"\nadress = "10.0.0.1"\n')
    done = duenotice(node, "fleet", "apply", str(broken))
    assert done.code == 2
    assert "adress" in done.err
    assert duenotice(node, "fleet", "apply", "/nowhere").code == 2


def test_hosts_are_listed_and_drained(node: Node) -> None:
    """Draining is a maintenance of live migrations."""
    assert duenotice(node, "host", "list", "-o", "name").out.split() == ["host-1", "host-2", "host-3"]
    plan = duenotice(node, "host", "drain", "host-2", "--at-once", "1", "-o", "json").json()
    assert (plan["cause"], plan["at_once"]) == ("live-migration", 1)


def test_a_document_is_what_the_vm_reads(node: Node) -> None:
    """Byte for byte, at any api-version."""
    node.schedule("Reboot", "web-0")
    for version in ("2017-08-01", "2020-07-01"):
        shown = duenotice(node, "document", "web-0", "--api-version", version).out
        assert shown.encode() == node.get("web-0", version).body + b"\n"


def test_a_fleet_is_shown_and_a_dry_run_changes_nothing(node: Node, tmp_path: Path) -> None:
    """The difference, VM by VM."""
    other = tmp_path / "fleet.toml"
    other.write_text(DEMO.read_text().replace('"db-1"', '"db-2"'))
    done = duenotice(node, "fleet", "apply", str(other), "--dry-run")
    assert done.rows[1:] == [["added", "db-2"], ["removed", "db-1"]]
    assert duenotice(node, "fleet", "show", "-o", "json").json()["vms"] == 272
    assert duenotice(node, "vm", "show", "db-2").code == 3


def test_tokens_are_created_listed_and_revoked(node: Node) -> None:
    """The secret stands alone on standard output, once; a viewer may not act."""
    made = duenotice(node, "token", "create", "ci", "--role", "viewer")
    secret = made.out.strip()
    assert duenotice(node, "events", "list", DUENOTICE_TOKEN=secret).code == 0
    assert duenotice(node, "vm", "restart", "web-0", DUENOTICE_TOKEN=secret).code == 5
    (ours,) = [token for token in duenotice(node, "token", "list", "-o", "json").json() if token["name"] == "ci"]
    assert secret not in str(ours)
    assert duenotice(node, "token", "revoke", ours["id"][:8]).code == 0
    assert duenotice(node, "events", "list", DUENOTICE_TOKEN=secret).code == 5


def test_only_a_scaled_clock_has_a_speed(node: Node) -> None:
    """A manual one refuses."""
    assert duenotice(node, "clock", "speed", "60x").code == 4
