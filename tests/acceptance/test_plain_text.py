"""S28: a text from outside reaches a terminal, a log or a page only with its control characters escaped."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duenotice.cli.main import main
from tests.acceptance.conftest import DEMO
from tests.acceptance.test_cli_shapes import LINES
from tests.support.cli import Done, duenotice
from tests.support.node import Node
from tests.support.poison import MARKUP, RAW, WIRE, Poisoned, poisoned
from tests.support.terminal import Terminal

ESC = "\\u001b]0;owned"
"""How the worst of it looks when it is shown."""

VIEWS = {view: line for view, line in LINES.items() if view != "host repair"} | {
    "scale-set list": "scale-set list",
    "scale-set scale": "scale-set scale workers --by 1",
    "events report": "events report {started} --failure x",
    "document": "document db-0",
    "fleet apply": "fleet apply {fleet}",
    "scenario list": "scenario list",
    "scenario show": "scenario show user-reboot",
    "not found": "vm show nix",
    "refused": "events schedule web-0 web-1 --type Reboot",
}
LISTS = {"vm list", "events list", "maintenance list", "audit", "events history", "token list", "host list"}
CASES = [(view, output) for view in VIEWS for output in ("table", "json", "jsonl", "yaml", "name")
         if view in LISTS or output in ("table", "json", "yaml")]  # fmt: skip
OURS = {"clock show", "clock advance", "scenario list", "scenario show"}
"""Views in which no text is from outside."""

NOTHING_TO_SAY = {"maintenance list": ("name", "table")}
"""Forms in which a view has none; most have none when they only list ids."""

PATHS = {
    "events list": "events",
    "maintenance list": "maintenances",
    "vm list": "vms?group=set/web",
    "audit": "audit?limit=3",
}
ON_A_TERMINAL = {
    "events list": "events list",
    "events show": "events show {event}",
    "events watch": "events watch {event}",
    "maintenance show": "maintenance show {plan}",
    "maintenance show --watch": "maintenance show {plan} --watch",
    "vm show": "vm show db-0",
    "audit": "audit",
    "an error": "vm show nix",
}
WAITS = {"events watch", "maintenance show --watch"}
SEQUENCES = (b"\x1b]", b"\x1b[6n", b"\x07", b"\x7f", b"\xc2\x9b", b"\xe2\x80\xae", b"\xe2\x80\xa8", b"\xe2\x81\xa7")
TYPED = {
    "a name": ["vm", "show", WIRE],
    "no text at all": ["vm", "show", "\udcff"],
    "a command": [WIRE],
    "an option": ["vm", "list", f"--{WIRE}"],
    "a file": ["fleet", "apply", WIRE],
    "a setting": ["serve", "--config", WIRE],
}


@pytest.fixture
def node() -> Iterator[Node]:
    """A node that says nothing in this process, where we listen."""
    with Node(DEMO, log_format="none") as running:
        yield running


@pytest.fixture
def names(node: Node, tmp_path: Path) -> dict[str, str]:
    """Something of everything, each with a hostile description."""
    node.enable("web-0", "db-0", "db-1", "render-0", "workers_0", "FrontEnd_IN_0")
    told = {"description": WIRE}
    plan = node.operate("/v1/maintenances", {"on": ["service=shop"], "type": "Reboot", **told})["id"]
    paused = node.operate("/v1/maintenances", {"on": ["vm=db-1"], "type": "Reboot", **told})["id"]
    node.operate(f"/v1/maintenances/{paused}/pause")
    started, event = node.schedule("Reboot", "web-1", **told), node.schedule("Freeze", "db-0", **told)
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(DEMO.read_text() + '[[vms]]\nname = "new"\naddress = "127.9.9.9"\n')
    subscription = node.operate("/v1/subscriptions", {"url": "http://127.0.0.1:9/", "format": "eventgrid"})["id"]
    ids = {"event": event, "plan": plan, "paused": paused, "started": started, "subscription": subscription}
    return {**ids, "fleet": str(fleet)}


@pytest.fixture
def bad(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poisoned]:
    """A service in whose answers every text is hostile."""
    with Poisoned(node, WIRE) as server:
        monkeypatch.setenv("DUENOTICE_ENDPOINT", "http://{}:{}".format(*server.operator_address))
        monkeypatch.setenv("DUENOTICE_TOKEN", server.token)
        yield server


def called(captured: pytest.CaptureFixture[bytes], *arguments: str) -> Done:
    """The command line in this process, and the bytes that reached the outside."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
        sys.exit(0)
    sys.stdout.flush()
    out, err = captured.readouterr()
    return Done(int(ended.value.code or 0), out.decode(), err.decode())


