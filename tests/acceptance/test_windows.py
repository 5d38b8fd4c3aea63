"""A maintenance with a planned start or a window, over real HTTP and from the command line (decision 0014)."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.test_maintenances import PLAN, listening, shown, statuses, told
from tests.support.cli import duenotice
from tests.support.node import Node


def moment(node: Node, **after: float) -> str:
    now = datetime.fromisoformat(node.operate("/v1/clock", method="GET")["now"])
    return f"{now + timedelta(**after):%Y-%m-%dT%H:%M:%SZ}"


def window(node: Node, begins: float, ends: float) -> str:
    """From so many hours from now to so many hours from now."""
    return f"{moment(node, hours=begins)}/{moment(node, hours=ends)}"


def begun(node: Node, **fields: Any) -> Any:
    return listening(node).operate("/v1/maintenances", PLAN | fields)


def test_nothing_is_hit_before_the_planned_start_and_vms_are_told_before_it(node: Node) -> None:
    """NotBefore is the planned start, and the notice before it is whole."""
    start = moment(node, hours=5)
    plan = begun(node, start=start)
    assert (told(node), plan["waits_until"], plan["window"]) == ([], start, f"from {start}")
    node.advance("4h44m")
    assert told(node) == [("web-0", "Scheduled")]
    assert node.operate("/v1/events", method="GET")[0]["not_before"] == start
    node.advance("15m59s")
    assert told(node) == [("web-0", "Scheduled")]
    node.advance("1s")
    assert told(node) == [("web-0", "Started")]
    assert shown(node, plan)["waits_until"] is None


def test_C05_an_approval_before_the_window_starts_the_event_as_soon_as_the_window_opens(node: Node) -> None:
    """The VM is ready, the operator's people are not there yet: it starts with the window, and not later."""
    begun(node, window=window(node, 1, 3))
    node.advance("45m")
    node.approve("web-3", node.events("web-0")[0]["EventId"])
    assert told(node) == [("web-0", "Scheduled")]
    node.advance("14m59s")
    assert told(node) == [("web-0", "Scheduled")]
    node.advance("1s")
    assert told(node) == [("web-0", "Started")]


def test_C05_an_approval_inside_the_window_starts_the_event_now(node: Node) -> None:
    """As it does without a window."""
    begun(node, window=window(node, 0, 3))
    node.approve("web-3", node.events("web-0")[0]["EventId"])
    assert told(node) == [("web-0", "Started")]


def test_after_a_single_window_the_plan_pauses_and_goes_on_in_a_new_one(node: Node) -> None:
    """What has started is finished; without a new window it is not resumed."""
    plan = begun(node, window=window(node, 1, 1.5))
    node.advance("3h")
    over = shown(node, plan)
    assert (over["status"], over["reason"], over["progress"]["done"]) == ("paused", "Its window has ended.", 1)
    path = f"/v1/maintenances/{plan['id']}/resume"
    assert node.operator("POST", path).status == 409
    assert node.operate(path, {"window": window(node, 1, 9)})["status"] == "running"
    node.advance("9h")
    assert shown(node, plan)["status"] == "done"


def test_in_a_recurring_window_the_plan_goes_on_in_the_next(node: Node) -> None:
    """Every day an hour: of five update domains one or two a day."""
    begins = datetime.fromisoformat(node.operate("/v1/clock", method="GET")["now"]) + timedelta(hours=1)
    text = f"daily {begins:%H:%M}-{begins + timedelta(hours=1):%H:%M}"
    plan = begun(node, window=text)
    assert (plan["window"], plan["window_begins"][:16]) == (text, f"{begins:%Y-%m-%dT%H:%M}")
    node.advance("3h")
    done = shown(node, plan)["progress"]["done"]
    assert 0 < done < 5
    assert (shown(node, plan)["status"], shown(node, plan)["waits_until"] is not None) == ("running", True)
    node.advance("5d")
    assert shown(node, plan)["status"] == "done"


