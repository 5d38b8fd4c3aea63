"""Makes the screenshots of the README: a demo fleet on a manual clock with something of everything going on.

    python tools/screenshots.py [FOLDER]

Needs Chromium (Debian package chromium).
"""

import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.console.conftest import FLEET as FLEET_FILE
from tests.console.conftest import QUIET
from tests.support.node import Node

ROOT = Path(__file__).resolve().parent.parent
SIZE = {"width": 1280, "height": 800}
FLEET = FLEET_FILE.read_text().replace("capacity = 10\n", "capacity = 60\n")


def main(folder: Path) -> None:
    """Two pictures: the fleet in light, the timeline in dark."""
    folder.mkdir(parents=True, exist_ok=True)
    with Node(FLEET) as node, sync_playwright() as playwright:
        _happen(node)
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=QUIET)
        for path, scheme, name in (("/", "light", "fleet"), ("/timeline?span=6h", "dark", "timeline")):
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
            _sign_in(page, node)
            page.goto(_origin(node) + path)
            page.wait_for_timeout(500)
            page.screenshot(path=folder / f"{name}.png")
            print(folder / f"{name}.png")
        browser.close()


def _happen(node: Node) -> None:
    node.enable("web-0", "db-0", "db-1", "batch_0", "workers_0", "FrontEnd_IN_0", "render-0")
    plan = {"on": ["set=web"], "type": "Reboot", "settle": "5m", "description": "Host server is getting a new kernel."}
    node.operate("/v1/maintenances", plan)
    node.advance("40m")
    for number in range(0, 60, 13):
        node.schedule("Redeploy", f"workers_{number}")
    node.schedule("Freeze", "FrontEnd_IN_0")
    node.operate("/v1/hosts/host-3/degrade", {"notice": "3h"})
    node.schedule("Reboot", "batch_3")
    node.advance("4m")
    node.approve("workers_0", node.schedule("Reboot", "workers_1"))
    node.operate("/v1/vms/db-0/restart")
    node.advance("2m")


def _sign_in(page: Page, node: Node) -> None:
    page.goto(_origin(node) + "/sign-in")
    page.get_by_label("Token").fill(node.token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(_origin(node) + "/")


def _origin(node: Node) -> str:
    return "http://{}:{}".format(*node.operator_address)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
