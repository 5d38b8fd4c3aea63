"""The timeline: bars for notice and impact, marks for NotBefore and approval, plans to come, zoom, keys."""

import re

from playwright.sync_api import Page, expect

from tests.console.conftest import Visitors, wait_until
from tests.support.node import Node


def x_of(page: Page, selector: str) -> float:
    return float(str(page.locator(selector).first.get_attribute("x1")).rstrip("%"))


def test_an_event_is_a_light_bar_a_tick_a_mark_and_a_solid_bar(node: Node, visitors: Visitors) -> None:
    """In the lane of its set, and all of it in words for who points at it or cannot see it."""
    event_id = node.schedule("Reboot", "web-0", description="New kernel")
    page = visitors.come("/timeline")
    bar = page.locator('[id^="lane-set"] .bar')
    expect(bar.locator(".notice")).to_have_count(1)
    expect(bar.locator(".tick")).to_have_count(1)
    expect(bar.locator(".hit")).to_have_count(0)
    node.advance("5m")
    node.approve("web-0", event_id)
    expect(bar.locator(".hit")).to_have_count(1)
    expect(bar.locator(".approval")).to_have_count(1)
    bar.locator(".notice").hover()
    expect(page.locator("#says")).to_contain_text("approved by vm/web-0")
    expect(page.locator("#says")).to_contain_text("New kernel")
    expect(bar).to_have_attribute("aria-label", str(page.locator("#says").text_content()))
    bar.locator(".notice").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Reboot")


def test_now_moves_and_what_runs_grows(node: Node, visitors: Visitors) -> None:
    """With the clock, not with a reload."""
    node.operate("/v1/hosts/host-1/fail")
    page = visitors.come("/timeline?span=6h")
    width = "Number(document.querySelector('rect.hit').getAttribute('width').replace('%', ''))"
    here, wide = x_of(page, "line.now"), page.evaluate(width)
    page.evaluate("document.querySelector('.gantt').marked = true")
    node.advance("4m")
    wait_until(page, f"{width} > {wide} + 0.5")
    assert x_of(page, "line.now") > here + 0.5
    assert page.evaluate("document.querySelector('.gantt').marked")


def test_a_maintenance_has_its_future_steps_in_it(node: Node, visitors: Visitors) -> None:
    """Dashed, with a way to the plan."""
    plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "settle": "5m"})["id"]
    page = visitors.come("/timeline?span=6h")
    planned = page.locator('.bar[data-state="planned"]')
    expect(planned).to_have_count(4)
    assert (
        page.evaluate("getComputedStyle(document.querySelector('[data-state=planned] rect')).strokeDasharray") != "none"
    )
    expect(planned.first).to_have_attribute("href", f"/maintenances/{plan}")
    assert "Planned: Reboot of web-1" in str(planned.first.get_attribute("aria-label"))


def test_events_by_host(node: Node, visitors: Visitors) -> None:
    """Each is in the lanes of the hosts that its VMs are on, steps to come as well."""
    node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "settle": "5m"})
    page = visitors.come("/timeline?span=6h")
    page.get_by_role("link", name="By host").click()
    expect(page.locator(".lane-head")).to_have_text(["host-1", "host-2", "host-3"])
    expect(page.locator(".bar")).to_have_count(5)
    expect(page.locator("#lane-host-1 .bar")).to_have_count(2)


def test_one_bar_for_an_update_domain_unfolds_into_its_events(node: Node, visitors: Visitors) -> None:
    """Two events of one update domain at a time are one bar; the axis above says the date, and stays in sight."""
    node.schedule("Reboot", "web-0")
    node.schedule("Freeze", "web-0")
    page = visitors.come("/timeline", viewport={"width": 1280, "height": 320})
    bar = page.locator('[id^="lane-set"] .lane:not(.unfolded) .bar')
    expect(bar).to_have_count(1)
    expect(bar).to_have_attribute("aria-label", re.compile("2 events"))
    inside = page.locator(".unfolded .bar")
    expect(inside.first).not_to_be_visible()
    page.get_by_text("UD 0").click()
    expect(inside).to_have_count(2)
    expect(inside.first).to_be_visible()
    expect(page.locator(".axis .date").first).to_have_text(re.compile(r"^\w{3} \d\d \w{3} \d{4}$"))
    page.evaluate("scrollTo(0, 400)")
    expect(page.locator(".axis")).to_be_in_viewport()


