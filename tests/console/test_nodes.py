"""The page of nodes, of a service on its own; with several nodes it is in tests/acceptance/test_nodes_seen.py."""

from playwright.sync_api import expect

from tests.console.conftest import Visitors


def test_a_service_on_its_own_is_one_node_that_leads(visitors: Visitors) -> None:
    """The page says so, for a viewer too, and does not look again and again: nothing can change."""
    page = visitors.come("/nodes", token=visitors.with_role("viewer"))
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody .state")).to_have_text("leads")
    expect(page.get_by_text("This service is one node")).to_be_visible()
    expect(page.get_by_role("link", name="Nodes")).to_have_attribute("aria-current", "page")
    assert page.locator("main").get_attribute("data-every") == ""
