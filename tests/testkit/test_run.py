"""`duenotice run` and `duenotice check` as commands: a sandbox without privileges, reports for people and CI."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from tests.programs import require_program
from tests.support.cli import Done, duenotice

pytestmark = pytest.mark.serial  # namespaces, and clients that poll in real time

CLIENT = Path(__file__).parent / "clients" / "client.py"
QUICK = ("--patience", "4s", "--notice", "1500ms")


def run(*arguments: str, program: tuple[str, ...] = (sys.executable, str(CLIENT))) -> Done:
    """Run a program through a short tour."""
    return duenotice(None, "run", *QUICK, "--scenario", "reboot", *arguments, "--", *program)


def test_a_right_client_passes(tmp_path: Path) -> None:
    """Exit code 0, a table for people, and a report for CI beside it."""
    report = tmp_path / "report.xml"
    done = run("--report", str(report), "--strict")
    assert done.code == 0, done
    assert "✓  comes-back        error     passed" in done.out
    suite = fromstring(report.read_text())
    assert (suite.tag, suite.get("failures")) == ("testsuite", "0")


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("github", "::error title=duenotice header::Sends Metadata: true with every request."),
        ("junit", '<failure type="error" message="POST #'),
    ],
)
def test_a_wrong_client_fails_in_the_words_of_ci(form: str, word: str) -> None:
    """Exit code 1, and only data on standard output."""
    done = run("-o", form, program=(sys.executable, str(CLIENT), "header"))
    assert done.code == 1
    assert word in done.out
    assert "The client broke 1 of the rules: header." in done.err


def test_json_says_what_was_seen_and_what_to_mend() -> None:
    """Each rule with an id, a severity, a sentence, an outcome and how to mend it; a warning counts when strict."""
    warned = run("-o", "json", program=(sys.executable, str(CLIENT), "version"))
    verdict = json.loads(warned.out)
    assert (warned.code, verdict["passes"], verdict["errors"], verdict["warnings"]) == (0, True, 0, 1)
    (version,) = [rule for rule in verdict["rules"] if rule["outcome"] == "failed"]
    assert (version["id"], version["severity"]) == ("version", "warning")
    assert version["said"] == ["it asks for api-version 2017-08-01"]
    assert version["mend"]
    assert verdict["seen"]["approvals"] == 2


def test_a_scenario_is_played_with_the_client_beside_it() -> None:
    """What it expects is told and not judged, since the client approves too."""
    played = ("--scenario", "user-reboot", "--speed", "600x", "-o", "json", "--", "env", "TEST_VM=app-0")
    done = duenotice(None, "run", *QUICK, *played, sys.executable, str(CLIENT))
    assert done.code == 0, done
    assert json.loads(done.out)["seen"]["vm"] == "app-0"
    assert "restart app-0" in done.err


@pytest.fixture
def neighbour() -> Iterator[int]:
    """Something else that listens on this machine's loopback; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)

        def greet() -> None:
            with listening.accept()[0] as connection:
                connection.sendall(b"hello from outside\n")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        yield listening.getsockname()[1]


def test_the_loopback_of_this_machine_can_be_reached_from_the_sandbox(neighbour: int, tmp_path: Path) -> None:
    """On the same port; the world outside cannot, unless asked for."""
    script = f"""
import socket, pathlib
with socket.create_connection(("127.0.0.1", {neighbour}), 5) as outside:
    greeting = outside.makefile().readline()
try:
    socket.create_connection(("192.0.2.1", 80), 1)
except OSError as error:
    greeting += error.strerror
pathlib.Path({str(tmp_path / "said")!r}).write_text(greeting)
"""
    done = run(program=(sys.executable, "-c", script))
    assert (tmp_path / "said").read_text() == "hello from outside\nNetwork is unreachable", done.err


def test_the_world_outside_can_be_reached_when_asked_for(tmp_path: Path) -> None:
    """Through slirp4netns, which needs no privileges either, and is gone afterwards."""
    require_program("slirp4netns", "slirp4netns")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; tells the address that the world sees
        except OSError:
            pytest.skip("this machine has no way outside")
        address = probe.getsockname()[0]
    with socket.create_server((address, 0)) as outside:
        outside.settimeout(30)
        script = (
            f"import socket; socket.create_connection(({address!r}, {outside.getsockname()[1]}), 10).send(b'hello')"
        )
        answered: list[bytes] = []

        def listen() -> None:
            with outside.accept()[0] as connection:
                answered.append(connection.recv(5))

        thread = threading.Thread(target=listen)
        thread.start()
        run("--network", program=(sys.executable, "-c", script))
        thread.join(30)
    assert answered == [b"hello"]