def test_details_stand_beside_the_pointer(node: Node, visitors: Visitors) -> None:
    """And beside the bar that has the focus; Escape hides them."""
    node.schedule("Reboot", "web-0")
    page = visitors.come("/timeline")
    says = page.locator("#says")
    expect(says).not_to_be_visible()
    page.locator(".bar .notice").hover()
    expect(says).to_be_visible()
    pointed, told = page.locator(".bar .notice").bounding_box(), says.bounding_box()
    assert pointed is not None and told is not None
    assert abs(told["y"] - pointed["y"]) < 60
    assert told["x"] + told["width"] <= 1280
    page.keyboard.press("Escape")
    expect(says).not_to_be_visible()


def test_failed_and_paused_look_like_what_they_are(node: Node, visitors: Visitors) -> None:
    """Failed has its own colour, a paused plan is hatched from now on; both are in the legend."""
    event_id = node.schedule("Reboot", "db-0")
    node.operate(f"/v1/events/{event_id}/approve", {})
    node.advance("2m")
    node.operate(f"/v1/events/{event_id}/report", {"failure": "It did not boot."})
    plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot"})["id"]
    node.operate(f"/v1/maintenances/{plan}/pause")
    page = visitors.come("/timeline")
    colour = "(state) => getComputedStyle(document.querySelector(`.bar[data-state=${state}] .hit`)).fill"
    failed = page.evaluate(colour, "failed")
    expect(page.locator('.bar[data-state="paused"] .hatch')).to_have_count(1)
    expect(page.locator('.bar[data-state="paused"]')).to_have_attribute("href", f"/maintenances/{plan}")
    node.operate("/v1/hosts/host-3/fail")
    expect(page.locator('.bar[data-state="started"] .expected').first).to_be_attached()
    assert page.evaluate(colour, "started") != failed
    expect(page.locator(".legend")).to_contain_text("failed")


def test_keys_zoom_and_move(node: Node, visitors: Visitors) -> None:
    """Without losing the bar that has the focus; the address says what is seen."""
    node.schedule("Reboot", "web-0")
    page = visitors.come("/timeline")
    bar = page.locator(".bar")
    bar.focus()
    expect(page.locator("#says")).to_contain_text("Reboot of web-0")
    for key, span in [("-", "6h"), ("-", "1d"), ("+", "6h"), ("+", "1h"), ("+", "15m"), ("+", "5m")]:
        page.keyboard.press(key)
        expect(page.locator(".tabs [aria-current]", has_text=span)).to_have_text(span)
    assert "span=5m" in page.url
    page.keyboard.press("-")
    expect(page.locator(".tabs [aria-current]", has_text="15m")).to_have_count(1)
    begin = page.locator(".gantt").get_attribute("data-begin")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".gantt")).not_to_have_attribute("data-begin", str(begin))
    page.keyboard.press("n")
    expect(page.locator("#to-now")).to_have_attribute("aria-current", "true")


def test_the_past_is_looked_at_too(node: Node, visitors: Visitors) -> None:
    """What is over stays where it was."""
    node.schedule("Reboot", "web-0")
    node.advance("5h")
    page = visitors.come("/timeline")
    expect(page.locator(".bar")).to_have_count(0)
    page.get_by_role("link", name="1d").click()
    expect(page.locator('.bar[data-state="completed"]')).to_have_count(1)
