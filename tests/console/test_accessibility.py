"""Every page for everybody: axe finds nothing serious, in light and dark, wide and narrow."""

import json
from importlib.resources import files

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import Visitors
from tests.support.node import Node

AXE = (files("axe_core_python") / "axe.min.js").read_text()
SERIOUS = ("serious", "critical")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
LOOKS = pytest.mark.parametrize(
    ("scheme", "width"), [pytest.param("light", 1360, marks=pytest.mark.soak), ("dark", 390)]
)


def found_by_axe(page: Page) -> list[str]:
    """What axe finds serious, in short."""
    page.evaluate(AXE)
    options = "{ resultTypes: ['violations'], runOnly: rules, preload: false }"
    found = page.evaluate(f"async (rules) => (await axe.run(document, {options})).violations", RULES)
    return [
        f"{one['id']}: {json.dumps([node['html'][:160] for node in one['nodes'][:3]])}"
        for one in found
        if one["impact"] in SERIOUS
    ]


def look_at(page: Page, origin: str, paths: list[str]) -> dict[str, list[str]]:
    """What axe finds on some pages, those where it finds anything."""
    found: dict[str, list[str]] = {}
    for path in paths:
        page.goto(origin + path)
        if path.startswith("/maintenances/new?"):
            expect(page.locator("#preview .bar").first).to_be_visible()
        found[path] = found_by_axe(page)
    return {path: problems for path, problems in found.items() if problems}


@LOOKS
def test_axe_finds_nothing_serious(node: Node, visitors: Visitors, scheme: str, width: int) -> None:
    """On any page, with something of everything on it."""
    node.enable("batch_3", "render-0")
    event_id, over = node.schedule("Reboot", "web-0"), node.schedule("Freeze", "db-0")
    node.operate(f"/v1/events/{over}/cancel")
    node.schedule("Reboot", "batch_3")
    node.operate("/v1/hosts/host-2/degrade", {"risk": "low"})
    plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", "settle": "5m"})["id"]
    node.operate("/v1/vms/render-0/evict")
    node.advance("2m")
    page = visitors.come(color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce")
    paths = ["/", "/?q=web", "/groups/set/web", "/vms/web-0", "/timeline", "/timeline?by=host", "/events"]
    paths += [
        f"/events/{event_id}",
        f"/events/{over}",
        "/maintenances",
        f"/maintenances/{plan}",
        "/maintenances/calendar",
    ]
    paths += ["/maintenances/new?on=scale-set%3Dworkers", "/hosts", "/hosts/host-2", "/audit", "/history", "/nodes"]
    paths += ["/scenarios"]
    made = node.operate("/v1/subscriptions", {"url": "http://127.0.0.1:9/", "format": "eventgrid"})["id"]
    paths += ["/subscriptions", f"/subscriptions/{made}"]
    assert look_at(page, visitors.origin, [*paths, "/scenarios/user-reboot"]) == {}
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".head .state")).to_have_text("passed")
    assert found_by_axe(page) == [], "a play"
    page.locator("summary.clock").click()
    assert found_by_axe(page) == [], "a menu"


@LOOKS
def test_axe_finds_nothing_serious_where_there_is_nothing(browser: Browser, scheme: str, width: int) -> None:
    """An empty service, pages that are not there, and the form to sign in."""
    with Node() as node:
        people = Visitors(browser, node)
        people.allow(complaint="404")
        page = people.come(color_scheme=scheme, viewport={"width": width, "height": 800})
        paths = ["/", "/timeline", "/events", "/maintenances", "/maintenances/new", "/hosts", "/vms/nobody", "/nowhere"]
        paths += ["/maintenances/calendar", "/history"]
        assert look_at(page, people.origin, paths) == {}
        page.context.clear_cookies()
        assert look_at(page, people.origin, ["/sign-in"]) == {}
        assert people.leave() == []


def test_a_narrow_page_does_not_scroll_sideways(visitors: Visitors) -> None:
    """On a phone the header takes less than an eighth of the screen, and nothing sticks out."""
    page = visitors.come(viewport={"width": 390, "height": 800})
    paths = ["/", "/vms/web-0", "/timeline", "/events", "/maintenances/new", "/hosts", "/audit", "/scenarios", "/nodes"]
    for path in paths:
        page.goto(visitors.origin + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    assert page.evaluate("document.querySelector('.top').offsetHeight") <= 100
    expect(page.get_by_role("link", name="Scenarios")).to_be_in_viewport(ratio=1)


def test_motion_is_spared_who_wants_none(node: Node, visitors: Visitors) -> None:
    """A cell that changes flashes, unless the system says otherwise."""
    page = visitors.come(reduced_motion="reduce")
    node.schedule("Reboot", "web-0")
    cell = page.locator('a.cell[data-vm="web-0"]')
    expect(cell).to_have_attribute("data-state", "scheduled")
    assert cell.evaluate("element => getComputedStyle(element).animationName") == "none"
