"""S28 beyond the command line: logs of the service and of the agent, reports, and the pages of the console."""

import http.client
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import DEMO
from tests.agent.machine import Machine
from tests.agent.test_evil import document
from tests.support.cli import duenotice
from tests.support.evil import EvilServer, json_answer
from tests.support.node import Node, Outside
from tests.support.poison import MARKUP, RAW, WIRE
from tests.support.terminal import Terminal

ESC = "\\u001b]0;owned"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Shown(Outside):
    """The node that runs on a terminal."""

    def __init__(self, terminal: Terminal, data_dir: Path) -> None:
        self._terminal = terminal
        self.metadata_address, self.operator_address = self._at("metadata"), self._at("operator")
        self.token = (data_dir / "admin.token").read_text().strip()

    def _at(self, door: str) -> tuple[str, int]:
        found = re.search(rf"{door}=http://([0-9.]+):([0-9]+)", self._terminal.shown)
        assert found is not None
        return found[1], int(found[2])


def impact(tmp_path: Path) -> Path:
    """A command that fails, and says something hostile on the way."""
    script = tmp_path / "impact"
    script.write_text(f"#!{sys.executable} -IS\nimport sys\nprint({WIRE!r})\nsys.exit(1)\n")
    script.chmod(0o755)
    return script


def fail_an_impact(node: Outside) -> None:
    """An event with a hostile description whose command fails, and one that is cancelled for a hostile reason."""
    node.enable("127.0.0.1")
    event_id = node.schedule("Freeze", "me", description=WIRE)
    node.operate(f"/v1/events/{event_id}/approve")
    other = node.schedule("Reboot", "me", description=WIRE)
    node.operate(f"/v1/events/{other}/cancel", {"reason": WIRE})


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_the_log_of_the_service_has_what_a_command_said_escaped(tmp_path: Path, log_format: str):
    """The last words of an impact command and the reason of a cancellation; colours are ours alone."""
    flags = {
        "fleet": DEMO, "data-dir": tmp_path / "data", "clock": "manual", "metadata-listen": "127.0.0.1:0",
        "operator-listen": "127.0.0.1:0", "impact": "command", "impact-command": impact(tmp_path),
        "impact-attempts": 1, "log-format": log_format,
    }  # fmt: skip
    with Terminal("serve", *(f"--{name}={value}" for name, value in flags.items())) as terminal:
        terminal.wait_for("Try, in another terminal")
        shown = terminal.shown.replace('"metadata": "', "metadata=").replace('"operator": "', "operator=")
        terminal.shown = shown
        fail_an_impact(Shown(terminal, tmp_path / "data"))
        terminal.wait_for("event failed")
        terminal.wait_for("event cancelled")
    raw = COLOUR.sub("", terminal.raw.decode()).replace("\r\n", "\n")
    assert RAW.findall(raw) == []
    assert (raw.count(ESC) >= 2, MARKUP in raw) == (True, True)
    lines = [line for line in raw.splitlines() if log_format == "json" and line.startswith("{")]
    reasons = [entry["reason"] for line in lines if "reason" in (entry := json.loads(line))]
    assert log_format == "console" or WIRE in reasons


LIBRARY = """
import logging
from duenotice.bootstrap.logs import configure
configure({form!r})
try:
    raise ValueError({text!r})
except ValueError:
    logging.getLogger("asyncio").exception({text!r})
"""


@pytest.mark.parametrize("form", ["console", "json"])
def test_what_a_library_logs_is_a_line_of_ours(form: str):
    """An exception that nobody expected may have any text in it, and its stack is not lost."""
    code = LIBRARY.format(form=form, text=WIRE)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    shown = COLOUR.sub("", done.stderr)
    assert (RAW.findall(shown), "Traceback" in shown, shown.count(ESC) >= 2) == ([], True, True)


def test_the_agent_shows_a_hostile_event_escaped(tmp_path: Path):
    """In its log, and in every form of its status; as JSON it is what the service said."""
    hostile = document(Description=WIRE, EventType=f"Odd{WIRE}", Resources=["vm-0", WIRE], EventSource=WIRE)
    more = '[handlers.note]\nkind = "log"\nto = "stderr"\n'
    server = EvilServer(json_answer(hostile))
    with server, Machine(tmp_path / "vm", server.endpoint, "127.0.0.1", "never", more, name="vm-0") as agent:
        agent.start()
        agent.until(lambda: "prepared" in agent.whats)
        files = ["--config", str(agent.folder / "agent.toml"), "--state-dir", str(agent.state)]
        shown = {form: duenotice(None, "agent", "status", *files, "-o", form) for form in ("table", "json", "yaml")}
        log = agent.log
    assert RAW.findall(log) == []
    assert WIRE in [name for line in log.splitlines() for name in json.loads(line).get("resources", ())]
    for done in shown.values():
        assert RAW.findall(done.out + done.err) == []
        assert ESC in done.out
    (case,) = json.loads(shown["json"].out)["events"]
    assert (case["description"], case["resources"]) == (WIRE, ["vm-0", WIRE])


def pages(node: Node) -> list[str]:
    """Every page that has something to say of an event, a plan, a failure or a record."""
    node.enable("web-0", "db-0")
    told: dict[str, Any] = {"description": WIRE}
    event = node.schedule("Freeze", "db-0", **told)
    over = node.schedule("Reboot", "db-0", **told)
    node.operate(f"/v1/events/{over}/cancel", {"reason": WIRE})
    plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot", **told})["id"]
    return [
        f"/events/{event}", f"/events/{over}", "/events", "/timeline", "/timeline?by=host", f"/maintenances/{plan}",
        "/maintenances", "/vms/db-0", "/audit", "/", "/groups/set/web",
    ]  # fmt: skip


SILENT = {"/", "/groups/set/web", "/events"}
"""Pages that show names alone."""


def page(node: Node, path: str) -> str:
    """A page of the console as it comes."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=30)
    try:
        connection.request("GET", path, headers={"Cookie": node.cookie()})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        return answer.read().decode()
    finally:
        connection.close()


def test_no_page_of_the_console_hides_or_turns_around_a_text(node: Node):
    """In text, in attributes and in pictures."""
    for path in pages(node):
        html = page(node, path)
        assert (path, RAW.findall(html)) == (path, [])
        assert path in SILENT or "u001b]0;owned" in html, path
