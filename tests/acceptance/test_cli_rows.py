"""Sections D and G on the command line: what each row says, done and seen with the real program."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import Node

WEB = [f"web-{number}" for number in range(5)]
TYPES = {"Freeze": 900, "Reboot": 900, "Redeploy": 600, "Preempt": 30, "Terminate": 300}


def cli(node: Node, line: str) -> Any:
    """What a command says, as JSON."""
    return duenotice(node, *line.split(), "-o", "json").json()


def refused(node: Node, line: str, code: int = 4) -> str:
    """The one line that says why a command was refused; there is a hint below it and no data."""
    done = duenotice(node, *line.split())
    what, hint = done.err.splitlines()
    assert (done.code, done.out, hint[:7]) == (code, "", " hint: "), done
    return what.removeprefix("error: ")


def notice(node: Node, event: Any) -> timedelta:
    """How long its VMs have until an event may start."""
    now = datetime.fromisoformat(cli(node, "clock show")["now"])
    return datetime.fromisoformat(event["not_before"]) - now


def phases(node: Node, vm: str) -> list[str]:
    """Of the events that hit a VM."""
    return [event["phase"] for event in cli(node, f"events list --vm {vm}")]


# D01


@pytest.mark.parametrize("event_type", TYPES)
def test_D01_each_type_gives_its_notice_cli(node: Node, event_type: str):
    """`events schedule` gives the minimum notice of the type, and one second less is refused with 4 and one line."""
    vm = "render-0" if event_type == "Preempt" else "db-0"
    node.enable(vm)
    (event,) = cli(node, f"events schedule {vm} --type {event_type}")
    assert notice(node, event) == timedelta(seconds=TYPES[event_type])
    soon = node.now() + timedelta(seconds=TYPES[event_type] - 1)
    why = refused(node, f"events schedule {vm} --type {event_type} --not-before {soon:%Y-%m-%dT%H:%M:%SZ}")
    assert why.endswith(f"gives less than the minimum notice of {TYPES[event_type]} seconds.")
    assert cli(node, f"events list --vm {vm}") == [event]


# 2024-07-09


def test_B10_2024_07_09_advice_is_given_and_withdrawn_cli():
    """`events schedule` gives a spot VM advice, `events approve` says what it is, `events cancel` withdraws it."""
    with Node(DEMO, spot_rebalance=True) as node:
        node.enable("render-0")
        (event,) = cli(node, "events schedule render-0 --type SpotRebalanceRecommendation")
        assert (event["type"], event["phase"]) == ("SpotRebalanceRecommendation", "scheduled")
        assert refused(node, f"events approve {event['id']}") == f"{event['id']} is advice: it never starts."
        assert (
            "SpotRebalanceRecommendation"
            in cli(node, "document render-0 --api-version 2024-07-09")["Events"][0].values()
        )
        assert " – " in duenotice(node, "events", "list").out
        cli(node, f"events cancel {event['id']}")
        assert phases(node, "render-0") == []


# D02


def test_D02_scheduled_approved_started_gone_cli(node: Node):
    """`events approve` lets it start; when it is over it is gone from every list and its history tells how."""
    node.enable("db-0")
    event_id = duenotice(node, "events", "schedule", "db-0", "--type", "Reboot", "-o", "name").out.strip()
    assert phases(node, "db-0") == ["scheduled"]
    assert cli(node, f"events approve {event_id}")[0]["phase"] == "started"
    assert refused(node, f"events cancel {event_id}") == "Cannot cancel the event: it is already started."
    cli(node, "clock advance 10m")
    assert phases(node, "db-0") == []
    actions = [record["action"] for record in cli(node, f"events history {event_id}")]
    assert actions == ["event-raised", "event-approved", "event-started", "event-completed"]


def test_D02_cancelled_it_is_gone_cli(node: Node):
    """`events cancel` takes it back, and it does not come again when its time would have come."""
    node.enable("db-0")
    (event,) = cli(node, "vm restart db-0")
    cli(node, f"events cancel {event['id']}")
    cli(node, "clock advance 1h")
    assert phases(node, "db-0") == []
    assert "db-0" not in str(node.events("db-0"))


# D03


@pytest.mark.parametrize(("flag", "days"), [("--risk low", 7), ("--risk high", 1), ("--notice 3d", 3)])
def test_D03_a_predicted_failure_is_told_days_ahead_cli(node: Node, flag: str, days: int):
    """`host degrade` tells its VMs 7 days ahead, less with a higher risk."""
    node.enable("db-0")
    events = cli(node, f"host degrade host-1 {flag}")
    (ours,) = [event for event in events if event["resources"] == ["db-0"]]
    assert (ours["type"], ours["phase"], notice(node, ours)) == ("Redeploy", "scheduled", timedelta(days=days))


def test_D03_redeployed_in_time_the_event_goes_cli(node: Node):
    """`vm redeploy` moves the VM to another host, and what was predicted no longer concerns it."""
    node.enable("db-0")
    cli(node, "host degrade host-1 --risk low")
    (own,) = cli(node, "vm redeploy db-0")
    cli(node, f"events approve {own['id']}")
    cli(node, "clock advance 10m")
    assert phases(node, "db-0") == []
    assert cli(node, "vm show db-0")["host"] != "host-1"


# D04


def test_D04_a_failure_is_born_started_cli(node: Node):
    """`host fail` gives events that have started, and the VMs come up on another host."""
    node.enable("db-1")
    (ours,) = [event for event in cli(node, "host fail host-2 --yes") if event["resources"] == ["db-1"]]
    assert (ours["type"], ours["phase"]) == ("Reboot", "started")
    cli(node, "clock advance 10m")
    assert cli(node, "vm show db-1")["host"] in ("host-1", "host-3")


# D05


@pytest.mark.parametrize(
    ("line", "vm", "seconds"),
    [
        ("events schedule db-1 --type Freeze --cause live-migration", "db-1", 300),
        ("events schedule db-1 --type Freeze", "db-1", 600),
        ("vm restart db-1", "db-1", 600),
        ("vm redeploy db-1", "db-1", 600),
        ("vm evict render-0 --yes", "render-0", 30),
    ],
)
def test_D05_how_long_started_lasts_cli(node: Node, line: str, vm: str, seconds: int):
    """A started event says when it ends: 5 minutes for a live migration, 30 seconds for a removal, else 10 minutes."""
    node.enable(vm)
    (event,) = cli(node, line)
    (begun,) = cli(node, f"events approve {event['id']}")
    lasts = datetime.fromisoformat(begun["ends_at"]) - datetime.fromisoformat(begun["started_at"])
    assert lasts == timedelta(seconds=seconds)
    cli(node, f"clock advance {seconds - 1}s")
    assert phases(node, vm) == ["started"]
    cli(node, "clock advance 1s")
    assert phases(node, vm) == []


# D06


def test_D06_thirty_seconds_are_enough_to_see_it_cli(node: Node):
    """Looked at once a second, an eviction is Scheduled for all of its thirty seconds."""
    node.enable("render-0")
    cli(node, "vm evict render-0 --yes")
    cli(node, "clock advance 29s")
    assert phases(node, "render-0") == ["scheduled"]
    cli(node, "clock advance 1s")
    assert phases(node, "render-0") == ["started"]


# G01


@pytest.mark.parametrize("how", ["--type Reboot", "--type Freeze --cause live-migration"])
def test_G01_one_update_domain_after_the_other_cli(node: Node, how: str):
    """`maintenance start` hits one update domain at a time, the next only when the last is done and has settled."""
    node.enable("web-0")
    plan = cli(node, f"maintenance start --on set=web {how} --settle 5m")
    order = []
    for _ in WEB:
        (event,) = cli(node, "events list")
        order.append(event["resources"])
        cli(node, f"events approve {event['id']}")
        cli(node, "clock advance 10m")
        cli(node, "clock advance 5m")
    assert order == [[vm] for vm in WEB]
    assert cli(node, f"maintenance show {plan['id'][:8]}")["status"] == "done"


# G02


@pytest.mark.parametrize(("verb", "event_type"), [("restart", "Reboot"), ("redeploy", "Redeploy")])
@pytest.mark.parametrize("vm", ["me", "web-2", "FrontEnd_IN_0", "workers_4"])
def test_G02_what_a_user_does_is_told_cli(node: Node, verb: str, event_type: str, vm: str):
    """`vm restart` raises a Reboot and `vm redeploy` a Redeploy, with User as their source."""
    node.enable(vm)
    (event,) = cli(node, f"vm {verb} {vm}")
    assert (event["type"], event["source"], event["resources"]) == (event_type, "User", [vm])
    assert node.event(vm)["EventId"] == event["id"]


# G03


def test_G03_a_limit_on_user_operations_cli():
    """With a limit of two the third `vm restart` is refused until one of them has started."""
    with Node(DEMO, user_operations_limit=2) as node:
        node.enable("me", "db-0", "db-1")
        (first,), _ = cli(node, "vm restart me"), cli(node, "vm restart db-0")
        refusal = "2 user operations are scheduled; 1 more would be over the limit of 2."
        assert refused(node, "vm restart db-1") == refusal
        cli(node, f"events approve {first['id']}")
        assert cli(node, "vm restart db-1")


# G04


@pytest.mark.parametrize("vm", ["render-0", "batch_120"])
def test_G04_a_spot_vm_is_evicted_cli(node: Node, vm: str):
    """`vm evict` raises a Preempt; when it is over `vm show` does not find the VM."""
    node.enable(vm)
    (event,) = cli(node, f"vm evict {vm} --yes")
    assert (event["type"], event["source"]) == ("Preempt", "Platform")
    cli(node, "clock advance 1m")
    assert refused(node, f"vm show {vm}", code=3) == f"There is no VM named '{vm}'."
    assert refused(node, "vm evict web-0 --yes") == "web-0 is not a spot VM and cannot be evicted."


# G05


def test_G05_a_delete_is_told_where_its_set_asks_for_that_cli(node: Node):
    """`vm delete` raises a Terminate in a set with notifications, elsewhere and for spot VMs it happens at once."""
    node.enable("workers_0", "web-0", "batch_0")
    (event,) = cli(node, "vm delete workers_7 --yes")
    assert (event["type"], event["source"], event["resources"]) == ("Terminate", "User", ["workers_7"])
    cli(node, "clock advance 5m30s")
    assert duenotice(node, "vm", "show", "workers_7").code == 3
    for vm in ("web-0", "batch_0"):
        assert cli(node, f"vm delete {vm} --yes") == []
        assert duenotice(node, "vm", "show", vm).code == 3


# G06


def test_G06_a_degraded_host_tells_its_vms_cli(node: Node):
    """`host degrade` raises one Redeploy for each VM on the host, and `host repair` takes them back."""
    node.enable("me", "db-0", "web-0", "db-1")
    events = cli(node, "host degrade host-1")
    assert {event["type"] for event in events} == {"Redeploy"}
    hit = sorted(vm["name"] for vm in cli(node, "vm list --host host-1"))
    assert sorted(event["resources"][0] for event in events) == hit
    assert phases(node, "db-1") == []
    duenotice(node, "host", "repair", "host-1")
    assert cli(node, "events list") == []


def test_G01_a_freeze_goes_by_fault_domain_cli(node: Node):
    """`maintenance start --by fault-domain` says so, also ahead of time; a Reboot is refused."""
    start = ("maintenance", "start", "--on", "set=web", "--by", "fault-domain", "--type")
    for more in (("--dry-run",), ()):
        lines = duenotice(node, *start, "Freeze", *more).out.splitlines()
        assert any(line.split()[:1] in (["GROUP"], ["STATE"]) and " FD " in line for line in lines)
    assert ["BY", "fault-domain"] in [line.split() for line in lines]
    assert refused(node, " ".join((*start, "Reboot"))) == "Only work without a reboot goes by fault domain."
