"""VMs as a table, on the fleet's page and on that of a group; and names beside few cells."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import FLEET, Visitors
from tests.console.test_accessibility import found_by_axe
from tests.support.node import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One for all tests here; web-0 and db-0 listen, and web-4 will be rebooted."""
    with Node(FLEET.read_text()) as running:
        running.enable("web-0", "db-0")
        running.schedule("Reboot", "web-4")
        yield running


def column(page: Page, number: int) -> list[str]:
    return [text.strip() for text in page.locator(f"table.rows tbody td:nth-child({number})").all_text_contents()]


def test_a_group_is_cells_or_a_table_in_natural_order(visitors: Visitors) -> None:
    """The same VMs; `batch_2` before `batch_10`, 100 on a page."""
    page = visitors.come("/groups/scale-set/batch")
    expect(page.locator("#main a.cell")).to_have_count(250)
    page.get_by_role("link", name="Table").click()
    expect(page.locator(".paging")).to_contain_text("1–100 of 250")
    assert column(page, 2)[:11] == [f"batch_{number}" for number in range(11)]
    page.get_by_role("link", name="Cells").click()
    expect(page.locator("#main a.cell")).to_have_count(250)


def test_a_click_on_a_column_sorts_all_and_another_turns_it(visitors: Visitors) -> None:
    """Also what is on other pages; a screen reader is told which column it is."""
    page = visitors.come("/?view=table")
    page.get_by_role("link", name="Next event").click()
    expect(page.locator("th[aria-sort=ascending]")).to_contain_text("Next event")
    assert column(page, 2)[0].startswith("web-4")
    expect(page.locator("tbody tr").first).to_contain_text("Reboot in 15m")
    page.get_by_role("link", name="Name", exact=True).click()
    page.get_by_role("link", name="Name").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("Name")
    assert column(page, 2)[0].startswith("workers_9")


def test_a_row_says_where_it_is_and_whether_it_listens(visitors: Visitors) -> None:
    page = visitors.come("/?view=table&q=db-")
    rows = page.locator("tbody tr")
    expect(rows.nth(0)).to_contain_text("127.0.1.10")
    expect(rows.nth(0)).to_contain_text("host-1")
    expect(rows.nth(0)).to_contain_text("ago")
    expect(rows.nth(1)).to_contain_text("no notice")
    expect(rows.nth(1)).to_contain_text("not since the start")
    page.get_by_label("Listens").select_option("no")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(rows).to_have_count(1)


def test_chosen_vms_are_restarted_together_and_the_answer_says_what_happened(node: Node, visitors: Visitors) -> None:
    """db-0 is told; db-1 is hit at once, because nobody listens there; by keyboard alone."""
    page = visitors.come("/?view=table&q=db-", java_script_enabled=False)
    for name in ("db-0", "db-1"):
        page.get_by_label(f"Choose {name}").focus()
        page.keyboard.press("Space")
    page.get_by_role("button", name="Restart chosen").focus()
    page.keyboard.press("Enter")
    said = page.get_by_role("status").filter(has_text="2 VMs asked to restart.")
    expect(said).to_contain_text("1 of them at once, without notice")
    assert node.statuses("db-0") == ["Scheduled"]


def test_few_cells_have_their_names_beside_them(visitors: Visitors) -> None:
    """40 or fewer; more are only cells."""
    page = visitors.come()
    expect(page.locator(".with-name").filter(has_text="FrontEnd_IN_0")).to_be_visible()
    page.goto(f"{visitors.origin}/groups/scale-set/batch")
    expect(page.locator("#main a.cell").first).to_be_visible()
    expect(page.locator(".with-name")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 320)])
def test_axe_finds_nothing_in_the_table(visitors: Visitors, scheme: str, width: int) -> None:
    page = visitors.come("/?view=table&q=web", color_scheme=scheme, viewport={"width": width, "height": 700})
    assert found_by_axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{visitors.origin}/groups/set/web")
    assert found_by_axe(page) == []