@pytest.mark.parametrize(("view", "output"), CASES)
def test_no_view_of_the_command_line_lets_a_control_character_through(
    names: dict[str, str], bad: Poisoned, capfdbinary: pytest.CaptureFixture[bytes], view: str, output: str
):
    """Nor on standard error; what is there is shown, so that nobody is fooled, and no bracket is a style."""
    done = called(capfdbinary, *VIEWS[view].format(**names).split(), "-o", output)
    said = done.out + done.err
    assert RAW.findall(said) == []
    assert "\t" not in said
    assert not any(line.startswith("error: forged") for line in said.splitlines())
    if view not in OURS and (view == "vm list" or output not in NOTHING_TO_SAY.get(view, ("name",))):
        assert ESC in said, done
        assert MARKUP in said, done


@pytest.mark.parametrize("view", PATHS)
def test_json_means_the_same_with_the_escapes(
    names: dict[str, str], bad: Poisoned, node: Node, capfdbinary: pytest.CaptureFixture[bytes], view: str
):
    """A program reads exactly what the service said."""
    shown = called(capfdbinary, *VIEWS[view].format(**names).split(), "-o", "json").json()
    assert shown
    assert shown == poisoned(node.operator("GET", f"/v1/{PATHS[view]}").json(), WIRE)["items"]


def test_half_a_character_is_no_answer_of_ours(
    node: Node, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    """A service that sends one is not duenotice: nothing of it is shown."""
    monkeypatch.setenv("DUENOTICE_TOKEN", node.token)
    with Poisoned(node) as bad:
        done = called(capfdbinary, "vm", "list", "--endpoint", "http://{}:{}".format(*bad.operator_address))
    assert (done.code, done.out, RAW.findall(done.err)) == (1, "", [])
    assert "Cannot read an answer" in done.err


def test_half_a_character_in_a_request_is_refused(node: Node):
    """Bytes of a shell that are not UTF-8."""
    done = duenotice(node, "events", "schedule", "db-0", "--type", "Reboot", "--description", "\udcff")
    assert (done.code, done.out, RAW.findall(done.err)) == (2, "", [])


def test_a_document_means_the_same_with_the_escapes(node: Node, names: dict[str, str]):
    """It is shown as the VM reads it, and no character of it acts on the terminal."""
    done = duenotice(node, "document", "db-0")
    assert (RAW.findall(done.out), done.json()) == ([], node.document("db-0"))
    assert names["event"] in done.out
    assert ESC in done.out


@pytest.mark.parametrize("view", ON_A_TERMINAL)
def test_no_view_on_a_terminal_lets_a_sequence_through(names: dict[str, str], bad: Poisoned, view: str):
    """Colours and cursor moves are ours alone, and a style in brackets is only text."""
    given = {"DUENOTICE_ENDPOINT": "http://{}:{}".format(*bad.operator_address), "DUENOTICE_TOKEN": bad.token}
    with Terminal(*ON_A_TERMINAL[view].format(**names).split(), **given) as terminal:
        terminal.wait_for("[bold]")
        if view not in WAITS:
            terminal.end()
    assert [sequence for sequence in SEQUENCES if sequence in terminal.raw] == []


@pytest.mark.parametrize("what", TYPED)
def test_what_is_typed_is_shown_escaped_in_errors(node: Node, what: str):
    """Arguments may come from elsewhere too: `duenotice vm show "$(…)"`."""
    done = duenotice(node, *TYPED[what])
    assert done.code != 0
    assert done.err
    assert RAW.findall(done.out + done.err) == []


@pytest.mark.parametrize("output", ["table", "jsonl", "name"])
def test_a_watched_change_is_one_line(
    names: dict[str, str], bad: Poisoned, capfdbinary: pytest.CaptureFixture[bytes], output: str
):
    """In a pipe too, as a line for people and as JSON."""
    done = called(capfdbinary, "events", "watch", names["event"], "--wait-timeout", "300ms", "-o", output)
    assert (done.code, RAW.findall(done.out + done.err)) == (7, [])
    assert len(done.out.splitlines()) == 1


def test_scenarios_are_told_with_what_they_saw_escaped(
    node: Node, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
):
    """Names and reasons of a service are in the steps of a play."""
    monkeypatch.setenv("DUENOTICE_TOKEN", node.token)
    with Poisoned(node, WIRE) as bad:
        where = "http://{}:{}".format(*bad.operator_address)
        done = called(capfdbinary, "scenario", "play", "user-reboot", "--endpoint", where)
    assert RAW.findall(done.out + done.err) == []
    assert ESC in done.out + done.err


def test_a_scenario_file_is_shown_escaped(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    """It may come from anybody."""
    text = json.dumps(WIRE.encode("utf-16", "ignore").decode("utf-16").replace("\U000e0041", "")).replace("\x7f", "")
    file = tmp_path / "s.toml"
    step = f'[[steps]]\nlisten = "vm"\nnote = {text}\n'
    file.write_text(f'name = "x"\ntitle = {text}\nabout = {text}\n[cast]\nvm = {{ is = "vm" }}\n{step}')
    for output in ("table", "json"):
        done = called(capfdbinary, "scenario", "show", str(file), "-o", output)
        assert (done.code, RAW.findall(done.out + done.err)) == (0, []), done
        assert ESC in done.out
