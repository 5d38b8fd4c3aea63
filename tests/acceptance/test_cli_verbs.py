"""What an operator does on the command line, against a real node: data on stdout, shapes as documented."""

import json

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import Node

PLAN = ("maintenance", "start", "--on", "set=web", "--type", "Reboot", "--settle", "5m")
ENDS = ("event-raised", "event-cancelled")
EVENT_KEYS = {
    *("id", "type", "phase", "scope", "resources", "update_domain", "cause", "source", "description", "duration"),
    *("not_before", "approved_by", "started_at"),
}


@pytest.fixture(autouse=True)
def _somebody_listens(node: Node) -> None:
    node.enable("web-0", "db-1", "render-0")


def test_restart_prints_the_bare_EventId(node: Node) -> None:
    """`-o name` is the id the VM is told, alone on standard output."""
    done = duenotice(node, "vm", "restart", "web-0", "-o", "name")
    assert (done.code, done.out, done.err) == (0, node.event("web-0")["EventId"] + "\n", "")


@pytest.mark.parametrize(
    ("verb", "vm", "type_"),
    [("restart", "web-0", "Reboot"), ("redeploy", "web-0", "Redeploy"), ("evict", "render-0", "Preempt")],
)
def test_what_a_user_does_is_told_to_the_vm(node: Node, verb: str, vm: str, type_: str) -> None:
    """Each verb raises its type."""
    (event,) = duenotice(node, "vm", verb, vm, "--yes", "-o", "json").json()
    assert set(event) >= EVENT_KEYS
    assert (event["type"], node.event(vm)["EventType"]) == (type_, type_)


def test_where_nobody_listens_there_is_no_event_and_a_word_why(node: Node) -> None:
    """Data is empty, the message goes to standard error (F03)."""
    done = duenotice(node, "vm", "restart", "me", "-o", "name")
    assert (done.code, done.out) == (0, "")
    assert "Nobody listens on me" in done.err


def test_a_maintenance_is_what_its_flags_say(node: Node) -> None:
    """Each of them comes through to the plan and to the VM."""
    flags = "--settle 5m --at-once 2 --failures-allowed 1 --cause live-migration --description Moving."
    line = f"maintenance start --on vm=web-0 --on zone=2 --type Freeze {flags} -o json"
    plan = duenotice(node, *line.split()).json()
    asked = ("type", "settle", "at_once", "failures_allowed", "cause", "description")
    assert [plan[key] for key in asked] == ["Freeze", 300, 2, 1, "live-migration", "Moving."]
    assert sorted(step["resources"] for step in node.steps(plan["id"])) == [["db-1"], ["web-0"]]
    assert node.event("web-0")["Description"] == "Moving."


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("vm", "delete", "web-0", "--yes"), "web-0 is gone without notice"),
        (("host", "degrade", "host-1"), "No VM of host-1 is left to tell"),
        (("host", "fail", "idle", "--yes"), "No VM runs on idle."),
    ],
)
def test_what_raises_no_event_gives_the_right_reason(node: Node, words: tuple[str, ...], why: str) -> None:
    """A set that asks for no notice, VMs that know already and a host without VMs are not silence."""
    node.operate("/v1/hosts/host-1/degrade", {"risk": "low"})
    fleet = DEMO.read_text() + '[[hosts]]\nname = "idle"\n'
    assert node.operator("PUT", "/v1/fleet", fleet.encode()).status == 200
    done = duenotice(node, *words)
    assert (done.code, done.out) == (0, "")
    assert why in done.err


def test_events_are_listed_as_a_table_with_relative_times(node: Node) -> None:
    """The table is relative to the node's clock."""
    duenotice(node, "vm", "restart", "web-0")
    node.advance("5m")
    head, row = duenotice(node, "events", "list").rows
    assert head[:4] == ["EVENT", "TYPE", "STATE", "NOT"]
    assert row[1:5] == ["Reboot", "scheduled", "in", "10m"]


def test_events_can_be_filtered(node: Node) -> None:
    """Only those asked for."""
    reboot = node.schedule("Reboot", "web-0")
    node.schedule("Freeze", "db-1")
    assert duenotice(node, "events", "list", "--type", "reboot", "-o", "name").out == f"{reboot}\n"
    assert duenotice(node, "events", "list", "--vm", "web-0", "-o", "name").out == f"{reboot}\n"
    assert duenotice(node, "events", "list", "--phase", "started", "-o", "json").json() == []


def test_every_form_of_output_says_the_same(node: Node) -> None:
    """An array in JSON, an object per line in JSON lines, a block in YAML."""
    event_id = node.schedule("Reboot", "web-0")
    assert [event["id"] for event in duenotice(node, "events", "list", "-o", "json").json()] == [event_id]
    assert json.loads(duenotice(node, "events", "list", "-o", "jsonl").out)["id"] == event_id
    assert duenotice(node, "events", "list", "-o", "yaml").out.startswith(f'- id: "{event_id}"\n  type: "Reboot"\n')
    assert duenotice(node, "events", "show", event_id, "-o", "json").json()["id"] == event_id


def test_an_event_is_scheduled_shown_approved_and_cancelled(node: Node) -> None:
    """The beginning of an id is enough."""
    scheduled = duenotice(node, "events", "schedule", "web-1", "--type", "Freeze", "--description", "x", "-o", "name")
    prefix = scheduled.out[:8].lower()
    assert duenotice(node, "events", "show", prefix, "-o", "json").json()["description"] == "x"
    assert duenotice(node, "events", "approve", prefix).code == 0
    assert node.statuses("web-0") == ["Started"]
    other = node.schedule("Reboot", "db-1")
    assert duenotice(node, "events", "cancel", other, "-o", "name").out == f"{other}\n"
    assert node.statuses("db-1") == []


