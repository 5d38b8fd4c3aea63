"""What has failed in the console: a red box with the VMs and the reason, first in lists, until somebody has acted."""

import re

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Visitors
from tests.support.node import Node

REASON = "No power on host-1."
PHONE = 390


def fails(node: Node, vm: str = "web-0", event_id: str = "") -> str:
    """A Reboot of a VM that its driver could not do."""
    event_id = event_id or node.schedule("Reboot", vm)
    node.approve(vm, event_id)
    node.operate(f"/v1/events/{event_id}/report", {"failure": REASON})
    return event_id


def failed_plan(node: Node) -> str:
    """A maintenance of which the first step has failed."""
    plan_id = str(node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot"})["id"])
    fails(node, event_id=node.steps(plan_id)[0]["event_id"])
    return plan_id


def test_the_red_box_says_which_vms_and_why(node: Node, visitors: Visitors) -> None:
    """It comes by itself, and goes when somebody has dealt with it; the cell and the numbers of the fleet too."""
    page = visitors.come()
    expect(page.locator("#attention")).not_to_contain_text("failed")
    first, second = fails(node, "web-0"), fails(node, "db-0")
    box = page.locator('.alarm[data-kind="bad"]')
    expect(box).to_have_text(re.compile(r"Reboot of (web-0, db-0|db-0, web-0) failed No power on host-1\. since"))
    expect(page.locator("#vm-web-0")).to_have_attribute("data-state", "failed")
    expect(page.locator('.tile[data-state="failed"] b')).to_have_text("2")
    for event_id in (first, second):
        node.operate(f"/v1/events/{event_id}/acknowledge")
    expect(box).to_have_count(0)
    expect(page.locator("#vm-web-0")).to_have_attribute("data-state", "fine")


def test_what_failed_is_first_in_the_list_of_events_and_has_its_reason(node: Node, visitors: Visitors) -> None:
    """Chosen ones are acknowledged together."""
    node.schedule("Freeze", "web-1")
    fails(node)
    page = visitors.come("/events")
    row = page.locator("#live-events tbody tr").first
    expect(row.locator('td[data-label="State"]')).to_have_text("failed")
    expect(row.locator('td[data-label="Reason"]')).to_have_text(REASON)
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Acknowledge chosen").click()
    expect(page.locator("#said")).to_contain_text("1 event acknowledged.")
    expect(page.locator("#live-events tbody tr").first).to_contain_text("Freeze")
    expect(page.get_by_role("link", name="Resolved 1")).to_be_visible()


def test_the_table_of_vms_begins_with_what_failed_and_has_the_reason(node: Node, visitors: Visitors) -> None:
    """The reason leads to the event; without a failure there is no such column."""
    page = visitors.come("/?view=table&q=web")
    expect(page.get_by_role("columnheader", name="Reason")).to_have_count(0)
    event_id = fails(node, "web-3")
    row = page.locator("tbody tr").first
    expect(row.locator('td[data-label="Name"]')).to_contain_text("web-3")
    expect(row.get_by_role("link", name=REASON)).to_have_attribute("href", f"/events/{event_id}")


def test_the_page_of_a_vm_says_what_failed_and_what_to_do(node: Node, visitors: Visitors) -> None:
    """The note of who acknowledges it is in the audit trail."""
    fails(node)
    page = visitors.come("/vms/web-0")
    expect(page.locator(".head .state")).to_have_text("failed")
    expect(page.get_by_role("alert", name="What has failed")).to_contain_text("Reboot failed")
    expect(page.get_by_role("alert", name="What has failed")).to_contain_text(REASON)
    page.get_by_label("What was done").fill("restarted by hand")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator(".head .state")).to_have_text("resolved")
    (said,) = node.operate("/v1/audit?action=failure-acknowledged", method="GET")
    assert said["details"]["note"] == "restarted by hand"


def test_a_viewer_reads_what_failed_and_cannot_acknowledge_it(node: Node, visitors: Visitors) -> None:
    event_id = fails(node)
    page = visitors.come(f"/events/{event_id}", token=visitors.with_role("viewer"))
    expect(page.get_by_role("alert", name="What has failed")).to_contain_text(REASON)
    expect(page.get_by_role("button", name="Acknowledge")).to_have_count(0)


def test_a_maintenance_says_which_vms_failed_and_is_retried_or_acknowledged(node: Node, visitors: Visitors) -> None:
    """Failures are not progress. It stands before newer plans until somebody has acted."""
    plan_id = failed_plan(node)
    node.operate("/v1/maintenances", {"on": ["vm=db-0"], "type": "Freeze"})
    page = visitors.come("/maintenances")
    expect(page.locator("tbody tr").first).to_have_id(f"plan-{plan_id}")
    page.goto(f"{visitors.origin}/maintenances/{plan_id}")
    box = page.get_by_role("alert", name="What has failed")
    expect(box).to_contain_text("1 step failed, 0 allowed.")
    expect(box.get_by_role("listitem")).to_have_text(re.compile(rf"web-0: {re.escape(REASON)}"))
    box.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#said")).to_contain_text("Acknowledged")
    expect(box).to_have_count(0)
    expect(page.get_by_role("button", name="Retry 1 failed step")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_each_row_is_a_card_of_which_nothing_is_cut_off(node: Node, visitors: Visitors, scheme: str) -> None:
    """The state and the reason are in sight, and nothing scrolls sideways."""
    plan_id, _ = failed_plan(node), fails(node, "db-0")
    page = visitors.come(color_scheme=scheme, viewport={"width": PHONE, "height": 800})
    for path in ("/events", "/?view=table&state=failed", "/maintenances", "/hosts", f"/maintenances/{plan_id}"):
        page.goto(visitors.origin + path)
        cell = page.locator("table.carded tbody tr").first.locator(".state")
        expect(cell).to_have_text("healthy" if path == "/hosts" else "failed")
        box = cell.bounding_box()
        assert box is not None
        assert min(box["x"], PHONE - box["x"] - box["width"]) >= 0, path
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE, path
        assert page.evaluate("[...document.querySelectorAll('.scroll')].every(t => t.scrollWidth <= t.clientWidth)")
    titles = page.locator("table.carded tbody tr").first.locator("td[data-label]")
    assert titles.first.evaluate("cell => getComputedStyle(cell, '::before').content") == '"State"'
