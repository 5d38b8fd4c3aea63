"""When a command cannot do what it should: the exit code, one line of what happened and one of what to do."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.cli import duenotice, endpoint
from tests.support.node import Node
from tests.support.terminal import Terminal


def told(err: str) -> tuple[str, str]:
    what, hint = err.splitlines()
    return what.removeprefix("error: "), hint.removeprefix(" hint: ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("vm", "restart", "nix"), 3),
        (("events", "show", "nix"), 3),
        (("events", "approve", "nix"), 3),
        (("maintenance", "show", "nix"), 3),
        (("maintenance", "start", "--on", "set=nix", "--type", "Reboot"), 3),
        (("host", "fail", "nix", "--yes"), 3),
        (("vm", "evict", "web-0", "--yes"), 4),
        (("events", "schedule", "web-0", "web-1", "--type", "Reboot"), 4),
        (("maintenance", "start", "--on", "web", "--type", "Reboot"), 2),
        (("clock", "advance", "soon"), 2),
    ],
)
def test_a_refusal_has_its_code_and_two_lines(shared: Node, arguments: tuple[str, ...], code: int) -> None:
    """What the service says reaches the person."""
    done = duenotice(shared, *arguments)
    assert (done.code, done.out) == (code, ""), done
    assert all(told(done.err)), done


BROKEN = '[[vms]]\nname = "a"\naddress = "10.0.0.1"\nadress = "10.0.0.1"\n'
BAD = {
    "vm restart web-99": (3, "There is no VM named 'web-99'."),
    "events schedule db-0 --type Reboot --not-before 2020-01-01T00:00:00Z": (4, "NotBefore 2020-01-01T00:00:00Z gives"),
    "events schedule web-0 web-1 --type Reboot": (4, ""),
    "maintenance start --on set=web --type Freeze": (4, ""),
    "fleet apply {broken}": (2, "{broken}, line 4: vms[1] \"a\" has an unknown key 'adress'."),
    "fleet apply /nowhere/fleet.toml": (2, "Cannot read /nowhere/fleet.toml: No such file or directory."),
}


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_refused_and_changes_nothing(node: Node, tmp_path: Path, line: str) -> None:
    """One line of what happened, one of what to do, the right code, and not a record more in the journal."""
    node.enable("web-0", "db-0")
    node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot"})
    (tmp_path / "broken.toml").write_text(BROKEN)
    before = node.service.engine.state.position
    code, what = BAD[line]
    line, what = (text.format(broken=tmp_path / "broken.toml") for text in (line, what))
    done = duenotice(node, *line.split())
    assert (done.code, done.out) == (code, "")
    assert told(done.err)[0].startswith(what)
    assert node.service.engine.state.position == before


@pytest.mark.parametrize(
    "line", ["events list --type Explode", "events schedule x --type Explode", "vm", "vm list --nix"]
)
def test_bad_usage_is_2(shared: Node, line: str) -> None:
    """An unknown flag, value or verb."""
    assert duenotice(shared, *line.split()).code == 2


@pytest.mark.parametrize(
    ("line", "what", "hint"),
    [
        ("vm restart", "Missing argument 'VM'.", "See 'duenotice vm restart --help'."),
        ("vm list --grup x", "No such option '--grup'.", "Did you mean '--group'?"),
        ("vm lst", "There is no command 'lst'.", "Did you mean 'list'?"),
        ("evnt list", "There is no command 'evnt'.", "Did you mean 'events'?"),
        ("banana", "There is no command 'banana'.", "See 'duenotice --help'."),
        (
            "events list --type Rebot",
            "Invalid value for '--type': 'Rebot' is not one of Freeze, Reboot, Redeploy, Preempt, Terminate, "
            "SpotRebalanceRecommendation.",
            "Did you mean 'Reboot'?",
        ),
        ("audit --last x", "Invalid value for '--last': 'x' is not a valid integer range.", "See 'duenotice audit"),
        ("serve --throttle", "Option '--throttle' requires an argument.", "See --help."),
    ],
)
def test_errors_have_one_style_whoever_finds_them(line: str, what: str, hint: str) -> None:
    """One line of what happened, one of what to do, on standard error."""
    done = duenotice(None, *line.split())
    assert (done.code, done.out, told(done.err)[0]) == (2, "", what)
    assert told(done.err)[1].startswith(hint)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("scale-set scale nix --by 3", "'duenotice scale-set list' lists them."),
        ("events show FFFF", "'duenotice events list' lists them, without those that are over."),
        ("events history FFFF", "'duenotice audit' lists what happened."),
    ],
)
def test_a_hint_names_a_command_and_no_path_of_the_api(shared: Node, line: str, hint: str) -> None:
    """The rules say which list helps, the command line how to see it."""
    done = duenotice(shared, *line.split())
    assert (done.code, told(done.err)[1]) == (3, hint)


def test_done_is_0_and_interrupted_is_130(shared: Node) -> None:
    """Ctrl-C in a live view leaves without a traceback."""
    assert duenotice(shared, "vm", "list").code == 0
    given = {"DUENOTICE_ENDPOINT": endpoint(shared), "DUENOTICE_TOKEN": shared.token}
    with Terminal("events", "watch", **given) as terminal:
        terminal.wait_for("no events")
        terminal.interrupt()
        assert (terminal.end(), "Traceback" in terminal.shown) == (130, False)


def test_what_was_followed_and_failed_is_1(node: Node) -> None:
    """The maintenance is cancelled while somebody watches it."""
    plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Reboot"})
    node.operate(f"/v1/maintenances/{plan['id']}/cancel")
    done = duenotice(node, "maintenance", "show", plan["id"], "--watch", "-o", "name")
    assert (done.code, told(done.err)[0]) == (1, f"Maintenance {plan['id']} is cancelled.")


def test_a_wrong_token_is_5(shared: Node) -> None:
    """And one knows where to find the right one."""
    done = duenotice(shared, "events", "list", DUENOTICE_TOKEN="dn_nix")
    assert (done.code, told(done.err)[0]) == (5, "The service does not know this token.")
    assert "admin.token" in told(done.err)[1]


def test_the_token_may_come_from_a_file(shared: Node, tmp_path: Path) -> None:
    """DUENOTICE_TOKEN_FILE; one that is not there is 5 as well."""
    file = tmp_path / "t"
    file.write_text(shared.token + "\n")
    given = {"DUENOTICE_ENDPOINT": endpoint(shared), "DUENOTICE_TOKEN_FILE": str(file)}
    assert duenotice(None, "events", "list", "-o", "json", **given).json() == []
    assert duenotice(None, "events", "list", **given | {"DUENOTICE_TOKEN_FILE": "/nowhere"}).code == 5


def test_no_server_is_6() -> None:
    """Nobody answers there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = duenotice(None, "events", "list", "--endpoint", f"127.0.0.1:{port}", DUENOTICE_TOKEN="x")
    assert (done.code, told(done.err)[0]) == (
        6,
        f"Cannot reach duenotice at http://127.0.0.1:{port}: Connection refused.",
    )


