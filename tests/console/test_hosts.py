"""The pages of hosts: how each is, who runs there, draining, degrading, failing, repairing."""

from playwright.sync_api import expect

from duenotice.domain.commands import ReportHealth
from tests.console.conftest import Visitors
from tests.support.node import Node


def test_the_list_has_the_ill_first_and_follows(node: Node, visitors: Visitors) -> None:
    """A host that is degraded comes up without a reload."""
    page = visitors.come("/hosts")
    expect(page.locator("tbody tr").first).to_contain_text("host-1")
    node.operate("/v1/hosts/host-2/degrade", {"risk": "low"})
    expect(page.locator("tbody tr").first).to_contain_text("degraded")
    expect(page.locator("tbody tr").first).to_contain_text("host-2")


def test_a_host_is_predicted_to_fail_and_repaired(node: Node, visitors: Visitors) -> None:
    """Its VMs are told, and told that it is off."""
    page = visitors.come("/hosts/host-2")
    expect(page.locator("#main a.cell")).to_have_count(3)
    page.get_by_role("button", name="Mark degraded (may fail in 1 day)").click()
    expect(page.locator(".head .state")).to_have_text("degraded")
    expect(page.locator('a.cell[data-state="scheduled"]')).to_have_count(3)
    page.get_by_role("button", name="Mark repaired").click()
    expect(page.locator(".head .state")).to_have_text("healthy")
    expect(page.locator('a.cell[data-state="fine"]')).to_have_count(3)


def test_a_host_that_a_vm_reports_is_suspect_and_its_page_says_what_is_wrong(node: Node, visitors: Visitors) -> None:
    """M17: the page follows, and an operator who has looked says that it is healthy."""
    page = visitors.come("/hosts/host-1")
    report = ReportHealth("r-1", "web-0", "Resource.Hpc.Unhealthy.MissingIB", "<b>no port</b>", node.now(), "seed")

    async def reported() -> None:
        await node.service.engine.submit(report, "token/watcher")

    node.run(reported())
    expect(page.locator(".head .state")).to_have_text("suspect")
    expect(page.locator("#reports tbody tr")).to_contain_text("Resource.Hpc.Unhealthy.MissingIB<b>no port</b>")
    page.get_by_role("button", name="Mark healthy").click()
    expect(page.locator(".head .state")).to_have_text("healthy")
    expect(page.locator("#reports")).to_have_count(0)


def test_a_host_fails(node: Node, visitors: Visitors) -> None:
    """Its VMs are hit at once, after a question."""
    page = visitors.come("/hosts/host-1")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Mark failed").click()
    expect(page.locator(".head .state")).to_have_text("failed")
    expect(page.locator('a.cell[data-vm="web-0"]')).to_have_attribute("data-state", "started")


def test_draining_a_host_is_a_maintenance(node: Node, visitors: Visitors) -> None:
    """Its page follows."""
    page = visitors.come("/hosts/host-1")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Drain").click()
    expect(page.get_by_role("status").filter(has_text="host-1 is being drained.")).to_be_visible()
    assert "/maintenances/" in page.url
    expect(page.get_by_role("heading", level=1)).to_contain_text("Drain host-1")
