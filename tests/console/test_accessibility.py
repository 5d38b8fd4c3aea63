"""Every page for everybody: axe finds nothing serious, in light and dark, wide and narrow."""

import json
from importlib.resources import files

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Visitors
from tests.support.node import Node

AXE = (files("axe_core_python") / "axe.min.js").read_text()
SERIOUS = ("serious", "critical")


ALL = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
CONTRAST = {"type": "rule", "values": ["color-contrast", "scrollable-region-focusable"]}
"""All that can differ on the same page in other colours and sizes."""


def found_by_axe(page: Page, rules: dict[str, object]) -> list[str]:
    """What axe finds serious, in short."""
    page.evaluate(AXE)
    run = "(rules) => axe.run(document, { resultTypes: ['violations'], runOnly: rules })"
    found = page.evaluate(run, rules)
    return [
        f"{one['id']}: {json.dumps([node['html'][:160] for node in one['nodes'][:3]])}"
        for one in found["violations"]
        if one["impact"] in SERIOUS
    ]


@pytest.mark.parametrize(("scheme", "width", "rules"), [("light", 1360, ALL), ("dark", 390, CONTRAST)])
def test_axe_finds_nothing_serious(
    node: Node, visitors: Visitors, scheme: str, width: int, rules: dict[str, object]
) -> None:
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
    paths += [f"/events/{event_id}", f"/events/{over}", "/maintenances", f"/maintenances/{plan}"]
    paths += ["/maintenances/new?on=scale-set%3Dworkers", "/hosts", "/hosts/host-2", "/audit", "/scenarios"]
    found: dict[str, list[str]] = {}
    for path in [*paths, "/scenarios/user-reboot"]:
        page.goto(visitors.origin + path)
        if "new" in path:
            expect(page.locator("#preview .bar").first).to_be_visible()
        if problems := found_by_axe(page, rules):
            found[path] = problems
    page.locator("summary.clock").click()
    found["menu"] = found_by_axe(page, rules)
    page.context.clear_cookies()
    page.goto(f"{visitors.origin}/sign-in")
    found["sign-in"] = found_by_axe(page, rules)
    assert {path: problems for path, problems in found.items() if problems} == {}


def test_a_narrow_page_does_not_scroll_sideways(visitors: Visitors) -> None:
    """On a phone the header takes less than an eighth of the screen, and nothing sticks out."""
    page = visitors.come(viewport={"width": 390, "height": 800})
    for path in ["/", "/vms/web-0", "/timeline", "/events", "/maintenances/new", "/hosts", "/audit", "/scenarios"]:
        page.goto(visitors.origin + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
    assert page.evaluate("document.querySelector('.top').offsetHeight") <= 100


def test_motion_is_spared_who_wants_none(node: Node, visitors: Visitors) -> None:
    """A cell that changes flashes, unless the system says otherwise."""
    page = visitors.come(reduced_motion="reduce")
    node.schedule("Reboot", "web-0")
    cell = page.locator('a.cell[data-vm="web-0"]')
    expect(cell).to_have_attribute("data-state", "scheduled")
    assert cell.evaluate("element => getComputedStyle(element).animationName") == "none"
