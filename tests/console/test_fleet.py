"""The fleet page: every set with its update domains, each VM as a cell with its state, found, folded and opened."""

from playwright.sync_api import Browser, Locator, Page, expect

from tests.console.conftest import Visitors
from tests.support.node import Node


def cell(page: Page, vm: str) -> Locator:
    return page.locator(f'a.cell[data-vm="{vm}"]')


def tile(page: Page, state: str) -> Locator:
    return page.locator(f'.tile[data-state="{state}"] b')


def test_sets_have_their_update_domains_as_columns(page: Page) -> None:
    """A VM stands in the column of its update domain."""
    web = page.locator('[data-section="set/web"]')
    expect(web.get_by_role("heading", level=3)).to_have_text(["UD 0", "UD 1", "UD 2", "UD 3", "UD 4"])
    expect(web.locator(".column").nth(2).locator(".cell")).to_have_attribute("data-vm", "web-2")


def test_cells_take_the_colour_of_what_happens_without_a_reload(node: Node, page: Page) -> None:
    """Told, approved, hit, fine again, and the counts follow."""
    expect(tile(page, "fine")).to_have_text("272")
    event_id = node.schedule("Reboot", "web-0", duration=600)
    expect(cell(page, "web-0")).to_have_attribute("data-state", "scheduled")
    expect(cell(page, "web-0")).to_have_attribute("title", "web-0: Reboot, notified, waiting for its notice to end")
    expect(tile(page, "scheduled")).to_have_text("1")
    expect(page.locator("#coming li")).to_contain_text("web-0")
    node.operate(f"/v1/events/{event_id}/approve")
    expect(cell(page, "web-0")).to_have_attribute("data-state", "started")
    expect(tile(page, "started")).to_have_text("1")
    node.advance("1h")
    expect(cell(page, "web-0")).to_have_attribute("data-state", "fine")
    expect(tile(page, "fine")).to_have_text("272")
    expect(page.locator("#coming")).to_contain_text("Nothing is planned")


def test_vms_on_a_host_that_may_fail_are_seen(node: Node, page: Page) -> None:
    """They are told, and those whose move was called off are still on it."""
    events = node.operate("/v1/hosts/host-3/degrade", {"risk": "high"})
    expect(cell(page, "web-2")).to_have_attribute("data-state", "scheduled")
    (called_off,) = [event["id"] for event in events if event["resources"] == ["render-0"]]
    node.operate(f"/v1/events/{called_off}/cancel")
    expect(cell(page, "render-0")).to_have_attribute("data-state", "degraded")
    node.operate("/v1/hosts/host-3/repair")
    expect(cell(page, "web-2")).to_have_attribute("data-state", "fine")
    expect(cell(page, "render-0")).to_have_attribute("data-state", "fine")


def test_a_vm_that_is_gone_leaves_its_outline(node: Node, page: Page) -> None:
    """Until an hour has passed, for whoever was here and whoever comes."""
    node.enable("render-0")
    node.operate("/v1/vms/render-0/evict")
    node.advance("2m")
    expect(cell(page, "render-0")).to_have_attribute("data-state", "gone")
    page.reload()
    expect(cell(page, "render-0")).to_have_attribute("data-state", "gone")
    node.advance("2h")
    page.reload()
    expect(cell(page, "render-0")).to_have_count(0)


def test_an_aggregated_section_counts_and_shows_who_has_something_to_say(node: Node, page: Page) -> None:
    """250 VMs are bars; the one that is told is a cell, and the sum is right."""
    batch = page.locator('[data-section="scale-set/batch"]')
    expect(batch.locator(".cell")).to_have_count(0)
    node.enable("batch_3")
    node.schedule("Reboot", "batch_3")
    expect(batch.locator(".cell")).to_have_attribute("data-vm", "batch_3")
    expect(batch.locator("summary")).to_contain_text("1 scheduled")
    expect(tile(page, "scheduled")).to_have_text("1")
    batch.get_by_role("link", name="All 250 VMs").click()
    expect(page.locator("#main a.cell")).to_have_count(250)
    node.schedule("Reboot", "batch_4")
    expect(cell(page, "batch_4")).to_have_attribute("data-state", "scheduled")


