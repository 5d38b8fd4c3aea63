"""The audit trail: the newest first, filtered, page after page in both directions."""

from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Visitors
from tests.support.node import Node


def positions(page: Page) -> list[int]:
    return [int(text) for text in page.locator("tbody td:last-child").all_text_contents()]


def column(page: Page, number: int) -> Locator:
    return page.locator(f"tbody td:nth-child({number})")


def test_the_newest_is_first_and_comes_by_itself(node: Node, visitors: Visitors) -> None:
    """Who did what."""
    page = visitors.come("/audit")
    event_id = node.schedule("Reboot", "web-0")
    expect(column(page, 3).first).to_have_text("event-raised")
    expect(column(page, 2).first).to_have_text("token/admin")
    page.locator("tbody tr").first.get_by_role("link").click()
    assert event_id in page.url


def test_filters_by_who_what_and_event(node: Node, visitors: Visitors) -> None:
    """Each alone, and the address keeps them."""
    event_id, other = node.schedule("Reboot", "web-0"), node.schedule("Reboot", "db-0")
    node.approve("web-0", event_id)
    page = visitors.come("/audit")
    page.get_by_label("Who").fill("vm/web-0")
    page.get_by_role("button", name="Filter").click()
    expect(column(page, 3)).to_have_text(["event-approved", "scope-enabled"])
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("What").fill("event-raised")
    page.get_by_role("button", name="Filter").click()
    expect(column(page, 4)).to_have_text([other[:8], event_id[:8]])
    page.goto(f"{visitors.origin}/audit?event={event_id[:13].lower()}")
    expect(column(page, 3)).to_have_text(["event-started", "event-approved", "event-raised"])


def test_pages_lead_both_ways(node: Node, visitors: Visitors) -> None:
    """None is left out and none is seen twice."""
    for _ in range(70):
        event_id = node.schedule("Reboot", "web-0")
        node.operate(f"/v1/events/{event_id}/cancel")
    page = visitors.come("/audit")
    first = positions(page)
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_role("link", name="Newest")).to_be_visible()
    second = positions(page)
    assert first + second == sorted(first + second, reverse=True)
    assert first[-1] == second[0] + 1 and len(first) == 100
    page.get_by_role("link", name="Newer").click()
    expect(page.locator("tbody td:last-child").first).to_have_text(str(first[0]))
    assert positions(page) == first
