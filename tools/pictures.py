"""Makes the pictures of the documents: the console in a browser, and commands on a terminal, all from real output.

    python -m tools.pictures [FOLDER]

Needs Chromium (Debian package chromium-headless-shell), and network namespaces for `duenotice run`.
"""

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.text import Text

from tests.console.conftest import FLEET as FLEET_FILE
from tests.console.conftest import QUIET
from tests.support.cli import endpoint
from tests.support.node import Node
from tests.support.terminal import Terminal
from tools.site.check import BROWSERS

ROOT = Path(__file__).resolve().parents[1]
SIZE = {"width": 1280, "height": 800}
FLEET = FLEET_FILE.read_text().replace("capacity = 10\n", "capacity = 60\n")
PAGES = (
    ("fleet", "/", "light"),
    ("timeline", "/timeline?span=6h", "dark"),
    ("events", "/events", "light"),
    ("plan", "/maintenances", "dark"),
)
"""Name, address and colours of each picture of the console; of plans the newest is opened."""

AGENT = f"""#!/bin/sh
exec {sys.executable} {ROOT}/tests/testkit/clients/client.py errors 2>/dev/null
"""
"""A client with one mistake: it dies of an error."""

WIDTH = 100
"""Columns of the terminal, as tests.support.terminal has them."""
_TAKEN_BACK = re.compile(r"[^\n]*\x1b\[2K")
_OTHER_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\r")
_SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, Menlo, "DejaVu Sans Mono", monospace; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
<rect width="100%" height="100%" rx="10" fill="#292929"/>
<g transform="translate({terminal_x}, 20)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""One colour behind, and fonts that are there: the form that rich has asks another site for one."""


def main(folder: Path) -> None:
    """All pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with Node(FLEET) as node:
        happen(node)
        console(node, folder)
        for name, arguments in {
            "terminal-plan": ("maintenance", "show"),
            "terminal-events": ("events", "list"),
        }.items():
            terminal(folder / f"{name}.svg", arguments, DUENOTICE_ENDPOINT=endpoint(node), DUENOTICE_TOKEN=node.token)
    terminal(folder / "terminal-scenario.svg", ("scenario", "play", "spot-eviction", "--clock", "manual"))
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        agent = Path("my-agent")
        agent.write_text(AGENT)
        agent.chmod(0o755)
        terminal(
            folder / "terminal-run.svg", ("run", "--scenario", "own-events", "--scenario", "errors", "--", "./my-agent")
        )


def happen(node: Node) -> None:
    """Something of everything: a maintenance, events of all kinds, a host that may fail."""
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


def console(node: Node, folder: Path) -> None:
    """The pages of the console, each in its colours."""
    origin = endpoint(node)
    with sync_playwright() as playwright:
        browser_file = next(path for path in BROWSERS if Path(path).exists())
        browser = playwright.chromium.launch(executable_path=browser_file, args=QUIET)
        for name, path, scheme in PAGES:
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
            _sign_in(page, node)
            page.goto(origin + path)
            if name == "plan":
                page.get_by_role("link", name="Reboot of set/web").first.click()
            page.wait_for_timeout(500)
            page.screenshot(path=folder / f"{name}.png")
            print(folder / f"{name}.png")
        browser.close()


def _sign_in(page: Page, node: Node) -> None:
    page.goto(endpoint(node) + "/sign-in")
    page.get_by_label("Token").fill(node.token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(endpoint(node) + "/")


def terminal(path: Path, arguments: tuple[str, ...], **environment: str) -> None:
    """A command and what it prints on a terminal, as a drawing."""
    with Terminal(*arguments, **environment) as running:
        running.end()
        printed = running.raw.decode()
    path.write_text(drawn(f"$ duenotice {' '.join(arguments)}", printed, path.stem))
    print(path)


def drawn(command: str, printed: str, name: str) -> str:
    """The drawing: colours stay, what was erased again is gone, and what moves the cursor is left out."""
    paper = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    paper.print(Text(command, style="bold"))
    paper.print(Text.from_ansi(_OTHER_CONTROLS.sub("", _TAKEN_BACK.sub("", printed))), soft_wrap=False)
    return paper.export_svg(code_format=_SVG, unique_id=name)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