def test_a_search_finds_vms_by_name_group_host_and_address(page: Page) -> None:
    """In the field of the page; the slash key is for the search of everything."""
    for text, found in {"web-3": 1, "shop": 3, "host-3": 2, "127.0.1.": 3, "nobody": 0}.items():
        page.get_by_role("searchbox").fill(text)
        page.keyboard.press("Enter")
        expect(page.locator(".found")).to_contain_text(f"{found} VM")
        expect(page.locator("#main a.cell")).to_have_count(found)
        page.get_by_role("link", name="Show all").click()
        expect(page.locator(".found")).to_have_count(0)
        page.wait_for_load_state("load")


def test_a_state_is_a_filter(node: Node, page: Page) -> None:
    """Its tile shows only the VMs in it, and follows what happens."""
    node.schedule("Reboot", "web-1")
    page.locator('.tile[data-state="scheduled"]').click()
    expect(page.locator("#main a.cell")).to_have_count(1)
    node.schedule("Reboot", "db-0")
    expect(page.locator("#main a.cell")).to_have_count(2)


def test_a_folded_section_stays_so(node: Node, page: Page) -> None:
    """Over changes and reloads."""
    web = page.locator('[data-section="set/web"]')
    web.locator("summary").click()
    expect(cell(page, "web-0")).to_be_hidden()
    node.schedule("Reboot", "web-0")
    expect(tile(page, "scheduled")).to_have_text("1")
    expect(cell(page, "web-0")).to_be_hidden()
    node.operate("/v1/scale-sets/workers/scale", {"by": 1})  # another fleet: all of the page is looked at again
    expect(cell(page, "workers_10")).to_be_visible()
    expect(cell(page, "web-0")).to_be_hidden()
    page.reload()
    expect(web).not_to_have_attribute("open", "")
    web.locator("summary").click()
    expect(cell(page, "web-0")).to_be_visible()


def test_a_vm_is_restarted_with_the_keyboard_alone(node: Node, page: Page) -> None:
    """From the fleet to the VM to its button, every step seen."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.vm") == "web-0":
            break
    expect(cell(page, "web-0")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="web-0")).to_be_visible()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Restart":
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="asked to restart")).to_be_visible()
    assert node.statuses("web-0") == ["Scheduled"]


def test_what_people_write_is_text_and_nothing_else(node: Node, visitors: Visitors) -> None:
    """A description with markup and scripts in it is shown as it is (S23)."""
    nasty = "<img src=x onerror=alert(1)>\"'><script>alert(2)</script>"
    event_id = node.schedule("Reboot", "web-0", description=nasty)
    page = visitors.come("/")
    page.on("dialog", lambda dialog: visitors.problems.append(dialog.message))
    for path in ("/", "/events", f"/events/{event_id}", "/vms/web-0", "/timeline", "/audit", "/?q=%3Cimg%20src=x%3E"):
        page.goto(visitors.origin + path)
        assert page.locator("main img, main script").count() == 0
    page.goto(f"{visitors.origin}/events/{event_id}")
    expect(page.locator(".lead")).to_have_text(nasty)
    assert nasty in str(page.locator("pre").text_content()).encode().decode("unicode_escape")


def test_an_empty_fleet_says_what_to_do(browser: Browser) -> None:
    """No VMs, no hosts, no events, no plans: each page has a word on it."""
    words = {"/": "There are no VMs yet", "/hosts": "No hosts are known", "/events": "Nothing is planned"}
    words |= {"/timeline": "Nothing happens", "/maintenances": "No maintenance was planned yet"}
    with Node() as nobody:
        people = Visitors(browser, nobody)
        page = people.come()
        for path, word in words.items():
            page.goto(people.origin + path)
            expect(page.get_by_text(word).first).to_be_visible()
        assert people.leave() == []


def test_dark_and_light_are_chosen_and_remembered(page: Page) -> None:
    """The system's choice until somebody makes another."""
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Light or dark").click()
    after = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    assert before != after == page.evaluate("getComputedStyle(document.body).backgroundColor")
