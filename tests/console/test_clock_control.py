"""The clock on every page: it goes, and where it is not real an admin sets it."""

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import FLEET, Visitors
from tests.support.node import Node


def test_a_manual_clock_is_told_to_go_on(node: Node, page: Page, visitors: Visitors) -> None:
    """With a button or a span of one's own; other pages follow within seconds."""
    other = visitors.come("/events")
    event_id = node.schedule("Reboot", "web-0")
    expect(other.locator(f"#event-{event_id}")).to_contain_text("in 15m")
    page.locator("summary.clock").click()
    page.get_by_role("button", name="+5m").click()
    expect(page.get_by_role("status").filter(has_text="5m have passed.")).to_be_visible()
    expect(other.locator(f"#event-{event_id}")).to_contain_text("in 10m")
    page.locator("summary.clock").click()
    page.get_by_label("Let pass").fill("10m")
    page.get_by_role("button", name="Advance").click()
    expect(page.locator('a.cell[data-vm="web-0"]')).to_have_attribute("data-state", "started")
    page.locator("summary.clock").click()
    page.get_by_label("Let pass").fill("soon")
    page.get_by_role("button", name="Advance").click()
    expect(page.get_by_role("alert").filter(has_text="soon")).to_be_visible()


def test_only_an_admin_sets_it(visitors: Visitors) -> None:
    """An operator sees it go."""
    page = visitors.come("/", visitors.with_role("operator"))
    expect(page.locator("#clock")).to_be_visible()
    expect(page.locator("summary.clock")).to_have_count(0)


def test_a_fast_clock_runs_in_the_browser_and_changes_its_pace(browser: Browser) -> None:
    """Countdowns run with it."""
    with Node(Path(FLEET).read_text(), clock="60x") as node:
        node.enable("web-0")
        people = Visitors(browser, node)
        event_id = node.schedule("Reboot", "web-0")
        page = people.come(f"/events/{event_id}")
        before = str(page.locator(".big").text_content())
        expect(page.locator(".big")).not_to_have_text(before)
        page.locator("summary.clock").click()
        page.get_by_role("button", name="600x", exact=True).click()
        expect(page.locator("#pace")).to_have_text("600x")
        expect(page.locator(".track li").nth(3)).to_have_class("done")
        for speed in ("1x", "60x"):  # it is not real at any speed, so it can always be set
            page.locator("summary.clock").click()
            page.get_by_role("button", name=speed, exact=True).click()
            expect(page.locator("#pace")).to_have_text(speed)
        page.goto(f"{people.origin}/audit?action=clock-marked&actor=token/admin")
        expect(page.locator("tbody tr")).to_have_count(3)
        page.goto(f"{people.origin}/audit")
        expect(page.locator("tbody tr").filter(has_text="60x").first).to_contain_text("60x")
        assert people.leave() == []


def test_times_are_in_utc_or_in_the_zone_of_the_visitor(node: Node, visitors: Visitors) -> None:
    """A button switches, the browser remembers, and a tooltip has both; what comes live is in the same zone."""
    first = node.schedule("Reboot", "web-0")
    page = visitors.come(f"/events/{first}", timezone_id="Asia/Dubai")
    told = page.locator(".track li").nth(0).locator("time")
    before = str(told.text_content())
    page.locator("#zone").click()
    expect(told).not_to_have_text(before)
    expect(page.locator("#zone")).to_have_text("local")
    shifted = page.evaluate(
        "iso => new Date(Date.parse(iso) + 4 * 3600e3).toISOString().slice(11, 19)", told.get_attribute("datetime")
    )
    expect(told).to_contain_text(shifted)
    expect(told).to_have_attribute("title", f"{before} UTC · {told.text_content()} Asia/Dubai")
    node.operate(f"/v1/events/{first}/approve")
    started = page.locator(".track li").nth(3).locator("time")
    expect(started.first).to_contain_text(shifted[:2])
    page.goto(f"{visitors.origin}/events")
    expect(page.locator("#zone")).to_have_text("local")
    page.locator("#zone").click()
    expect(page.locator("#zone")).to_have_text("UTC")
