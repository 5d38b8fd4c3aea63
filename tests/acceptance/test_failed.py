"""What has failed is seen everywhere, with the VM, the reason and what to do next, until somebody has dealt with it."""

import re
import shlex
from pathlib import Path

from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import Node

ROOT = Path(__file__).parents[2]
REASON = "No power on host-1."


def fails(node: Node, event_id: str, vm: str, reason: str = REASON) -> None:
    """The VM approves, and then the driver gives up."""
    node.approve(vm, event_id)
    node.operate(f"/v1/events/{event_id}/report", {"failure": reason})


def failed_plan(node: Node) -> str:
    """A maintenance of two VMs, of which both fail, the second after it has failed already."""
    node.enable("db-0", "db-1")
    asked = {"on": ["vm=db-0", "vm=db-1"], "type": "Reboot"}
    plan_id: str = node.operate("/v1/maintenances", asked)["id"]
    steps = node.steps(plan_id)
    for step in steps:
        node.approve(step["resources"][0], step["event_id"])
    for step in steps:
        node.operate(f"/v1/events/{step['event_id']}/report", {"failure": REASON})
    return plan_id


def failed_event(node: Node) -> str:
    """A Reboot of its own that has failed."""
    node.enable("web-0")
    event_id = node.schedule("Reboot", "web-0")
    fails(node, event_id, "web-0")
    return event_id


def failed(node: Node, noun: str) -> list[list[str]]:
    """The rows of a list of what has failed."""
    return duenotice(node, noun, "list", "--state", "failed").rows[1:]


def test_the_list_of_events_says_which_vm_why_since_when_and_what_to_do(node: Node) -> None:
    """A maintenance is tried again as a whole, and an event of its own by its type."""
    event_id, plan_id = failed_event(node), failed_plan(node)
    node.advance("3m")
    said = duenotice(node, "events", "list", "--state", "failed")
    assert re.search(r"Reboot +failed +3m ago +web-0 .*No power on host-1\.", said.out)
    for command in (
        f"duenotice maintenance retry {plan_id[:8]}\n",
        f"duenotice maintenance acknowledge {plan_id[:8]}\n",
        "duenotice events schedule web-0 --type Reboot\n",
        f"duenotice events acknowledge {event_id[:8]}\n",
    ):
        assert said.err.count(command) == 1, command


def test_one_event_is_shown_when_it_is_over(node: Node) -> None:
    """With its state, the reason and what to do next."""
    event_id = failed_event(node)
    said = duenotice(node, "events", "show", event_id[:8])
    rows = [row.split(maxsplit=1) for row in said.out.splitlines()]
    assert ["STATE", "failed"] in rows
    assert ["REASON", REASON] in rows
    assert f"duenotice events acknowledge {event_id[:8]}" in said.err


def test_who_lists_what_lives_is_told_that_something_failed(node: Node) -> None:
    """The list of what is not over has no place for it, but says so."""
    failed_event(node)
    assert "1 more failed: 'duenotice events list --state failed'" in duenotice(node, "events", "list").err


def test_a_maintenance_counts_its_failures_and_not_as_progress(node: Node) -> None:
    """What it says and what it counts agree, also of what failed after its end."""
    plan_id = failed_plan(node)
    said = duenotice(node, "maintenance", "show")
    assert "STEPS             0/2, 2 failed\n" in said.out
    assert "REASON            2 failed, 0 allowed.\n" in said.out
    assert "failed=2" in said.out
    assert f"duenotice maintenance retry {plan_id[:8]}" in said.err


def test_a_vm_has_failed_until_somebody_has_dealt_with_it(node: Node) -> None:
    """In lists, by itself, and in the numbers of the fleet."""
    event_id = failed_event(node)
    assert [row[:2] for row in failed(node, "vm")] == [["web-0", "failed"]]
    shown = duenotice(node, "vm", "show", "web-0", "-o", "json").json()
    assert (shown["state"], shown["failure"]["reason"], shown["failure"]["event_id"]) == ("failed", REASON, event_id)
    assert node.operate("/v1/states", method="GET")["counts"]["failed"] == 1
    assert "duenotice_failed_events 1.0" in node.operator("GET", "/metrics").body.decode()
    duenotice(node, "events", "acknowledge", event_id[:8], "--note", "restarted by hand")
    assert (failed(node, "vm"), failed(node, "events")) == ([], [])
    assert node.operate("/v1/vms/web-0", method="GET")["state"] == "fine"
    assert "duenotice_failed_events 0.0" in node.operator("GET", "/metrics").body.decode()
    assert duenotice(node, "events", "show", event_id, "-o", "json").json()["state"] == "resolved"