def test_a_maintenance_is_previewed_and_nothing_happens(node: Node) -> None:
    """`--dry-run` is the timeline."""
    head, first, *_ = rows = duenotice(node, *PLAN, "--dry-run").rows
    assert (len(rows), head[0], first[-1]) == (6, "GROUP", "web-0")
    assert duenotice(node, "maintenance", "list", "-o", "json").json() == []


def test_a_maintenance_is_started_paused_resumed_and_cancelled(node: Node) -> None:
    """Each answers with the maintenance."""
    plan_id = duenotice(node, *PLAN, "-o", "name").out.strip()
    turns = [("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")]
    seen = [duenotice(node, "maintenance", turn, plan_id[:6], "-o", "json").json()["status"] for turn, _ in turns]
    assert seen == [status for _, status in turns]
    assert len(duenotice(node, "maintenance", "steps", plan_id, "-o", "json").json()) == 5


def test_vms_are_listed_and_shown(node: Node) -> None:
    """All pages are one list; a VM is shown with its events."""
    node.schedule("Reboot", "web-0")
    assert len(duenotice(node, "vm", "list", "-o", "name").out.split()) == 272
    listed = duenotice(node, "vm", "list", "--group", "set/web", "-o", "json").json()
    assert [(vm["name"], vm["listens"]) for vm in listed] == [(f"web-{number}", True) for number in range(5)]
    assert len(duenotice(node, "vm", "show", "web-0", "-o", "json").json()["events"]) == 1
    assert duenotice(node, "vm", "show", "web-0").rows[0] == ["VM", "web-0"]


def test_vms_are_listed_with_their_state_and_found_by_it(node: Node) -> None:
    """And by a part of their name or place."""
    node.schedule("Reboot", "web-0")
    head, *rows = duenotice(node, "vm", "list", "--group", "web").rows
    assert (head[:2], rows[0][:2], rows[1][:2]) == (["VM", "STATE"], ["web-0", "scheduled"], ["web-1", "fine"])
    states = ("--state", "started", "--state", "Scheduled")
    assert duenotice(node, "vm", "list", *states, "-o", "name").out == "web-0\n"
    assert duenotice(node, "vm", "list", "-q", "HOST-3", "-o", "name").out.split() == ["render-0", "web-2"]


def test_the_newest_of_the_audit_are_shown_oldest_first(node: Node) -> None:
    """`--last` with the other filters; not with those that begin elsewhere."""
    ids = [node.schedule("Freeze", "web-0") for _ in range(3)]
    everything = duenotice(node, "audit", "-o", "name").out.split()
    assert duenotice(node, "audit", "--last", "2", "-o", "name").out.split() == everything[-2:]
    raised = duenotice(node, "audit", "--last", "2", "--action", "event-raised", "-o", "json").json()
    assert [record["event_id"] for record in raised] == ids[1:]
    assert duenotice(node, "audit", "--last", "2", "--after", "1").code == 2


def test_a_token_is_revoked_by_its_name_or_its_id(node: Node) -> None:
    """Its name is what people know."""
    for how in ("name", "id"):
        made = duenotice(node, "token", "create", "ci", "-o", "json").json()
        assert duenotice(node, "token", "revoke", made[how]).err == f"Revoked {made[how]}.\n"
        assert duenotice(node, "events", "list", DUENOTICE_TOKEN=made["token"]).code == 5
    assert duenotice(node, "token", "revoke", "ci").code == 3


@pytest.mark.parametrize("noun", ["vms", "hosts", "event", "maintenances", "scale-sets", "tokens"])
def test_one_and_many_are_both_understood(node: Node, noun: str) -> None:
    """Nobody remembers which noun has an s."""
    assert duenotice(node, noun, "list").code == 0


def test_the_audit_says_who_did_what(node: Node) -> None:
    """By action, and for one event all that happened to it, also when it is gone."""
    event_id = duenotice(node, "vm", "restart", "web-0", "-o", "name").out.strip()
    duenotice(node, "events", "cancel", event_id)
    (record,) = duenotice(node, "audit", "--action", "event-raised", "-o", "json").json()
    assert (record["actor"], record["event_id"]) == ("token/admin", event_id)
    assert len(duenotice(node, "audit", "--first", "3", "-o", "name").out.split()) == 3
    history = duenotice(node, "events", "history", event_id[:8], "-o", "json").json()
    assert [record["action"] for record in history if record["action"] in ENDS] == list(ENDS)


def test_a_table_is_never_cut_when_nobody_looks(node: Node) -> None:
    """Lines of a table in a pipe are as long as they need to be, and end where their words do."""
    done = duenotice(node, "vm", "list")
    assert len(done.out.splitlines()) == 273
    assert all(line == line.rstrip() for line in done.out.splitlines())
    assert "\x1b" not in done.out


@pytest.mark.parametrize(("options", "end"), [((), "event-completed"), (("--failure", "no disk"), "event-failed")])
def test_a_report_ends_what_has_started(node: Node, options: tuple[str, ...], end: str) -> None:
    """In place of a driver; by the beginning of the id, as elsewhere. What has not started is refused."""
    event_id = node.schedule("Reboot", "web-0")
    assert duenotice(node, "events", "report", event_id[:8]).code == 4
    duenotice(node, "events", "approve", event_id)
    done = duenotice(node, "events", "report", event_id[:8], *options, "-o", "name")
    assert (done.code, done.out) == (0, f"{event_id}\n")
    assert duenotice(node, "events", "history", event_id, "-o", "json").json()[-1]["action"] == end
