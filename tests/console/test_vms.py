"""The page of a VM: what it would receive, when it was last seen, and what can be done to it."""

from playwright.sync_api import Browser, Dialog, expect

from tests.console.conftest import FLEET, Visitors
from tests.support.node import Node


def accept(dialog: Dialog) -> None:
    dialog.accept()


def test_it_shows_what_the_vm_would_receive_now(node: Node, visitors: Visitors) -> None:
    """Byte for byte, and again when that changes."""
    page = visitors.come("/vms/web-1")
    node.schedule("Reboot", "web-0")
    expect(page.locator("pre")).to_contain_text("Reboot")
    assert str(page.locator("pre").text_content()).encode() == node.get("web-1").body


def test_it_tells_whether_anybody_listens_and_when_it_was_last_seen(node: Node, visitors: Visitors) -> None:
    """A VM that never asked would get no notice."""
    page = visitors.come("/vms/db-1")
    expect(page.get_by_text("so it would get no notice")).to_be_visible()
    expect(page.get_by_text("not since the service started")).to_be_visible()
    node.enable("db-1")
    expect(page.get_by_text("listens: its VMs ask for events")).to_be_visible()
    expect(page.locator("dd").first).to_contain_text("ago")


def test_restart_and_redeploy(node: Node, visitors: Visitors) -> None:
    """Each raises an event of its type, and the page says so."""
    page = visitors.come("/vms/web-0")
    page.get_by_role("button", name="Restart").click()
    expect(page.get_by_role("status").filter(has_text="web-0 is asked to restart.")).to_be_visible()
    assert node.event("web-0")["EventType"] == "Reboot"
    page.goto(f"{visitors.origin}/vms/db-0")
    page.once("dialog", accept)
    page.get_by_role("button", name="Redeploy").click()
    expect(page.locator(".head .state")).to_have_text("scheduled")
    assert node.event("db-0")["EventType"] == "Redeploy"


def test_a_spot_vm_is_evicted_and_any_other_deleted(node: Node, visitors: Visitors) -> None:
    """Each VM has the button that it can have."""
    node.enable("render-0")
    page = visitors.come("/vms/render-0")
    assert page.get_by_role("button", name="Delete").count() == 0
    page.once("dialog", accept)
    page.get_by_role("button", name="Evict").click()
    expect(page.locator(".coming")).to_contain_text("Preempt")
    page.goto(f"{visitors.origin}/vms/workers_0")
    assert page.get_by_role("button", name="Evict").count() == 0
    page.once("dialog", accept)
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("status").filter(has_text="was deleted at once, without notice")).to_be_visible()


def test_a_vm_whose_host_is_ill_says_so(node: Node, visitors: Visitors) -> None:
    """With a way to the host."""
    page = visitors.come("/vms/web-2")
    node.operate("/v1/hosts/host-3/degrade", {"risk": "low"})
    note = page.locator(".note.warn")
    expect(note).to_contain_text("host-3 is degraded")
    note.get_by_role("link").click()
    expect(page.get_by_role("heading", name="host-3")).to_be_visible()


def test_what_is_over_stays_in_sight(node: Node, visitors: Visitors) -> None:
    """The last events of a VM are listed below those to come."""
    node.operate(f"/v1/events/{node.schedule('Reboot', 'web-0')}/cancel")
    page = visitors.come("/vms/web-0")
    expect(page.locator(".coming.past li")).to_contain_text("cancelled")


def test_a_spot_vm_is_advised_to_move_where_the_service_gives_advice(browser: Browser, visitors: Visitors) -> None:
    """A button raises it, its page says that it is not a deadline, another button withdraws it; nobody approves it."""
    page = visitors.come("/vms/render-0")
    expect(page.get_by_role("button", name="Evict")).to_be_visible()
    expect(page.get_by_role("button", name="Advise to move")).to_have_count(0)
    with Node(FLEET.read_text(), spot_rebalance=True) as giving:
        people = Visitors(browser, giving)
        page = people.come("/vms/render-0")
        page.get_by_role("button", name="Advise to move").click()
        page.get_by_role("link", name="SpotRebalanceRecommendation").click()
        expect(page.get_by_text("Advice is not a deadline")).to_be_visible()
        expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        page.once("dialog", accept)
        page.get_by_role("button", name="Withdraw").click()
        expect(page.locator(".head .state")).to_have_text("cancelled")
        assert people.leave() == []
