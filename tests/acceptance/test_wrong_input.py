"""What people type wrong, or could not mean, is refused with a sentence and what to do; nothing is changed."""

import contextlib
import http.client
from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import Node

PLAN = {"on": ["vm=db-0"], "type": "Freeze"}
END_OF_DATES = (
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-12:00",
    "0001-01-01T00:00:00+14:00",
    "9990-01-01T00:00:00Z",
)


def refused(node: Node, *words: str) -> tuple[str, str]:
    """What a command says, and its hint; it has changed nothing."""
    before = node.service.engine.state.position
    done = duenotice(node, *words)
    assert (done.code in (2, 3, 4), done.out) == (True, ""), done
    assert node.service.engine.state.position == before
    what, hint = done.err.splitlines()[:2]
    return what.removeprefix("error: "), hint.removeprefix(" hint: ")


# A planned start in the past


def test_a_planned_start_in_the_past_is_refused_on_the_command_line(node: Node) -> None:
    """It would hit in sixteen minutes, which nobody can have meant."""
    asked = ("maintenance", "start", "--on", "vm=db-0", "--type", "Freeze", "--start", "2020-01-01T02:00:00Z")
    for words in (asked, (*asked, "--dry-run")):
        what, hint = refused(node, *words)
        assert what == "The planned start 2020-01-01T02:00:00Z is in the past."
        assert "leave it out" in hint


def test_a_planned_start_in_the_past_is_refused_by_the_api(node: Node) -> None:
    """Also of a plan that is to go on; a start of this minute is as good as none."""
    past, present = (f"{node.now() - timedelta(seconds=ago):%Y-%m-%dT%H:%M:%SZ}" for ago in (120, 30))
    plan_id = node.operate("/v1/maintenances", PLAN)["id"]
    node.operate(f"/v1/maintenances/{plan_id}/pause")
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/v1/maintenances", {**PLAN, "on": ["vm=db-1"]}),
        ("/v1/maintenances?dry_run=true", {**PLAN, "on": ["vm=db-1"], "window": "daily 02:00-06:00"}),
        (f"/v1/maintenances/{plan_id}/resume", {}),
    ]
    for path, body in asked:
        answer = node.operator("POST", path, body | {"start": past})
        assert (answer.status, answer.json()["title"]) == (422, f"The planned start {past} is in the past.")
    assert node.operator("POST", f"/v1/maintenances/{plan_id}/resume", {"start": present}).status == 200


# Words


@pytest.mark.parametrize("word", ["evict", "preempt"])
def test_evict_and_preempt_are_both_understood(word: str) -> None:
    """The command line calls it by the one name, and the contract by the other."""
    with Node(DEMO) as node:
        node.enable("render-0")
        assert duenotice(node, "vm", word, "render-0", "--yes").code == 0
        listed = duenotice(node, "events", "list", "--type", word, "-o", "json").json()
        assert [(event["type"], event["resources"]) for event in listed] == [("Preempt", ["render-0"])]
        scheduled = node.operate("/v1/events", {"type": word, "resources": ["render-0"]})
        assert scheduled[0]["type"] == "Preempt"
        assert node.operate(f"/v1/events?type={word}", method="GET")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("maintenance start --on set=wbe --type Reboot", "set=web"),
        ("maintenance start --on set=workers --type Reboot", "scale-set=workers"),
        ("maintenance start --on host=hots-1 --type Reboot", "host=host-1"),
        ("host fail hots-1 --yes", "host-1"),
        ("host drain hots-1", "host-1"),
        ("vm restart db_0", "db-0"),
        ("scale-set scale wrokers --by 1 --yes", "workers"),
        ("events list --group wbe", "web"),
        ("vm list --group wbe", "web"),
        ("vm list --host hots-1", "host-1"),
        ("vm list --state faild", "failed"),
    ],
)
def test_the_nearest_name_is_given(shared: Node, words: str, near: str) -> None:
    """Of sets, hosts, VMs and states: nobody looks for a letter in a list at night."""
    done = duenotice(shared, *words.split())
    assert done.code in (2, 3), done
    assert f"Did you mean '{near}'?" in done.err


def test_the_nearest_maintenance_is_given(node: Node) -> None:
    """An id with a wrong letter; a short beginning is near to too many."""
    plan_id = node.operate("/v1/maintenances", PLAN)["id"]
    wrong = ("0" if plan_id[0] != "0" else "1") + plan_id[1:8]
    assert refused(node, "maintenance", "show", wrong) == (
        f"There is no maintenance {wrong}.",
        f"Did you mean {plan_id[:8]}?",
    )
    assert "duenotice maintenance list" in refused(node, "maintenance", "show", wrong[0])[1]


# Moments at the end of all dates


@pytest.mark.parametrize("moment", END_OF_DATES)
def test_moments_at_the_end_of_all_dates_are_refused_with_a_sentence(node: Node, moment: str) -> None:
    """On the command line and by the API."""
    later = f"{node.now() + timedelta(days=2):%Y-%m-%dT%H:%MZ}"
    for words in (
        ("events", "schedule", "db-0", "--type", "Freeze", "--not-before", moment),
        ("maintenance", "start", "--on", "vm=db-0", "--type", "Freeze", "--start", moment),
        ("maintenance", "start", "--on", "vm=db-0", "--type", "Freeze", "--window", f"{later}/{moment}"),
    ):
        what, hint = refused(node, *words)
        assert what.endswith(".")
        assert hint
    for path, body in (
        ("/v1/events", {"type": "Freeze", "resources": ["db-0"], "not_before": moment}),
        ("/v1/maintenances", {**PLAN, "start": moment}),
        ("/v1/maintenances?dry_run=true", {**PLAN, "window": f"{later}/{moment}"}),
    ):
        answer = node.operator("POST", path, body)
        assert (answer.status in (400, 422), bool(answer.json()["hint"])) == (True, True), (path, answer)


@pytest.mark.parametrize(
    "path", ["/timeline?at=9999-12-31T23:59:59Z", "/timeline?at=0001-01-01", "/maintenances/calendar?from=9999-12-31"]
)
def test_a_page_of_such_a_moment_is_refused_with_a_sentence(node: Node, path: str) -> None:
    """And not with an internal error."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=30)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Cookie": node.cookie()})
        answer = connection.getresponse()
        assert (answer.status, "is too far away to be drawn" in answer.read().decode()) == (400, True)
