"""What makes the console complete: pages that fit a phone, errors in the frame, a beginning, tokens and scale sets."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import FLEET, Visitors
from tests.console.test_accessibility import found_by_axe
from tests.support.node import Node

NARROW = {"width": 320, "height": 800}
PATHS = ["/", "/?listens=false", "/groups/set/web", "/vms/web-0", "/timeline", "/events", "/maintenances",
         "/maintenances/new", "/hosts", "/hosts/host-1", "/scale-sets", "/subscriptions", "/tokens", "/fleet-file",
         "/scenarios", "/audit", "/nodes", "/nowhere"]  # fmt: skip
NEW = ("/?listens=false", "/scale-sets", "/tokens", "/fleet-file", "/nowhere")


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node for this file."""
    with Node(FLEET.read_text()) as running:
        running.enable("web-0", "workers_0")
        yield running


def test_every_page_fits_320_pixels(node: Node, visitors: Visitors) -> None:
    """Nothing sticks out; and axe finds nothing serious where no other test asks it."""
    visitors.allow(complaint="404")
    node.schedule("Reboot", "web-0")
    page = visitors.come(viewport=NARROW, color_scheme="dark", reduced_motion="reduce")
    wide = {}
    for path in PATHS:
        page.goto(visitors.origin + path)
        if (width := page.evaluate("document.documentElement.scrollWidth")) > 320:
            wide[path] = width
        if path in NEW:
            assert found_by_axe(page) == [], path
    assert wide == {}


def test_errors_keep_the_frame_and_speak_to_people(visitors: Visitors) -> None:
    """The menu stays, no number of HTTP is shown, and no call of the API is named."""
    visitors.allow(complaint="404|403")
    page = visitors.come("/nowhere")
    expect(page.get_by_role("heading", name="There is no such page.")).to_be_visible()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    page.goto(f"{visitors.origin}/vms/nobody")
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    for text in ("404", "/v1/", "GET "):
        expect(page.locator("#main")).not_to_contain_text(text)
    viewer = visitors.come("/maintenances/new", visitors.with_role("viewer"))
    expect(viewer.get_by_role("heading")).to_contain_text("may not plan a maintenance")
    expect(viewer.get_by_role("navigation", name="Main")).to_be_visible()


def test_a_vm_that_goes_while_somebody_looks_is_no_200(node: Node, visitors: Visitors) -> None:
    """The page says what happened."""
    page = visitors.come("/vms/batch_9")
    node.operate("/v1/vms/batch_9/delete")
    expect(page.locator("#main h1")).to_contain_text("batch_9")
    expect(page.locator("#main")).to_contain_text("There is no VM")
    expect(page.locator("#main")).not_to_contain_text("200")


def test_messages_go_away_and_what_failed_stays(visitors: Visitors) -> None:
    """Or when somebody closes them."""
    page = visitors.come("/vms/web-0")
    page.clock.install()
    page.get_by_role("button", name="Restart").click()
    said = page.locator("#said .note.good")
    expect(said).to_contain_text("asked to restart")
    page.clock.run_for(9000)
    expect(said).to_have_count(0)
    page.get_by_role("button", name="Restart").click()
    page.get_by_role("button", name="Close this message").click()
    expect(page.locator("#said .note")).to_have_count(0)


def test_a_token_is_created_used_and_revoked(visitors: Visitors) -> None:
    """Its secret is shown once; a viewer does not come here."""
    visitors.allow(complaint="403|401|400|422")
    page = visitors.come("/tokens")
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Role").select_option("operator")
    page.get_by_role("button", name="Create token").click()
    secret = str(page.locator("#secret").text_content())
    assert secret.startswith("dn_")
    ann = visitors.come("/", secret)
    expect(ann.locator(".who")).to_have_text("ann")
    page.goto(f"{visitors.origin}/tokens")
    assert secret not in page.content()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Revoke ann").click()
    expect(page.locator("tbody")).not_to_contain_text("ann")
    ann.goto(visitors.origin)
    expect(ann.get_by_label("Token")).to_be_visible()
    operator = visitors.come("/tokens", visitors.with_role("operator"))
    expect(operator.get_by_role("heading")).to_contain_text("this needs admin")


def card(page: Page, name: str) -> str:
    return str(page.locator(f"#scale-set-{name} p").first.text_content())


def test_a_scale_set_is_scaled_and_instances_are_deleted(node: Node, visitors: Visitors) -> None:
    """The answer says who was notified and who was not."""
    page = visitors.come("/scale-sets")
    assert "10 VMs" in card(page, "workers") and "would get no notice" not in card(page, "workers")
    page.locator("#scale-set-workers").get_by_label("Capacity").fill("12")
    page.get_by_role("button", name="Scale workers").click()
    expect(page.locator("#said")).to_contain_text("workers: 2 instances added.")
    page.locator("#scale-set-workers").get_by_label("Instances").fill("workers_3, workers_4")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete of workers").click()
    expect(page.locator("#said")).to_contain_text("2 instances notified before the end")
    page.locator("#scale-set-batch").get_by_label("Instances").fill("batch_1")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete of batch").click()
    expect(page.locator("#said")).to_contain_text("1 instance deleted at once, without notice")


def test_an_empty_fleet_helps_to_begin(browser: Browser, tmp_path: Path) -> None:
    """From the sample over what would change to a fleet, without a command line; a mistake keeps what was written."""
    with Node() as nobody:
        people = Visitors(browser, nobody)
        people.allow(complaint="422|400")
        page = people.come()
        expect(page.get_by_text("duenotice demo")).to_be_visible()
        page.get_by_role("link", name="Begin with a sample").click()
        page.get_by_role("button", name="See what would change").click()
        expect(page.locator("#would")).to_contain_text("14 VMs added")
        assert nobody.operate("/v1/fleet", method="GET")["vms"] == 0
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Apply").click()
        expect(page.locator("#said")).to_contain_text("14 VMs added")
        expect(page.locator('a.cell[data-vm="web-0"]')).to_be_visible()
        page.goto(f"{people.origin}/fleet-file")
        (tmp_path / "fleet.toml").write_text("[[vms]]\nnamee = 1\n")
        page.get_by_label("Choose a file").set_input_files(tmp_path / "fleet.toml")
        expect(page.locator("#toml")).to_have_value("[[vms]]\nnamee = 1\n")
        page.get_by_role("button", name="See what would change").click()
        expect(page.get_by_role("alert").filter(has_text="namee")).to_be_visible()
        expect(page.locator("#toml")).to_have_value("[[vms]]\nnamee = 1\n")
        assert people.leave() == []