def test_a_silent_server_is_7() -> None:
    """It listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        done = duenotice(None, "events", "list", "--endpoint", where, "--request-timeout", "0.2", DUENOTICE_TOKEN="x")
    assert done.code == 7


@pytest.mark.parametrize("endpoint", ["ftp://x", "http://", "http://x:nix"])
def test_an_endpoint_that_is_none_is_2(endpoint: str) -> None:
    """Before anything is sent."""
    assert duenotice(None, "events", "list", "--endpoint", endpoint, DUENOTICE_TOKEN="x").code == 2


@pytest.mark.parametrize("token", ["gr\u00fcn", "two\nlines"])
def test_a_token_that_cannot_be_one_is_5(shared: Node, token: str) -> None:
    """For example from a wrong file; it is not sent."""
    assert duenotice(shared, "events", "list", DUENOTICE_TOKEN=token).code == 5


def test_an_answer_that_makes_no_sense_is_told_without_a_traceback() -> None:
    """Somebody else answers at that port."""
    said = b'HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n["no"]'
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_one, args=(server, said), daemon=True).start()
        where = f"127.0.0.1:{server.getsockname()[1]}"
        done = duenotice(None, "clock", "show", "-o", "name", "--endpoint", where, DUENOTICE_TOKEN="x")
    assert (done.code, told(done.err)[0].partition(" of ")[0]) == (1, "Cannot read an answer")


def _answer_one(server: socket.socket, said: bytes) -> None:
    with server.accept()[0] as line:
        line.recv(65536)
        line.sendall(said)


def test_flags_have_environment_twins(shared: Node) -> None:
    """DUENOTICE_OUTPUT for all commands, DUENOTICE_NOUN_VERB_FLAG for one."""
    assert duenotice(shared, "clock", "show", DUENOTICE_OUTPUT="json").json()["clock"] == "manual"
    done = duenotice(shared, "events", "list", DUENOTICE_EVENTS_LIST_VM="web-0", DUENOTICE_OUTPUT="json")
    assert done.json() == []


@pytest.mark.parametrize(
    "line",
    [
        "vm restart web-0 --wait --wait-timeout foo",
        "vm evict render-0 --yes --wait-timeout 5x",
        "host fail host-1 --yes --wait-timeout -1s",
        "host degrade host-1 --notice soon",
        "maintenance start --on set=web --type Reboot --settle foo",
        "maintenance start --on set=web --type Reboot --wait --wait-timeout foo",
        "scale-set scale workers --by 1 --wait-timeout foo",
        "events schedule web-0 --type Freeze --wait-timeout foo",
        "record --output {file} --every foo",
    ],
)
def test_values_are_checked_before_anything_is_done(node: Node, tmp_path: Path, line: str) -> None:
    """Not a record in the journal, not an event, not a file."""
    node.enable("web-0", "render-0")
    before = node.service.engine.state.position
    file = tmp_path / "recording"
    done = duenotice(node, *line.format(file=file).split())
    assert (done.code, done.out, file.exists()) == (2, "", False)
    assert "is not a span of time" in done.err
    assert node.service.engine.state.position == before


@pytest.mark.parametrize(
    "words",
    [
        ("events", "show", ""),
        ("events", "cancel", "", ""),
        ("events", "watch", ""),
        ("events", "history", " "),
        ("events", "list", "--vm", ""),
        ("events", "schedule", "web-0", "", "--type", "Freeze"),
        ("vm", "show", ""),
        ("vm", "restart", ""),
        ("vm", "list", "--group", ""),
        ("maintenance", "show", ""),
        ("maintenance", "cancel", ""),
        ("host", "fail", "", "--yes"),
        ("token", "revoke", ""),
        ("document", ""),
        ("audit", "--action", ""),
        ("scale-set", "delete-instances", "workers", "", "--yes"),
    ],
    ids=" ".join,
)
def test_an_empty_name_or_id_is_2(shared: Node, words: tuple[str, ...]) -> None:
    """It is a variable that was never set; it must not mean all of them, or the newest."""
    done = duenotice(shared, *words)
    assert (done.code, done.out) == (2, "")
    assert "is empty" in done.err


@pytest.mark.parametrize(
    ("line", "code", "hint"),
    [
        ("vm list --group set/wbe", 3, "Did you mean 'set/web'?"),
        ("vm list --host host-01", 3, "Did you mean 'host-1'?"),
        ("audit --action event-raise", 2, "Did you mean 'event-raised'?"),
    ],
)
def test_a_filter_that_names_nothing_is_told_with_the_nearest_name(shared: Node, line: str, code: int, hint: str):
    """An empty list would look like an answer."""
    done = duenotice(shared, *line.split())
    assert (done.code, done.out, told(done.err)[1]) == (code, "", hint)


@pytest.mark.parametrize("line", ["vm list", "vm list -o jsonl", "vm list -o yaml", "audit -o json", "vm list --help"])
def test_a_reader_that_has_seen_enough_is_no_failure(shared: Node, line: str) -> None:
    """`duenotice vm list | head -1` in a script with pipefail."""
    environment = {**os.environ, "DUENOTICE_ENDPOINT": endpoint(shared), "DUENOTICE_TOKEN": shared.token}
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing) as pipe:
        command = [sys.executable, "-m", "duenotice", *line.split()]
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, env=environment, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(("end", "code"), [("failed", 1), ("cancelled", 1), ("completed", 0)])
def test_watching_an_event_ends_as_the_event_did(node: Node, end: str, code: int) -> None:
    """With 1 when it did not complete, as --wait does; also when that was over before we looked."""
    node.enable("web-0")
    event_id = node.schedule("Reboot", "web-0")
    acts = {
        "failed": (f"/v1/events/{event_id}/report", {"failure": "no disk"}),
        "completed": (f"/v1/events/{event_id}/report", {}),
        "cancelled": (f"/v1/events/{event_id}/cancel", None),
    }
    if end != "cancelled":
        node.operate(f"/v1/events/{event_id}/approve")
    timer = threading.Timer(2.0, node.operate, acts[end])
    timer.start()
    done = duenotice(node, "events", "watch", event_id)
    timer.join()
    assert done.code == code, done
    assert (f"Not all events completed: {event_id} {end}." in done.err) is bool(code)


def test_an_output_that_cannot_be_written_is_two_lines_and_a_1(shared: Node) -> None:
    """`duenotice vm list > list.txt` on a disk that is full."""
    command = f"{sys.executable} -m duenotice vm list > /dev/full"
    environment = os.environ | {"DUENOTICE_ENDPOINT": endpoint(shared), "DUENOTICE_TOKEN": shared.token}
    ended = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1, ended
    assert told(ended.stderr)[0] == "The output cannot be written: No space left on device."