def test_the_preview_says_when_and_what_finds_no_place(node: Node) -> None:
    """The same rules as for the plan itself."""
    asked = PLAN | {"window": window(node, 1, 1.5)}
    seen = listening(node).operate("/v1/maintenances?dry_run=true", asked)
    assert ([step["starts_at"] for step in seen["timeline"]], seen["left_out"]) == ([moment(node, hours=1)], 4)
    plan = node.operate("/v1/maintenances", asked)
    outlook = node.operate(f"/v1/maintenances/{plan['id']}/outlook", method="GET")
    assert [step["ends_at"] for step in outlook["timeline"]] == [step["ends_at"] for step in seen["timeline"]]
    assert outlook["left_out"] == 4


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"window": "Sundays"}, 400),
        ({"window": "Sun 02:00-06:00 Europe/Atlantis"}, 400),
        ({"window": "2020-01-01T00:00Z/2020-01-02T00:00Z"}, 422),
        ({"window": "2020-01-02T00:00Z/2020-01-01T00:00Z"}, 422),
        ({"start": "2099-01-01T00:00:00Z"}, 422),
        ({"start": "2099-01-01T00:00:00"}, 400),
        ({"title": "x" * 1001}, 422),
    ],
)
def test_a_window_that_makes_no_sense_is_refused_and_changes_nothing(
    node: Node, change: dict[str, Any], status: int
) -> None:
    """One clear line, and nothing is planned."""
    answer = node.operator("POST", "/v1/maintenances", PLAN | change)
    assert (answer.status, bool(answer.json()["hint"])) == (status, True)
    assert node.operate("/v1/maintenances", method="GET") == []


def test_a_plan_knows_who_has_asked_for_it_and_when(node: Node) -> None:
    """A drained host gives the plan its title."""
    plan = node.operate("/v1/hosts/host-1/drain", {})
    assert (plan["title"], plan["author"][:6], plan["asked_at"]) == ("Drain host-1", "token/", moment(node))
    node.operate(f"/v1/maintenances/{plan['id']}/cancel")
    assert shown(node, plan)["over_at"] == moment(node)


def test_failed_steps_are_tried_again(node: Node) -> None:
    """With a new event, because a gone event never comes back (S7)."""
    plan = begun(node)
    first = node.events("web-0")[0]["EventId"]
    node.approve("web-3", first)
    node.operate(f"/v1/events/{first}/report", {"failure": "It did not boot."})
    assert (shown(node, plan)["status"], statuses(node, plan)[:2]) == ("failed", ["failed", "waiting"])
    said = duenotice(node, "maintenance", "show", plan["id"]).out
    again = node.operate(f"/v1/maintenances/{plan['id']}/retry")
    assert (again["status"], statuses(node, plan)[:2]) == ("running", ["under-way", "waiting"])
    assert node.events("web-0")[0]["EventId"] != first
    assert "not run" in said
    actions = [record["action"] for record in node.operate("/v1/audit?action=maintenance-retried", method="GET")]
    assert actions == ["maintenance-retried"]
    node.advance("3h")
    assert shown(node, plan)["status"] == "done"


def test_the_command_line_plans_a_window_and_says_what_does_not_fit(node: Node) -> None:
    """`--start` and `--window`, a preview that counts, resume with a new window, retry."""
    listening(node)
    flags = ("maintenance", "start", "--on", "set=web", "--type", "Reboot", "--window", window(node, 1, 1.5))
    ahead = duenotice(node, *flags, "--dry-run")
    assert "Steps that find no place in the window: 3." in ahead.err
    plan = duenotice(node, *flags, "-o", "json").json()
    assert plan["waits_until"] == moment(node, hours=1)
    node.advance("3h")
    refused = duenotice(node, "maintenance", "resume", plan["id"])
    assert (refused.code != 0, "window of this maintenance is over" in refused.err) == (True, True)
    resumed = duenotice(node, "maintenance", "resume", plan["id"], "--window", window(node, 1, 9), "-o", "json").json()
    assert resumed["status"] == "running"
    assert "The maintenance is running." in duenotice(node, "maintenance", "retry", plan["id"]).err
    line = f"maintenance start --on vm=db-0 --type Freeze --start {moment(node, hours=2)} -o json"
    started = duenotice(node, *line.split())
    assert started.json()["waits_until"] == moment(node, hours=2)
