"""The pages of events: the life of one, who is hit and told, what VMs read, approving and cancelling."""

import json

from playwright.sync_api import expect

from tests.console.conftest import Visitors
from tests.support.node import Node
from tests.support.poison import RAW, WIRE

CLIPBOARD = ["clipboard-read", "clipboard-write"]
VERSIONS = ["2020-07-01", "2019-08-01", "2019-04-01", "2019-01-01", "2017-11-01", "2017-08-01", "2017-03-01"]


def test_the_life_of_an_event_is_a_track_that_goes_on_by_itself(node: Node, visitors: Visitors) -> None:
    """Told, approved by whom, started, over; and a countdown while it waits."""
    event_id = node.schedule("Reboot", "web-0", description="New kernel")
    page = visitors.come(f"/events/{event_id}")
    track = page.locator(".track li")
    expect(track.nth(0)).to_have_class("done")
    expect(page.locator(".big")).to_have_text("in 15m")
    node.advance("5m")
    expect(page.locator(".big")).to_have_text("in 10m")
    node.approve("web-0", event_id)
    expect(track.nth(1)).to_contain_text("by vm/web-0")
    expect(track.nth(3)).to_have_class("done")
    node.advance("2h")
    expect(track.nth(4)).to_contain_text("Completed")
    expect(page.get_by_text("It is over: it is no longer in the document of its VMs")).to_be_visible()
    actions = page.locator("section", has_text="What happened").locator("tbody td:nth-child(2)")
    expect(actions).to_have_text(["event-raised", "event-approved", "event-started", "event-completed"])


def test_hit_and_told_are_two_lists(node: Node, visitors: Visitors) -> None:
    """One VM is hit, its whole set is told; of a scale set only the placement group."""
    node.enable("batch_0")
    page = visitors.come(f"/events/{node.schedule('Reboot', 'web-0')}")
    names = page.locator("p.names")
    expect(names.nth(0).get_by_role("link")).to_have_text(["web-0"])
    expect(names.nth(1).get_by_role("link")).to_have_text([f"web-{number}" for number in range(5)])
    page.goto(f"{visitors.origin}/events/{node.schedule('Reboot', 'batch_0')}")
    expect(page.get_by_text("100 VMs of scale-set/batch/0")).to_be_visible()


def test_the_document_of_each_version_is_there_byte_for_byte(node: Node, visitors: Visitors) -> None:
    """As the VM gets it, and prettier for who wants to read it."""
    event_id = node.schedule("Freeze", "web-0")
    page = visitors.come(f"/events/{event_id}")
    for version in VERSIONS:
        page.get_by_role("link", name=version, exact=True).click()
        expect(page.locator("pre")).to_have_attribute("aria-label", f"The document for web-0, api-version {version}")
        assert str(page.locator("pre").text_content()).encode() == node.get("web-0", version).body
    page.wait_for_load_state("load")
    page.get_by_role("button", name="Pretty").click()
    expect(page.locator("pre")).to_contain_text('\n  "DocumentIncarnation"')
    page.get_by_role("button", name="Pretty").click()
    assert str(page.locator("pre").text_content()).encode() == node.get("web-0", VERSIONS[-1]).body


