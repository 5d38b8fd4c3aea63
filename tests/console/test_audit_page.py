"""The audit trail: sentences, the newest first, filtered, page after page in both directions, exported."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import FLEET, Visitors
from tests.console.test_accessibility import found_by_axe
from tests.support.node import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One for all tests here, with two pages of records."""
    with Node(FLEET.read_text()) as running:
        running.enable("web-0", "db-0")
        for _ in range(70):
            running.operate(f"/v1/events/{running.schedule('Reboot', 'web-0')}/cancel")
        yield running


def positions(page: Page) -> list[int]:
    return [int(text.replace(",", "")) for text in page.locator("tbody td:last-child").all_text_contents()]


def said(page: Page) -> Locator:
    return page.locator("td.said")


def test_the_newest_is_first_and_comes_by_itself(node: Node, visitors: Visitors) -> None:
    """Who did what, as a sentence with links; the JSON is behind a fold."""
    page = visitors.come("/audit")
    event_id = node.schedule("Freeze", "web-1")
    expect(said(page).first).to_have_text("admin announced a Freeze of web-1 (maintenance).")
    folded = page.locator("tbody tr").first.locator("pre")
    expect(folded).to_be_hidden()
    page.locator("tbody tr").first.locator("summary").click()
    expect(folded).to_contain_text(event_id)
    said(page).first.get_by_role("link", name="a Freeze").click()
    assert event_id in page.url


def test_filters_by_who_what_and_event(node: Node, visitors: Visitors) -> None:
    """Each alone, and the address keeps them."""
    event_id, other = node.schedule("Redeploy", "web-0"), node.schedule("Redeploy", "db-0")
    node.approve("web-0", event_id)
    page = visitors.come("/audit")
    page.get_by_label("Who").fill("web-0")
    page.get_by_role("button", name="Filter").click()
    expect(said(page)).to_have_text(
        [f"web-0 approved event {event_id[:8]} of set/web.", "web-0 began to listen for set/web."]
    )
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("What").fill("event-raised")
    page.get_by_role("button", name="Filter").click()
    expect(said(page).nth(0)).to_contain_text("a Redeploy of db-0")
    expect(said(page).nth(1)).to_contain_text("a Redeploy of web-0")
    page.goto(f"{visitors.origin}/audit?event={other[:13].lower()}")
    expect(said(page)).to_have_count(1)


def test_filters_by_time(node: Node, visitors: Visitors) -> None:
    """What comes after an hour is apart from what was before."""
    node.advance("1h")
    since = node.now()
    node.advance("1h")
    late = node.schedule("Freeze", "db-0")
    page = visitors.come("/audit")
    page.get_by_label("From, in UTC").fill(since.strftime("%Y-%m-%dT%H:%M:%S"))
    page.get_by_label("What").fill("event-raised")
    page.get_by_role("button", name="Filter").click()
    expect(said(page)).to_have_text(["admin announced a Freeze of db-0 (maintenance)."])
    expect(page.get_by_role("link", name="Older")).to_have_count(0)
    page.goto(f"{visitors.origin}/audit?to={since:%Y-%m-%dT%H:%M:%S}&event={late[:8]}")
    expect(page.get_by_text("No such records here")).to_be_visible()


def test_pages_lead_both_ways(visitors: Visitors) -> None:
    """None is left out and none is seen twice."""
    page = visitors.come("/audit")
    first = positions(page)
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_role("link", name="Newest")).to_be_visible()
    second = positions(page)
    assert first + second == sorted(first + second, reverse=True)
    assert first[-1] > second[0] and len(first) == 100
    page.get_by_role("link", name="Newer").click()
    expect(page.locator("tbody td:last-child").first).to_have_text(str(first[0]))
    assert positions(page) == first


def test_what_matches_is_exported_as_csv_and_as_lines_of_json(visitors: Visitors) -> None:
    """All of it, not only what is on the page."""
    page = visitors.come("/audit?action=event-cancelled")
    with page.expect_download() as csv_file:
        page.get_by_role("link", name="Export CSV").click()
    with page.expect_download() as lines_file:
        page.get_by_role("link", name="Export JSON lines").click()
    rows = list(csv.DictReader(Path(csv_file.value.path()).read_text().splitlines()))
    lines = [json.loads(line) for line in Path(lines_file.value.path()).read_text().splitlines()]
    assert len(rows) == len(lines) == 70
    assert [row["sentence"] for row in rows] == [line["sentence"] for line in lines]
    assert {row["action"] for row in rows} == {"event-cancelled"}


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 320)])
def test_axe_finds_nothing_in_the_audit_trail(visitors: Visitors, scheme: str, width: int) -> None:
    path = "/audit?action=scope-enabled"
    page = visitors.come(path, color_scheme=scheme, viewport={"width": width, "height": 700})
    page.locator("summary", has_text="scope-enabled").first.click()
    assert found_by_axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
