"""The search on every page: keys, what is found while typing, exact hits, and without scripts."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import FLEET, Visitors
from tests.console.test_accessibility import found_by_axe
from tests.support.node import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(FLEET.read_text()) as running:
        running.enable("web-0")
        yield running


def found(page: Page) -> list[str]:
    return page.locator("#finds [role=option] b").all_text_contents()


def test_ctrl_k_finds_while_typing_and_enter_opens_the_exact_hit(visitors: Visitors) -> None:
    """By keyboard alone; a screen reader is told what is active and how many there are."""
    page = visitors.come("/audit")
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="Search everything")
    expect(box).to_be_focused()
    page.keyboard.type("web")
    first = page.locator("#finds [role=option]").first
    expect(first).to_contain_text("set/web")
    expect(first).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", "find-1")
    expect(page.locator("#finder-says")).to_contain_text("found")
    page.keyboard.press("ArrowDown")
    expect(box).to_have_attribute("aria-activedescendant", "find-2")
    page.keyboard.press("ArrowUp")
    page.keyboard.type("-3")
    expect(first).to_contain_text("web-3")
    page.keyboard.press("Enter")
    page.wait_for_url("**/vms/web-3")


def test_who_types_faster_than_the_list_comes_gets_the_exact_hit_too(visitors: Visitors) -> None:
    """The form asks the service: `web-1` opens, `we` is a list."""
    page = visitors.come("/hosts")
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search everything")
    expect(box).to_be_focused()
    box.evaluate("box => { box.value = 'WEB-1'; box.form.requestSubmit(); }")
    page.wait_for_url("**/vms/web-1")
    page.goto(f"{visitors.origin}/search?q=web-&go=1")
    expect(page.locator("#main .outcomes a").first).to_have_text("web-0")


def test_events_plans_pages_and_actions_are_found(node: Node, visitors: Visitors) -> None:
    """An action leads to the page that has its button; what a role may not do is not offered."""
    event = node.schedule("Reboot", "web-0")
    page = visitors.come()
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search everything")
    for typed, title in ((event, event[:8]), ("plan a m", "Plan a maintenance"), ("restart web-4", "Restart web-4")):
        box.fill(typed)
        expect(page.locator("#finds [role=option] b").filter(has_text=title).first).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url("**/vms/web-4")
    viewer = visitors.come("/search?q=plan+a", visitors.with_role("viewer"))
    expect(viewer.get_by_text("Nothing matches")).to_be_visible()


def test_keys_are_listed_and_escape_closes_and_typing_is_left_alone(visitors: Visitors) -> None:
    """`?` and `/` are only letters in a field."""
    page = visitors.come("/hosts")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Search everything")
    assert found_by_axe(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.get_by_label("Search hosts").focus()
    page.keyboard.type("a/b?")
    expect(page.get_by_label("Search hosts")).to_have_value("a/b?")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_search_works_without_a_script(visitors: Visitors) -> None:
    page = visitors.come("/events", java_script_enabled=False)
    page.get_by_role("link", name="Search", exact=True).click()
    page.get_by_role("searchbox", name="Search everything").fill("host-2")
    page.keyboard.press("Enter")
    page.locator("#main .outcomes").get_by_role("link", name="host-2").click()
    expect(page.get_by_role("heading", name="host-2")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 320)])
def test_axe_finds_nothing_in_the_search(visitors: Visitors, scheme: str, width: int) -> None:
    page = visitors.come("/nodes", color_scheme=scheme, viewport={"width": width, "height": 700})
    page.locator("#find").click()
    page.keyboard.type("web")
    expect(page.locator("#finds [aria-selected=true]")).to_be_visible()
    assert found_by_axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
