"""Maintenance: a form that shows what it would do, then a plan that can be followed and turned."""

from playwright.sync_api import expect

from tests.console.conftest import Visitors
from tests.support.node import Node


def test_the_form_shows_the_timeline_before_anything_happens(node: Node, visitors: Visitors) -> None:
    """It follows what is typed, and says what is wrong."""
    page = visitors.come("/maintenances/new")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("Choose a target")
    page.get_by_label("Target", exact=True).fill("set=web")
    expect(preview).to_contain_text("5 steps on 5 VMs")
    expect(preview.locator('.bar[data-state="planned"]')).to_have_count(5)
    expect(page.get_by_role("button", name="Start maintenance (5 VMs)")).to_be_visible()
    before = str(preview.locator(".lead").text_content())
    page.get_by_label("Settle after each").fill("1h")
    expect(preview.locator(".lead")).not_to_have_text(before)
    page.get_by_label("Target", exact=True).fill("set=nowhere")
    expect(preview.locator(".wrong")).to_contain_text("nowhere")
    page.get_by_label("Target", exact=True).fill("vm=db-1")
    expect(preview.locator(".wrong")).to_contain_text("without notice")
    assert node.operate("/v1/maintenances", method="GET") == []


def test_a_maintenance_is_begun_followed_paused_resumed_and_cancelled(node: Node, visitors: Visitors) -> None:
    """Each turn is a button; progress and the steps to come move by themselves."""
    page = visitors.come("/groups/set/web")
    page.get_by_role("link", name="Plan a maintenance").click()
    expect(page.locator("#preview .bar")).to_have_count(5)
    page.get_by_label("What the VMs are told").fill("New kernel")
    page.get_by_role("button", name="Start maintenance").click()
    expect(page.get_by_role("status").filter(has_text="has begun")).to_be_visible()
    expect(page.locator('.bar[data-state="planned"]')).to_have_count(4)
    expect(page.locator('.bar[data-state="scheduled"]')).to_have_count(1)
    assert node.event("web-0")["Description"] == "New kernel"
    node.advance("40m")
    expect(page.locator("#facts .tally")).to_contain_text("1 done")
    expect(page.locator('.bar[data-state="completed"]')).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".head .state")).to_have_text("paused")
    expect(page.locator('.bar[data-state="planned"]')).to_have_count(0)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator('.bar[data-state="planned"]')).to_have_count(3)
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel maintenance").click()
    expect(page.locator(".head .state")).to_have_text("cancelled")
    page.get_by_role("link", name="Maintenance", exact=True).first.click()
    expect(page.locator("tbody tr")).to_contain_text("cancelled")


def test_a_plan_that_is_refused_keeps_what_was_typed(node: Node, visitors: Visitors) -> None:
    """With the service's words above it."""
    visitors.allow(complaint="409")
    node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot"})
    page = visitors.come("/maintenances/new?on=set%3Dweb")
    page.get_by_label("What the VMs are told").fill("Once more")
    page.get_by_role("button", name="Start maintenance").click()
    expect(page.get_by_role("alert").filter(has_text="under maintenance")).to_be_visible()
    expect(page.get_by_label("What the VMs are told")).to_have_value("Once more")


def test_a_change_elsewhere_does_not_touch_what_is_being_typed(node: Node, visitors: Visitors) -> None:
    """A page that is brought up to date keeps focus, words and scrolling."""
    page = visitors.come("/audit", viewport={"width": 800, "height": 300})
    field = page.get_by_label("Who")
    field.fill("token/ad")
    page.evaluate("scrollTo(0, 120)")
    node.schedule("Reboot", "web-0")
    expect(page.locator("tbody tr").first).to_contain_text("event-raised")
    expect(field).to_be_focused()
    expect(field).to_have_value("token/ad")
    assert page.evaluate("scrollY") == 120
