"""The console is honest about itself: it says when the service hangs, and its tabs share one connection."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import FLEET, Visitors, wait_until
from tests.console.test_live import Process
from tests.support.node import Node

HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""
HIDDEN = 'Object.defineProperty(document, "hidden", { configurable: true, get: () => true });'


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node for this file."""
    with Node(FLEET.read_text()) as running:
        running.enable("web-0")
        yield running


def until_listeners(node: Node, page: Page, number: int) -> None:
    """Wait until so many connections are open."""
    live = node.service._console.live
    for _ in range(400):
        if live.listeners == number:
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"{live.listeners} connections, not {number}")


def test_a_service_that_hangs_is_seen_and_its_return_too(browser: Browser, tmp_path: Path) -> None:
    """On a real clock: a banner, a clock that stands still, and all is right again without a reload."""
    process = Process(tmp_path)
    try:
        people = Visitors(browser, process)  # type: ignore[arg-type]
        people.allow(complaint="ERR_")
        page = people.come("/")
        process.enable("web-0")
        process.schedule("Reboot", "web-0")
        cells = page.locator('a.cell[data-state="scheduled"]')
        expect(cells).to_have_count(1)
        page.evaluate("window.same = true")
        os.kill(process.pid, signal.SIGSTOP)
        expect(page.get_by_role("alert")).to_contain_text("The service does not answer. This page shows how")
        expect(page.locator("#link")).to_have_text("not live")
        stands = page.locator("#clock").text_content()
        page.wait_for_timeout(1500)
        assert page.locator("#clock").text_content() == stands
        os.kill(process.pid, signal.SIGCONT)
        expect(page.locator("#link")).to_have_text("live", timeout=15_000)
        expect(page.locator("#stale")).to_be_hidden()
        process.schedule("Reboot", "web-1")
        expect(cells).to_have_count(2)
        wait_until(page, f"document.getElementById('clock').textContent !== '{stands}'")
        assert page.evaluate("window.same"), "no reload"
        assert people.leave() == []
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.kill()


def test_ten_tabs_share_one_connection(node: Node, visitors: Visitors) -> None:
    """All ten hear of a change; the last that goes takes the connection with it."""
    first = visitors.come("/")
    tabs = [first, *(first.context.new_page() for _ in range(9))]
    for tab in tabs[1:]:
        tab.goto(visitors.origin)
    for tab in tabs:
        expect(tab.locator("#link")).to_have_text("live")
    event_id = node.schedule("Reboot", "web-0")
    for tab in tabs:
        expect(tab.locator('a.cell[data-vm="web-0"]')).to_have_attribute("data-state", "scheduled")
    until_listeners(node, first, 1)
    for tab in tabs[1:]:
        tab.close()
    node.operate(f"/v1/events/{event_id}/cancel")
    expect(first.locator('a.cell[data-vm="web-0"]')).to_have_attribute("data-state", "fine")
    first.goto("about:blank")
    until_listeners(node, first, 0)


def test_a_tab_that_comes_late_hears_what_happened_since_its_page_was_made(node: Node, visitors: Visitors) -> None:
    """Between the page and its first word with the others."""
    one = visitors.come("/")
    expect(one.locator("#link")).to_have_text("live")
    late = one.context.new_page()
    late.add_init_script(HIDDEN)  # so it has the page, and does not listen yet
    late.goto(visitors.origin)
    event_id = node.schedule("Reboot", "web-1")
    expect(one.locator('a.cell[data-vm="web-1"]')).to_have_attribute("data-state", "scheduled")
    late.evaluate(HIDE, False)
    expect(late.locator('a.cell[data-vm="web-1"]')).to_have_attribute("data-state", "scheduled")
    until_listeners(node, one, 1)
    node.operate(f"/v1/events/{event_id}/cancel")
    expect(late.locator('a.cell[data-vm="web-1"]')).to_have_attribute("data-state", "fine")


def test_a_page_in_the_background_takes_no_connection(node: Node, visitors: Visitors) -> None:
    """Until somebody looks at it."""
    page = visitors.stranger()
    page.add_init_script(HIDDEN)
    visitors.let_in(page)
    page.goto(visitors.origin)
    page.wait_for_load_state("networkidle")
    assert node.service._console.live.listeners == 0
    page.evaluate(HIDE, False)
    until_listeners(node, page, 1)


def test_a_browser_without_shared_workers_is_live_too(node: Node, visitors: Visitors) -> None:
    """Each tab has a line of its own there."""
    page = visitors.stranger()
    page.add_init_script("delete window.SharedWorker;")
    visitors.let_in(page)
    page.goto(visitors.origin)
    until_listeners(node, page, 1)
    node.schedule("Reboot", "web-2")
    expect(page.locator('a.cell[data-vm="web-2"]')).to_have_attribute("data-state", "scheduled")
