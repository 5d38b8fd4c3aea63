"""The pages of subscriptions: subscribe, see the secret once, pause, resume, replay, delete."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.console.conftest import FLEET, Visitors
from tests.support.node import Node
from tests.support.push_receiver import PushReceiver
from tests.support.served import wait_until


@pytest.fixture
def node() -> Iterator[Node]:
    """A node that may push to this machine."""
    with Node(FLEET.read_text(), push_allow="127.0.0.0/8", push_retry_after=0.02) as running:
        running.enable("web-0", "db-0")
        yield running


def test_a_subscription_is_made_and_its_secret_shown_once(node: Node, visitors: Visitors) -> None:
    """The list follows what the receiver says; the secret is on no other page."""
    with PushReceiver() as receiver:
        page = visitors.come("/subscriptions")
        expect(page.locator("#main")).to_contain_text("Nobody has subscribed yet")
        page.get_by_label("URL of the receiver").fill(receiver.url)
        page.get_by_label("Types, or all").fill("Reboot, Freeze")
        page.get_by_role("button", name="Subscribe").click()
        secret = page.locator("#secret").inner_text()
        assert len(secret) > 20
        node.schedule("Reboot", "web-0")
        receiver.wait(lambda: receiver.taken and receiver.taken[0].is_signed(secret))
        page.goto(visitors.origin + "/subscriptions")
        row = page.locator("tbody tr")
        expect(row).to_contain_text("active")
        expect(row).to_contain_text("Reboot, Freeze")
        assert secret not in page.content() and "code=hidden" not in page.content()


def test_a_url_that_is_not_allowed_is_refused_with_the_reason(node: Node, visitors: Visitors) -> None:
    """The page of the subscription follows; what cannot be read keeps the form filled in."""
    visitors.allow(complaint="400")
    page = visitors.come("/subscriptions")
    page.get_by_label("URL of the receiver").fill("http://user@host/")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.get_by_role("alert").filter(has_text="not a plain http")).to_be_visible()
    page.get_by_label("URL of the receiver").fill("http://169.254.169.254/")
    page.get_by_role("button", name="Subscribe").click()
    page.locator("#made a").click()
    expect(page.locator(".head .state")).to_have_text("refused")
    expect(page.locator("#main")).to_contain_text("169.254.169.254 is link-local, and messages may not go there.")


def test_it_is_paused_resumed_replayed_and_deleted(node: Node, visitors: Visitors) -> None:
    """What was set aside is listed with the reason, and delivered when it is asked for."""
    with PushReceiver() as receiver:
        receiver.answer = lambda _: 503
        made = node.operate("/v1/subscriptions", {"url": receiver.url, "format": "cloudevents"})["id"]
        event_id = node.schedule("Reboot", "web-0")
        receiver.wait(lambda: receiver.deliveries)
        node.advance("25h")
        wait_until(lambda: node.run(node.service.pusher.flush()) or _aside(node, made))
        page = visitors.come(f"/subscriptions/{made}")
        expect(page.locator("tbody tr").first).to_contain_text("The receiver answered 503.")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".head .state")).to_have_text("paused")
        receiver.answer = lambda _: 200
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(".head .state")).to_have_text("active")
        page.get_by_role("button", name="Deliver the dead letters again").click()
        receiver.wait(lambda: "Scheduled" in receiver.statuses(event_id))
        expect(page.locator("#main")).to_contain_text("Nothing was given up.")
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Delete").click()
        expect(page.locator("#main")).to_contain_text("Nobody has subscribed yet")


def _aside(node: Node, which: str) -> int:
    with node.client() as client:
        return client.subscription(which).dead_letters


def test_a_viewer_has_no_buttons(node: Node, visitors: Visitors) -> None:
    """But sees all of it."""
    made = node.operate("/v1/subscriptions", {"url": "http://127.0.0.1:9/", "format": "cloudevents"})["id"]
    page = visitors.come("/subscriptions", token=visitors.with_role("viewer"))
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Subscribe")).to_have_count(0)
    page.goto(f"{visitors.origin}/subscriptions/{made}")
    expect(page.locator(".acts")).to_have_count(0)
