"""Scenarios: a list, a story, and a play that is followed to its verdict."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from duenotice.scenarios.scenario import shipped_names
from tests.console.conftest import FLEET, Visitors
from tests.support.node import Node


def test_all_scenarios_are_there(visitors: Visitors) -> None:
    """Each with its steps and its cast."""
    page = visitors.come("/scenarios")
    expect(page.locator(".cards > li")).to_have_count(len(shipped_names()))
    page.get_by_role("link", name="A user restarts a VM, and the VM is ready early").click()
    expect(page.locator(".steps li").first).to_be_visible()
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_a_play_is_followed_to_its_verdict(visitors: Visitors) -> None:
    """Each step turns as it is done; the last word is that it passed."""
    page = visitors.come("/scenarios/user-reboot")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".head .state")).to_have_text("passed")
    expect(page.locator('.steps li:not([data-step="passed"])')).to_have_count(0)
    page.goto(f"{visitors.origin}/scenarios")
    expect(page.locator("tbody tr")).to_contain_text("passed")


def test_a_cast_that_does_not_fit_is_refused(visitors: Visitors) -> None:
    """With the reason."""
    page = visitors.come("/scenarios/user-reboot")
    page.get_by_label("vm", exact=False).first.fill("nobody")
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".head .state")).to_have_text("refused")
    expect(page.locator(".note.bad")).to_contain_text("nobody")
    page.get_by_role("link", name="Choose another cast").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_a_play_takes_its_time_and_can_be_stopped(browser: Browser) -> None:
    """On a clock that runs by itself one sees it wait; only one is played at a time."""
    with Node(Path(FLEET).read_text(), clock="60x") as node:
        people = Visitors(browser, node)
        page = people.come("/scenarios/host-maintenance")
        page.get_by_role("button", name="Play").click()
        expect(page.locator('[data-step="running"] [data-countdown]')).to_be_visible()
        other = people.come("/scenarios/user-reboot")
        other.get_by_role("button", name="Play").click()
        expect(other.get_by_role("alert").filter(has_text="is being played")).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".head .state")).to_have_text("stopped")
        assert people.leave() == []


def test_nothing_is_played_on_a_real_clock(browser: Browser) -> None:
    """No button, and posting it anyway is refused."""
    with Node(Path(FLEET).read_text(), clock="real") as node:
        people = Visitors(browser, node)
        page = people.come("/scenarios")
        expect(page.get_by_text("The clock here is real")).to_be_visible()
        assert page.get_by_role("button", name="Play").count() == 0
        answer = page.request.post(f"{people.origin}/scenarios/user-reboot")
        assert answer.status == 409
        assert page.locator("summary.clock").count() == 0
        assert people.leave() == []
