"""The table of events: filters in the address, the urgent first, pages, piles, and what is done to chosen rows."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import FLEET, Visitors
from tests.console.test_accessibility import found_by_axe
from tests.support.node import Node


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One for all tests here: 105 events of batch, of which batch_104 has started; web-0 has a maintenance."""
    with Node(FLEET.read_text()) as running:
        running.enable("batch_0", "batch_100", "web-0", "db-0", "workers_0")
        ids = [running.schedule("Reboot", f"batch_{number}") for number in range(105)]
        running.operate(f"/v1/events/{ids[104]}/approve")
        running.operate("/v1/maintenances", {"on": ["set=web"], "type": "Freeze", "settle": "1m"})
        running.schedule("Freeze", "db-0", cause="user")
        yield running


def vms(page: Page) -> list[str]:
    return page.locator("#live-events td.vms").all_text_contents()


def test_the_most_urgent_of_all_are_on_the_first_page(visitors: Visitors) -> None:
    """Sorted before it is cut, and each page says of how many."""
    page = visitors.come("/events?group=batch")
    assert vms(page)[:4] == ["batch_104", "batch_0", "batch_1", "batch_2"]
    expect(page.locator(".paging").first).to_contain_text("1–100 of 105")
    page.get_by_role("link", name="Next").click()
    expect(page.locator(".paging").first).to_contain_text("101–105 of 105")
    assert vms(page) == [f"batch_{number}" for number in range(99, 104)]


def test_filters_are_in_the_address_and_stay_together(visitors: Visitors) -> None:
    """State, type, cause, group and text; chips count what the other filters leave."""
    page = visitors.come("/events")
    page.get_by_label("Cause").select_option("maintenance")
    page.get_by_label("Type").select_option("Freeze")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#live-events tbody tr")).to_have_count(1)
    assert "cause=maintenance" in page.url and "type=Freeze" in page.url
    page.get_by_role("link", name="Started").click()
    expect(page.get_by_text("No events match.")).to_be_visible()
    assert "cause=maintenance" in page.url and "state=started" in page.url
    page.goto(f"{visitors.origin}/events?q=batch_10&state=scheduled")
    assert vms(page) == ["batch_10", *(f"batch_{number}" for number in range(100, 104))]
    expect(page.get_by_label("Text")).to_have_value("batch_10")


def test_rows_stand_together_by_maintenance_or_host(node: Node, visitors: Visitors) -> None:
    """Each pile has a title that opens what it is about."""
    page = visitors.come("/events?by=maintenance&type=Freeze")
    plan = node.operate("/v1/maintenances", method="GET")[0]["id"]
    titles = page.locator("tr.pile th")
    expect(titles).to_contain_text(["No maintenance", f"Maintenance {plan[:8]}: Freeze of set/web"])
    titles.nth(1).get_by_role("link").click()
    page.wait_for_url(f"**/maintenances/{plan}")
    page.goto(f"{visitors.origin}/events?by=host&group=web")
    expect(page.locator("tr.pile th")).to_contain_text(["Host host-1"])


def test_chosen_rows_are_approved_together_without_a_script(node: Node, visitors: Visitors) -> None:
    """The form is plain HTML."""
    ids = [node.schedule("Freeze", f"workers_{number}") for number in range(3)]
    page = visitors.come("/events?group=workers&state=scheduled", java_script_enabled=False)
    for name in ("workers_0", "workers_2"):
        page.get_by_label(f"Choose Freeze of {name}").check()
    page.get_by_role("button", name="Approve chosen").click()
    expect(page.get_by_role("status").filter(has_text="2 events approved.")).to_be_visible()
    assert vms(page) == ["workers_1"]
    page.get_by_role("button", name="Cancel chosen").click()
    expect(page.get_by_role("alert").filter(has_text="No event was chosen.")).to_be_visible()
    node.operate(f"/v1/events/{ids[1]}/cancel")


def test_each_that_is_refused_gets_a_line(node: Node, visitors: Visitors) -> None:
    """The others are done; the page leads back to where the visitor was."""
    ids = [node.schedule("Redeploy", f"workers_{number}") for number in (4, 5)]
    page = visitors.come("/events?type=Redeploy")
    page.get_by_label("Choose all on this page").check()
    expect(page.get_by_text("2 chosen")).to_be_visible()
    page.evaluate("document.getElementById('main').dataset.live = ''")
    node.operate(f"/v1/events/{ids[0]}/cancel")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel chosen").click()
    expect(page.locator(".outcomes li")).to_have_count(1)
    expect(page.locator(".outcomes li")).to_contain_text([ids[0][:8]])
    expect(page.get_by_role("status").filter(has_text="1 event cancelled.")).to_be_visible()
    assert found_by_axe(page) == []
    page.get_by_role("link", name="Back").click()
    page.wait_for_url("**/events?type=Redeploy")


def test_who_may_only_look_chooses_nothing(visitors: Visitors) -> None:
    page = visitors.come("/events", visitors.with_role("viewer"))
    expect(page.locator("td.vms").first).to_be_visible()
    expect(page.locator('input[type="checkbox"]')).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 320)])
def test_axe_finds_nothing_and_nothing_sticks_out(visitors: Visitors, scheme: str, width: int) -> None:
    page = visitors.come("/events?by=host&group=web", color_scheme=scheme, viewport={"width": width, "height": 700})
    assert found_by_axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_group_in_which_nothing_can_be_chosen_does_not_stop_the_page(node: Node, visitors: Visitors) -> None:
    """Its box stays hidden. To hide it again each time would tell the page that it has changed, without an end."""
    node.enable("FrontEnd_IN_0")
    node.approve("FrontEnd_IN_0", node.schedule("Freeze", "FrontEnd_IN_0"))
    page = visitors.come("/events?by=group&type=Freeze")
    expect(page.get_by_role("row", name="Group service/shop")).to_be_visible()
    expect(page.get_by_label("Choose all of Group service/shop")).to_be_hidden()
    page.get_by_label("Choose all on this page").check()
    expect(page.get_by_text(" chosen", exact=False).first).to_be_visible()