def test_a_table_of_vms_begins_with_those_that_have_failed(node: Node) -> None:
    """Unless it is sorted by a column."""
    failed_plan(node)
    first = node.operate("/v1/vm-table?limit=3", method="GET")["items"]
    assert [vm["name"] for vm in first] == ["db-0", "db-1", "BackEnd_IN_0"]
    by_name = node.operate("/v1/vm-table?limit=3&sort=name", method="GET")["items"]
    assert by_name[0]["name"] == "BackEnd_IN_0"


def test_a_retry_deals_with_what_has_failed(node: Node) -> None:
    """Nobody has to acknowledge what is tried again."""
    plan_id = failed_plan(node)
    duenotice(node, "maintenance", "retry", plan_id)
    assert failed(node, "events") == []
    assert node.operate("/v1/attention", method="GET")["failures"] == []


def test_the_document_of_a_vm_is_as_the_contract_says(node: Node) -> None:
    """It has no such state: the event is over."""
    failed_event(node)
    assert node.events("web-0") == []


def test_it_is_known_after_a_restart(tmp_path: Path) -> None:
    """Also when the events that are over are not remembered any more."""
    with Node(DEMO, data_dir=str(tmp_path)) as node:
        event_id = failed_event(node)
    with Node(DEMO, data_dir=str(tmp_path)) as node:
        (row,) = node.operate("/v1/event-table?state=failed", method="GET")["items"]
        assert (row["id"], row["reason"], row["state"]) == (event_id, REASON, "failed")


def test_what_has_not_failed_cannot_be_acknowledged(node: Node) -> None:
    """Neither what lives, nor what nobody knows, nor the same once more."""
    node.enable("web-0")
    event_id = node.schedule("Reboot", "web-0")
    for asked in (event_id, "00000000"):
        said = duenotice(node, "events", "acknowledge", asked)
        assert (said.code, f"No failure of an event {asked} is open." in said.err) == (4, True)
    fails(node, event_id, "web-0")
    assert [duenotice(node, "events", "acknowledge", event_id).code for _ in range(2)] == [0, 4]


# The runbook


def runbook() -> list[list[str]]:
    """The commands of the steps in docs/operating.md."""
    text = (ROOT / "docs" / "operating.md").read_text()
    section = text.partition("## When an impact has failed\n")[2].partition("\n## ")[0]
    return [line.split("\n") for line in re.findall(r"```sh\n(.*?)\n *```", section, re.DOTALL)]


LOOK, PLAN, TRIES, RETRY, ACKNOWLEDGE, AFTER = range(6)


def do(node: Node, block: int, **names: str) -> str:
    """What the commands of a step print; each succeeds."""
    said = ""
    for line in runbook()[block]:
        program, *words = shlex.split(line)
        done = duenotice(node, *(names.get(word, word) for word in words))
        assert (program, done.code) == ("duenotice", 0), (line, done)
        said += done.out + done.err
    return said


def test_the_runbook_leads_from_a_failure_to_the_retry(node: Node) -> None:
    """Each command of docs/operating.md, as it stands there."""
    plan_id, event_id = failed_plan(node), failed_event(node)
    assert do(node, LOOK).count(REASON) == 6
    assert "0/2, 2 failed" in do(node, PLAN)
    assert "event-failed" in do(node, TRIES, EVENT=event_id)
    assert "running" in do(node, RETRY, MAINTENANCE=plan_id)


def test_the_runbook_leads_from_a_failure_to_nothing_that_needs_a_person(node: Node) -> None:
    """With a note for the audit trail."""
    plan_id, event_id = failed_plan(node), failed_event(node)
    do(node, ACKNOWLEDGE, EVENT=event_id, MAINTENANCE=plan_id)
    after = do(node, AFTER)
    assert after.startswith("No events.\n")
    assert (after.count("resolved"), after.count("failure-acknowledged")) == (3, 3)


def test_the_runbook_has_no_step_without_a_test() -> None:
    """A step that is added is noticed."""
    assert len(runbook()) == len((LOOK, PLAN, TRIES, RETRY, ACKNOWLEDGE, AFTER))
