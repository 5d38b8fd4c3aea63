"""The timeline: bars for notice and impact, marks for NotBefore and approval, plans to come, zoom, keys."""

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
    expect(page.locator(".lane-name").filter(has_text="host-")).to_have_text(["host-1", "host-2", "host-3"])
    expect(page.locator(".bar")).to_have_count(5)
    expect(page.locator("#lane-host-1 .bar")).to_have_count(2)


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