def test_a_curl_line_can_be_copied(node: Node, visitors: Visitors) -> None:
    """It asks as a VM would, for the version that is shown; the button says that it was copied."""
    event_id = node.schedule("Reboot", "web-0")
    page = visitors.come(f"/events/{event_id}?api-version=2019-08-01", permissions=CLIPBOARD)
    line = page.locator(".curl").first
    line.get_by_role("button").click()
    expect(line.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == (
        f"curl --interface 127.0.2.1 -H Metadata:true 'http://127.0.0.1:{node.metadata_address[1]}"
        "/metadata/scheduledevents?api-version=2019-08-01'"
    )
    expect(line.get_by_role("button")).to_have_text("Copy")
    assert f'{{"StartRequests":[{{"EventId":"{event_id}"}}]}}' in str(page.locator(".curl code").nth(1).text_content())


def test_an_event_is_approved_with_a_button(node: Node, visitors: Visitors) -> None:
    """It starts at once, and says who let it."""
    page = visitors.come(f"/events/{node.schedule('Reboot', 'web-0')}")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Approved: it starts now.")).to_be_visible()
    expect(page.locator(".track li").nth(1)).to_contain_text("by token/admin")
    assert node.statuses("web-0") == ["Started"]


def test_an_event_is_cancelled_with_a_button_after_a_question(node: Node, visitors: Visitors) -> None:
    """Who says no has changed nothing."""
    page = visitors.come(f"/events/{node.schedule('Reboot', 'web-0')}")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Cancel event").click()
    assert node.statuses("web-0") == ["Scheduled"]
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel event").click()
    expect(page.locator(".head .state")).to_have_text("cancelled")
    assert node.statuses("web-0") == []


def test_the_list_has_what_lives_and_what_is_over(node: Node, visitors: Visitors) -> None:
    """An event moves from one table to the other while somebody looks."""
    page = visitors.come("/events")
    event_id = node.schedule("Redeploy", "web-0")
    row = page.locator(f"#event-{event_id}")
    expect(row).to_contain_text("in 10m")
    node.operate(f"/v1/events/{event_id}/cancel")
    expect(row).to_have_count(0)
    expect(page.locator(f"#over-{event_id}")).to_contain_text("cancelled")


def test_who_is_hit_now_stands_first(node: Node, visitors: Visitors) -> None:
    """Then the soonest, and VMs of the same moment by name as people count."""
    node.enable("batch_3")
    for name in ("batch_10", "batch_3"):
        node.schedule("Redeploy", name)
    late = node.schedule("Freeze", "web-0")
    node.operate(f"/v1/events/{late}/approve")
    page = visitors.come("/events")
    expect(page.locator("tbody").first.locator("td.vms")).to_have_text(["web-0", "batch_3", "batch_10"])


def test_a_refusal_is_shown_in_the_words_of_the_service(node: Node, visitors: Visitors) -> None:
    """Approving what has started meanwhile elsewhere, say."""
    event_id = node.schedule("Reboot", "web-0")
    page = visitors.come(f"/events/{event_id}")
    page.evaluate("document.getElementById('main').dataset.live = ''")
    node.operate(f"/v1/events/{event_id}/cancel")
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel event").click()
    expect(page.get_by_role("alert").filter(has_text="There is no event")).to_be_visible()


def test_nothing_in_a_document_is_hidden_or_turned_around(node: Node, visitors: Visitors) -> None:
    """What browsers draw as nothing, or backwards, is escaped in both forms, and the JSON is the same (S28)."""
    page = visitors.come(f"/events/{node.schedule('Freeze', 'web-0', description=WIRE)}")
    shown = page.locator("pre")
    exact = str(shown.text_content())
    page.get_by_role("button", name="Pretty").click()
    expect(shown).to_contain_text("\n  ")
    pretty = str(shown.text_content())
    assert (RAW.findall(exact), RAW.findall(pretty)) == ([], [])
    assert json.loads(exact) == json.loads(pretty) == node.document("web-0")
    page.goto(f"{visitors.origin}/timeline")
    page.locator(".bar").first.focus()
    expect(page.locator("#says")).to_contain_text("\\u202eeurt")
    assert RAW.findall(str(page.locator("#says").text_content())) == []


def test_an_event_that_waits_for_others_on_its_host_names_them(node: Node, visitors: Visitors) -> None:
    """So does its maintenance (C07); on a phone nothing sticks out."""
    node.enable("me")
    plan = node.operate("/v1/maintenances", {"on": ["host=host-1"], "type": "Freeze", "consent": "host"})
    event = next(each for each in node.operate("/v1/events", method="GET") if each["resources"] == ["db-0"])
    node.approve("db-0", event["id"])
    page = visitors.come(f"/events/{event['id']}", viewport={"width": 390, "height": 800})
    expect(page.get_by_text("Awaited: set/web, vm/me.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto(f"{visitors.origin}/maintenances/{plan['id']}")
    expect(page.get_by_text("of all scopes on a host · awaited: set/web, vm/me")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
