"""Attention first: what needs a person stands on top of the fleet, with the plans that run, and who would be silent."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Dialog, Locator, Page, expect

from tests.console.conftest import FLEET, Visitors
from tests.console.test_accessibility import found_by_axe
from tests.support.node import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node for this file: each test leaves it as it would a fleet that goes on."""
    with Node(FLEET.read_text()) as running:
        running.enable("web-0", "db-0")
        yield running


def alarms(page: Page) -> Locator:
    return page.locator("#attention .alarm")


def plan(node: Node, on: str = "set=web") -> Any:
    return node.operate("/v1/maintenances", {"on": [on], "type": "Reboot", "settle": "5m"})


def test_silent_vms_are_counted_marked_and_found(node: Node, visitors: Visitors) -> None:
    """And a VM that begins to listen loses its mark while somebody looks."""
    page = visitors.come()
    expect(alarms(page)).to_have_text(
        ["266 of 272 VMs would get no notice Nobody there has asked for events in the last 24 hours."]
    )
    expect(page.locator('.tile[data-state="silent"] b')).to_have_text("266")
    expect(page.locator('[data-section="service/shop"] summary')).to_contain_text("3 no notice")
    shop = page.locator('a.cell[data-vm="FrontEnd_IN_0"]')
    assert shop.get_attribute("data-silent") is not None
    assert page.locator('a.cell[data-vm="web-1"]').get_attribute("data-silent") is None
    assert page.title() == "(1) Fleet · duenotice"
    node.enable("FrontEnd_IN_0")
    expect(page.locator('.tile[data-state="silent"] b')).to_have_text("263")
    expect(page.locator('a.cell[data-vm="BackEnd_IN_0"]')).not_to_have_attribute("data-silent", "")
    alarms(page).first.click()
    expect(page.locator(".found")).to_contain_text("263 VMs that would get no notice")
    expect(page.locator('[data-section="set/web"]')).to_have_count(0)
    assert found_by_axe(page) == []


def test_nobody_listens_is_asked_before_and_said_after(node: Node, visitors: Visitors) -> None:
    """A restart of a silent VM happens only after a yes, and the answer says what did happen."""
    asked: list[str] = []

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss() if len(asked) == 1 else dialog.accept()

    page = visitors.come("/vms/db-1")
    page.on("dialog", answer)
    page.get_by_role("button", name="Restart").click()
    assert asked == ["Nobody listens: it happens now, without notice."]
    expect(page.get_by_role("status").filter(has_text="at once")).to_have_count(0)
    page.get_by_role("button", name="Restart").click()
    expect(page.get_by_role("status").filter(has_text="was restarted at once, without notice")).to_be_visible()
    page.goto(f"{visitors.origin}/maintenances/new?on=vm%3Ddb-1")
    page.get_by_role("button", name="Start maintenance").click()
    expect(
        page.get_by_role("alert").filter(has_text="Nobody listens on 1 of 1 VM: there it happens now")
    ).to_be_visible()
    page.get_by_role("button", name="Start without notice").click()
    expect(page.get_by_role("status").filter(has_text="has begun. 1 VM without notice.")).to_be_visible()
    node.advance("1h")


def test_a_running_plan_stands_on_top_also_between_two_steps(node: Node, visitors: Visitors) -> None:
    """With its step, the next one and its end; nothing says that nothing is planned."""
    page = visitors.come()
    plan_id = plan(node)["id"]
    running = page.locator(f"#open-{plan_id}")
    expect(running).to_contain_text("0 of 5 steps")
    expect(running).to_contain_text("Nowset/web, update domain 0 (1 VM), starts in 15m")
    expect(running).to_contain_text("Nextset/web, update domain 1 (1 VM), in 30m")
    expect(running).to_contain_text("Expected end")
    node.advance("26m")
    expect(running).to_contain_text("1 of 5 steps")
    expect(page.locator("#coming")).to_contain_text("No event is announced now.")
    for path in ("/", "/events", "/groups/set/web", "/hosts/host-1", "/vms/web-2"):
        page.goto(visitors.origin + path)
        expect(page.get_by_text("Nothing is planned")).to_have_count(0)
    page.goto(visitors.origin)
    node.operate(f"/v1/maintenances/{plan_id}/pause")
    expect(alarms(page).first).to_have_text(
        "Maintenance is paused: Reboot of set/web 4 steps wait until somebody resumes it."
    )
    expect(page.locator(f"#open-{plan_id}")).to_contain_text("nothing until somebody resumes it")
    assert found_by_axe(page) == []
    node.operate(f"/v1/maintenances/{plan_id}/cancel")
    expect(page.locator("#plans .plan")).to_have_count(0)


def test_what_failed_is_on_top_until_somebody_has_seen_to_it(node: Node, visitors: Visitors) -> None:
    """A failed maintenance, its event and a host that may fail, each a way to its page."""
    page = visitors.come(viewport={"width": 320, "height": 800})
    plan_id = plan(node)["id"]
    (step, *_) = node.steps(plan_id)
    node.approve("web-0", step["event_id"])
    node.operate(f"/v1/events/{step['event_id']}/report", {"failure": "It did not boot."})
    node.operate("/v1/hosts/host-3/degrade", {"risk": "low"})
    expect(alarms(page)).to_have_count(4)
    expect(alarms(page).nth(0)).to_have_text(
        "Maintenance failed: Reboot of set/web 1 of 5 steps failed, 4 did not run."
    )
    expect(alarms(page).nth(1)).to_have_text("Reboot of web-0 failed It did not boot. since 0s")
    expect(alarms(page).nth(2)).to_have_text("Host host-3 may fail")
    expect(page).to_have_title("(4) Fleet · duenotice")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert found_by_axe(page) == []
    hrefs = [alarm.get_attribute("href") for alarm in alarms(page).all()]
    assert hrefs == [f"/maintenances/{plan_id}", f"/events/{step['event_id']}", "/hosts/host-3", "/?listens=false"]


def test_a_fleet_that_needs_nobody_says_so_in_green(browser: Browser) -> None:
    """One sentence."""
    with Node('[[vms]]\nname = "a"\naddress = "127.0.1.1"\n') as node:
        node.enable("a")
        people = Visitors(browser, node)
        page = people.come()
        expect(page.locator(".calm")).to_contain_text("Nothing needs you")
        assert page.title() == "Fleet · duenotice"
        assert people.leave() == []
