"""Plans for later: a window in the form, the calendar, targets with counts, steps that failed or were not run."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.conftest import FLEET, Visitors
from tests.support.node import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node for all tests of this file; each works on VMs of its own."""
    with Node(FLEET.read_text()) as running:
        running.enable("web-0", "db-0")
        yield running


def now(node: Node) -> datetime:
    return datetime.fromisoformat(node.operate("/v1/clock", method="GET")["now"])


def shown(node: Node, plan_id: str) -> Any:
    return node.operate(f"/v1/maintenances/{plan_id}", method="GET")


def test_targets_are_ticked_and_the_button_says_how_many_vms(node: Node, visitors: Visitors) -> None:
    """The list can be filtered, says how many VMs each target has, and follows what is typed."""
    page = visitors.come("/maintenances/new")
    page.get_by_text("Choose targets").click()
    page.get_by_label("Filter targets").fill("web")
    row = page.locator(".picker li:visible")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("5 VMs")
    row.get_by_role("checkbox").check()
    expect(page.get_by_label("Target", exact=True)).to_have_value("set=web")
    expect(page.get_by_role("button", name="Start maintenance (5 VMs)")).to_be_visible()
    page.get_by_label("Target", exact=True).fill("vm=db-1")
    expect(row.get_by_role("checkbox")).not_to_be_checked()


def test_a_window_is_planned_seen_in_the_calendar_and_waited_for(node: Node, visitors: Visitors) -> None:
    """The preview says when, the plan says until when it waits, and the day has it."""
    begins = now(node) + timedelta(days=3)
    ends = begins + timedelta(hours=2)
    page = visitors.come("/maintenances/new?on=vm%3Ddb-0")
    page.get_by_label("Window", exact=True).fill(f"{begins:%Y-%m-%d %H:%M}-{ends:%H:%M}")
    page.get_by_role("button", name="Schedule maintenance (1 VM)").click()
    expect(page.get_by_text("Waits for its window until")).to_contain_text(f"{begins:%a %d %b %H:%M} UTC")
    plan_id = page.url.rpartition("/")[2]
    page.get_by_role("link", name="Maintenance", exact=True).first.click()
    row = page.locator(f"#plan-{plan_id}")
    expect(row).to_contain_text("waits for its window")
    expect(row).to_contain_text("expected in 3d")
    expect(row).to_contain_text("token/admin")
    page.get_by_role("link", name="Calendar").click()
    entry = page.locator(f"#day-{begins:%Y-%m-%d} .entry")
    expect(entry).to_contain_text(f"{begins:%H:%M}")
    expect(entry).to_contain_text("1 VM")
    entry.click()
    expect(page).to_have_url(visitors.origin + f"/maintenances/{plan_id}")
    node.operate(f"/v1/maintenances/{plan_id}/cancel")


def test_a_window_that_is_no_window_is_said_so_while_typing(visitors: Visitors) -> None:
    """With examples."""
    page = visitors.come("/maintenances/new?on=vm%3Ddb-1")
    page.get_by_label("Window", exact=True).fill("sometimes")
    expect(page.locator("#preview .wrong")).to_contain_text("'sometimes' is not a window. Write Sun 02:00-06:00")


def test_after_its_window_a_plan_goes_on_in_a_new_one(node: Node, visitors: Visitors) -> None:
    """It says that it is paused and why, and the form is there."""
    begins = now(node)
    window = f"{begins:%Y-%m-%dT%H:%M:%SZ}/{begins + timedelta(minutes=20):%Y-%m-%dT%H:%M:%SZ}"
    plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "window": window})
    node.advance("40m")
    page = visitors.come(f"/maintenances/{plan['id']}")
    expect(page.get_by_text("Its window has ended.")).to_be_visible()
    expect(page.get_by_role("heading", name="Go on in a new window")).to_be_visible()
    page.get_by_label("Window", exact=True).fill("daily 00:00-23:59")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".head .state")).to_have_text("running")
    assert shown(node, plan["id"])["window"] == "daily 00:00-23:59"
    node.operate(f"/v1/maintenances/{plan['id']}/cancel")
    node.advance("30m")


def test_failed_steps_are_retried_and_those_that_were_not_run_say_so(node: Node, visitors: Visitors) -> None:
    """Done, failed and not run are counted apart."""
    plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot"})
    event = node.events("web-0")[0]
    node.operate(f"/v1/events/{event['EventId']}/approve", {})
    node.operate(f"/v1/events/{event['EventId']}/report", {"failure": "It did not boot."})
    page = visitors.come(f"/maintenances/{plan['id']}")
    expect(page.locator("#facts .tally")).to_have_text("1 failed4 not run")
    expect(page.locator("#step-2")).to_contain_text("not run")
    page.get_by_role("button", name="Retry 1 failed step").click()
    expect(page.locator(".head .state")).to_have_text("running")
    expect(page.locator("#step-1 .state")).to_have_text("under way")
    node.operate(f"/v1/maintenances/{plan['id']}/cancel")


def test_a_drained_host_gives_the_plan_its_title(node: Node, visitors: Visitors) -> None:
    """In the list and on its page."""
    plan = node.operate("/v1/hosts/host-2/drain", {})
    page = visitors.come("/maintenances")
    page.get_by_role("link", name="Drain host-2").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Drain host-2")
    node.operate(f"/v1/maintenances/{plan['id']}/cancel")


@pytest.mark.parametrize("path", ["/maintenances", "/maintenances/calendar", "/maintenances/new"])
def test_it_fits_a_small_phone(node: Node, visitors: Visitors, path: str) -> None:
    """Nothing has to be moved sideways at 320 pixels, but tables in their own frame."""
    page = visitors.come(path, viewport={"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_a_planned_start_in_the_past_is_refused_while_it_is_typed(node: Node, visitors: Visitors) -> None:
    """And also when the form is sent; nothing is planned."""
    visitors.allow(complaint="422")
    before = node.operate("/v1/maintenances", method="GET")
    page = visitors.come("/maintenances/new?on=set%3Dweb")
    page.locator("[name=start]").fill("2020-01-01T02:00")
    expect(page.locator("#preview")).to_contain_text("The planned start 2020-01-01T02:00:00Z is in the past.")
    page.get_by_role("button", name="Start maintenance").click()
    expect(page.locator(".note.bad")).to_contain_text("is in the past")
    assert node.operate("/v1/maintenances", method="GET") == before