def test_an_ordinary_user_can_make_the_sandbox() -> None:
    """No privilege is needed: user and network namespaces are enough."""
    setpriv, python = require_program("setpriv", "util-linux"), "/usr/bin/python3"
    code = "import socket; socket.create_connection(('169.254.169.254', 80), 5); print('reached')"
    source = Path(__file__).parents[2] / "src"
    inside = [python, "-m", "duenotice.testkit.inside"]
    ours, theirs = socket.socketpair()
    copied = Path("/tmp") / f"duenotice-unprivileged-{os.getpid()}"
    shutil.copytree(source / "duenotice" / "testkit", copied / "duenotice" / "testkit")
    (copied / "duenotice" / "__init__.py").write_text("")
    try:
        command = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", *inside]
        process = subprocess.Popen(
            [*command, str(theirs.fileno()), "", python, "-c", code],
            pass_fds=[theirs.fileno()],
            env={"PYTHONPATH": str(copied), "PATH": os.environ["PATH"]},
            stdout=subprocess.PIPE,
            cwd="/",
        )
        theirs.close()
        ours.settimeout(10)
        word, descriptors, *_ = socket.recv_fds(ours, 65536, 10)
        assert json.loads(word) == {"ports": [80]}
        with socket.socket(fileno=descriptors[0]):
            ours.sendall(b"go")
            out, _ = process.communicate(timeout=20)
        assert out == b"reached\n"
    finally:
        shutil.rmtree(copied)
        ours.close()


def test_where_no_network_can_be_made_it_goes_by_proxy_and_says_so() -> None:
    """The program is told by its environment then."""
    unshare = require_program("unshare", "util-linux")
    script = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"'
    command = [sys.executable, "-m", "duenotice", "run", *QUICK, "--scenario", "reboot", "-o", "json", "--"]
    done = subprocess.run(
        [unshare, "--user", "--map-root-user", "sh", "-c", script, "sh", *command, sys.executable, str(CLIENT)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "allows no network of its own" in done.stderr, done.stderr
    assert "http_proxy" in done.stderr
    assert (done.returncode, json.loads(done.stdout)["passes"]) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("run", "--", "/nowhere/agent"), 2, "There is no program /nowhere/agent."),
        (("run",), 2, "Missing argument"),
        (("run", "--scenario", "spot-evition", "--", "true"), 3, "Did you mean"),
        (("run", "--scenario", "errors", "--scenario", "user-reboot", "--", "true"), 2, "one scenario alone"),
        (("run", "--speed", "fast", "--", "true"), 2, "no speed"),
        (("run", "--vm", "a b", "--", "true"), 2, "no name for a VM"),
        (("check", "--metadata-listen", "nowhere"), 2, "HOST:PORT"),
        (("check", "--for", "soon"), 2, "not a span of time"),
    ],
)
def test_what_cannot_be_done_is_said_clearly(arguments: tuple[str, ...], code: int, word: str) -> None:
    """One line of what happened, one of what to do."""
    done = duenotice(None, *arguments)
    assert (done.code, word in done.err) == (code, True), done.err


def test_a_client_of_ones_own_is_checked(tmp_path: Path) -> None:
    """It is waited for, put through the same, and judged by the same rules."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = os.environ | {"DUENOTICE_METADATA_ENDPOINT": f"http://{address}"}
    with subprocess.Popen([sys.executable, str(CLIENT), "once"], env=environment) as client:
        try:
            check = (
                "check",
                *QUICK,
                "--scenario",
                "reboot",
                "--metadata-listen",
                address,
                "--for",
                "40s",
                "-o",
                "json",
            )
            done = duenotice(None, *check)
        finally:
            client.kill()
    failed = [rule["id"] for rule in json.loads(done.out)["rules"] if rule["outcome"] == "failed"]
    assert (done.code, failed) == (0, ["once"]), done.err
    assert f"Waiting for a client at http://{address}" in done.err


def test_nobody_came() -> None:
    """Then there is nothing to judge but that."""
    done = duenotice(None, "check", "--metadata-listen", "127.0.0.1:0", "--for", "300ms", "--patience", "200ms")
    assert done.code == 1
    assert "it never asked for the document" in done.out
