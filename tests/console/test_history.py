"""The page of the past: charts drawn by the server, filters, and files for a spreadsheet."""

import csv
import io
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.console.conftest import FLEET, Visitors
from tests.support.node import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node with a past: one event with its whole notice, one that was approved, one that failed."""
    with Node(FLEET.read_text()) as running:
        running.enable("web-0", "db-0")
        running.schedule("Reboot", "web-0")
        running.advance("26m")
        failed = running.schedule("Freeze", "db-0")
        running.advance("4m")
        running.approve("db-0", failed)
        running.operate(f"/v1/events/{failed}/report", {"failure": "It did not boot."})
        yield running


def test_charts_show_what_was_promised_given_and_done(visitors: Visitors) -> None:
    """Each is a picture with a sentence for who cannot see it, and its numbers below."""
    page = visitors.come("/history?span=7d")
    for key in ("events", "notice", "kept", "approval", "impact", "failures"):
        expect(page.locator(f"#chart-{key} svg.plot")).to_have_attribute("role", "img")
    expect(page.locator("#chart-events svg.plot")).to_have_attribute("aria-label", "Events: Freeze 1, Reboot 1.")
    expect(page.locator('#chart-failures rect[data-series="failed"]')).to_have_count(1)
    expect(page.locator('#chart-notice rect[data-series="promised"] title').first).to_contain_text("promised 15m")
    page.get_by_text("The numbers").click()
    expect(page.locator("#numbers tbody tr").first).to_be_visible()


def test_the_past_of_one_group_or_vm(visitors: Visitors) -> None:
    """The filters are in the address."""
    page = visitors.come("/history")
    page.get_by_label("Group").fill("set/web")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#chart-events svg.plot")).to_have_attribute("aria-label", "Events: Reboot 1.")
    assert "group=set%2Fweb" in page.url
    page.get_by_label("VM").fill("db-0")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#chart-events .empty")).to_be_visible()


def test_days_and_events_are_files_for_a_spreadsheet(node: Node, visitors: Visitors) -> None:
    """With a header, and a line for each."""
    page = visitors.come("/history?span=7d&vm=db-0")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Events as CSV").click()
    assert saved.value.suggested_filename == "duenotice-events.csv"
    (row,) = csv.DictReader(io.StringIO(saved.value.path().read_text()))
    assert (row["type"], row["outcome"], row["promised_seconds"], row["given_seconds"]) == (
        "Freeze", "failed", "900.0", "240.0",
    )  # fmt: skip
    with page.expect_download() as saved:
        page.get_by_role("link", name="Days as CSV").click()
    rows = list(csv.DictReader(io.StringIO(saved.value.path().read_text())))
    assert (len(rows), sum(int(day["failed"]) for day in rows)) == (7, 1)


def test_it_fits_a_small_phone_and_an_ordinary_screen(visitors: Visitors) -> None:
    """Nothing has to be moved sideways."""
    for width in (320, 1280):
        page = visitors.come("/history", viewport={"width": width, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    menu = "document.querySelector('.top nav')"
    assert page.evaluate(f"{menu}.scrollWidth - {menu}.clientWidth") == 0, "a page is hidden in the menu"
