"""`duenotice run` and `duenotice check` as commands: a sandbox without privileges, reports for people and CI."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import pytest

from tests.programs import require_program
from tests.support.cli import Done, duenotice
from tests.support.ports import free_port

pytestmark = pytest.mark.serial  # namespaces, and clients that poll in real time

CLIENT = Path(__file__).parent / "clients" / "client.py"
QUICK = ("--patience", "4s", "--notice", "1200ms", "--throttle", "10")  # the client polls eight times a second
SHORT = (*QUICK, "--scenario", "incarnation")
Runs = dict[str, "Future[Done]"]


def client(how: str = "", **environment: str) -> tuple[str, ...]:
    """The little client as a program to run."""
    return ("--", "env", *(f"{name}={value}" for name, value in environment.items()), sys.executable, str(CLIENT), how)


RUNS: dict[str, tuple[str, ...]] = {
    "right": ("run", *SHORT, "--strict", "--report", "{folder}/right.xml", *client()),
    "wrong": ("run", *SHORT, "-o", "github", "--report", "{folder}/wrong.xml", *client("header")),
    "scenario": ("run", *QUICK, "--scenario", "user-reboot", "--speed", "600x", "-o", "json", *client(TEST_VM="app-0")),
    "silent": ("run", "--report", "{folder}/silent.xml", "--", "true"),
    "nobody": ("check", "--metadata-listen", "127.0.0.1:0", "--for", "300ms", "--allow-untried"),
    "faulty": ("run", "--patience", "1s", "--fault", "500", "-o", "json", *client()),
    "hostname": ("run", *SHORT, "--vm", "node-7", "-o", "json", *client("hostname")),
    "probes, 400": ("run", *SHORT, "--newer-versions-400", "-o", "json", *client("probes")),
}
CHECKS: dict[str, tuple[str, ...]] = {
    "checked": ("once", *SHORT, "--for", "40s", "-o", "json"),
    "ends early": ("", *QUICK, "--for", "3s", "-o", "github"),
    "ends early, allowed": ("", *QUICK, "--for", "3s", "-o", "json", "--allow-untried"),
}
"""What is run and checked, all at once: they hardly do anything but wait."""

LONG_CHECKS: dict[str, tuple[str, ...]] = {
    "naps": ("naps", *SHORT, "--patience", "2s", "--scenario", "own-events", "--for", "60s", "-o", "json"),
    "leaves": ("leaves-by-sigterm", *QUICK, "--scenario", "terminate", "--scenario", "preempt", "-o", "json"),
    "hostname": ("hostname", *SHORT, "--for", "40s", "-o", "json"),
}


def checked(how: str, *options: str) -> Done:
    """Check a client that is already there."""
    address = f"127.0.0.1:{free_port()}"
    environment = os.environ | {"DUENOTICE_METADATA_ENDPOINT": f"http://{address}"}
    with subprocess.Popen([sys.executable, str(CLIENT), how], env=environment) as running:
        try:
            return duenotice(None, "check", "--metadata-listen", address, *options)
        finally:
            running.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where they write."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def runs(folder: Path) -> Runs:
    """How each of them ended."""
    with ThreadPoolExecutor(len(RUNS) + len(CHECKS)) as pool:
        done = {
            name: pool.submit(duenotice, None, *(argument.replace("{folder}", str(folder)) for argument in arguments))
            for name, arguments in RUNS.items()
        }
        return done | {name: pool.submit(checked, *options) for name, options in CHECKS.items()}


def outcomes(done: Done) -> dict[str, str]:
    """What each rule found."""
    return {rule["id"]: rule["outcome"] for rule in json.loads(done.out)["rules"]}


def test_a_right_client_passes(runs: Runs, folder: Path) -> None:
    """Exit code 0, a table for people, and a report for CI beside it."""
    done = runs["right"].result()
    assert done.code == 0, done
    assert "✓  comes-back        error     passed" in done.out
    suite = fromstring((folder / "right.xml").read_text())
    assert (suite.tag, suite.get("failures")) == ("testsuite", "0")


def test_a_wrong_client_fails_in_the_words_of_ci(runs: Runs, folder: Path) -> None:
    """Exit code 1, and only data on standard output."""
    done = runs["wrong"].result()
    assert done.code == 1
    assert done.out.startswith("::error title=duenotice header::Sends Metadata: true with every request.")
    assert '<failure type="error" message="POST #' in (folder / "wrong.xml").read_text()
    assert "The client broke 1 rule: header." in done.err


def test_a_client_that_knows_itself_by_its_hostname_sees_its_events(runs: Runs) -> None:
    """The machine inside has the name of the VM, also for a program that is started again."""
    done = runs["hostname"].result()
    verdict = json.loads(done.out)
    assert (done.code, verdict["passes"], verdict["seen"]["vm"]) == (0, True, "node-7"), done
    assert (verdict["seen"]["own_events_approved"], verdict["remarks"]) == (1, [])


def test_a_scenario_is_played_with_the_client_beside_it(runs: Runs) -> None:
    """What it expects is told and not judged, since the client approves too."""
    done = runs["scenario"].result()
    assert done.code == 0, done
    assert json.loads(done.out)["seen"]["vm"] == "app-0"
    assert "restart app-0" in done.err


@pytest.mark.parametrize("name", ["silent", "nobody"])
def test_where_nothing_asks_nothing_passes(name: str, runs: Runs) -> None:
    """A wrong path in CI must not be green; --allow-untried does not change that."""
    done = runs[name].result()
    assert done.code == 1, done
    assert "error: Nothing asked 169.254.169.254 for /metadata/scheduledevents" in done.err
    assert "✗  asks" in done.out


def test_a_report_for_ci_fails_where_nothing_asks(runs: Runs, folder: Path) -> None:
    """Also for who reads the report alone."""
    runs["silent"].result()
    failures = {case.get("name", "").partition(":")[0] for case in failed_cases(folder / "silent.xml")}
    assert failures == {"asks"}


def failed_cases(report: Path) -> list[Element]:
    """The test cases of a report that have failed."""
    return [case for case in fromstring(report.read_text()).iter("testcase") if case.find("failure") is not None]


def test_a_tour_that_ended_early_is_not_a_pass(runs: Runs) -> None:
    """Although no rule was broken, and in the words of CI too; whoever wants it may allow it."""
    early = runs["ends early"].result()
    assert early.code == 1, early
    assert "error: No rule was broken, but the tour ended early: the 3 s of --for are over" in early.err
    assert "::error title=duenotice tour::" in early.out
    allowed = runs["ends early, allowed"].result()
    assert (allowed.code, json.loads(allowed.out)["passes"]) == (0, True), allowed
    assert [rule["why"] for rule in json.loads(allowed.out)["rules"] if rule["id"] in ("errors", "peers")] == [
        "needs --peers-ready FILE",
        "",
    ]
    assert outcomes(allowed)["tour"] == "not tried"


def test_the_quirks_of_serve_are_there_too(runs: Runs) -> None:
    """Some clients do not even start where an api-version of the future is not 404."""
    with_quirk = runs["probes, 400"].result()
    assert (with_quirk.code, outcomes(with_quirk)["alive"]) == (1, "failed")
    faulty = outcomes(runs["faulty"].result())
    assert (faulty["errors"], faulty["pace"], faulty["tour"]) == ("passed", "passed", "failed")


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
    done = duenotice(None, "run", "--", sys.executable, "-c", script)
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
        duenotice(None, "run", "--network", "--", sys.executable, "-c", script)
        thread.join(30)
    assert answered == [b"hello"]


def test_an_ordinary_user_can_make_the_sandbox() -> None:
    """No privilege is needed: user and network namespaces are enough."""
    setpriv, python = require_program("setpriv", "util-linux"), "/usr/bin/python3"
    code = "import socket; socket.create_connection(('169.254.169.254', 80), 5); print(socket.gethostname())"
    source = Path(__file__).parents[2] / "src"
    child = [python, "-m", "duenotice.testkit.sandbox_child"]
    ours, theirs = socket.socketpair()
    copied = Path("/tmp") / f"duenotice-unprivileged-{os.getpid()}"
    shutil.copytree(source / "duenotice" / "testkit", copied / "duenotice" / "testkit")
    (copied / "duenotice" / "__init__.py").write_text("")
    try:
        command = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs", *child]
        process = subprocess.Popen(
            [*command, str(theirs.fileno()), "network", "node-7", "", python, "-c", code],
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
        assert out == b"node-7\n"
    finally:
        shutil.rmtree(copied)
        ours.close()


def test_where_no_network_can_be_made_it_goes_by_proxy_and_says_so() -> None:
    """The program is told by its environment then."""
    unshare = require_program("unshare", "util-linux")
    script = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"'
    command = [sys.executable, "-m", "duenotice", "run", *SHORT, "-o", "json", "--"]
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
    ("text", "mode", "word"),
    [
        ("#!/bin/sh\n", 0o644, "agent is not executable."),
        ("#!/no/such\n", 0o755, "agent cannot be run: /no/such, which its first line names, is not there."),
        ("#!/bin/sh\r\n", 0o755, "agent end with CR LF."),
        ("#!\x1b[2J\n", 0o755, "cannot be run: \\u001b[2J, which"),
        (None, 0o755, "agent is a directory, not a program."),
    ],
)
def test_a_program_that_the_system_would_not_run_is_refused_with_the_reason(
    text: str | None, mode: int, word: str, tmp_path: Path
) -> None:
    """The system says of most of these only that there is no such file."""
    file = tmp_path / "agent"
    file.mkdir() if text is None else file.write_bytes(text.encode())
    file.chmod(mode)
    done = duenotice(None, "run", "--", str(file))
    assert (done.code, word in done.err, " hint: " in done.err) == (2, True, True), done.err


def test_a_program_that_is_here_and_not_in_the_path_is_named_as_it_must_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first mistake of those who try their own script."""
    monkeypatch.chdir(tmp_path)
    Path("agent").write_text("#!/bin/sh\n")
    Path("agent").chmod(0o755)
    done = duenotice(None, "run", "--", "agent")
    assert (done.code, done.err) == (
        2,
        "error: There is no program agent in PATH, but here is such a file.\n hint: Write ./agent.\n",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("run", "--", ""), 2, "There is no program without a name."),
        (("run", "--", "/nowhere/agent"), 2, "There is no program /nowhere/agent."),
        (("run",), 2, "Missing argument"),
        (("run", "--scenario", "spot-evition", "--", "true"), 3, "Did you mean"),
        (("run", "--scenario", "errors", "--scenario", "user-reboot", "--", "true"), 2, "one scenario alone"),
        (("run", "--speed", "fast", "--", "true"), 2, "not a speed"),
        (("run", "--vm", "a b", "--", "true"), 2, "not a name for a VM"),
        (("run", "--gone-approval", "201", "--", "true"), 2, "gone_approval = '201'"),
        (("run", "--fault", "418", "--", "true"), 2, "'418'"),
        (("check", "--metadata-listen", "nowhere"), 2, "HOST:PORT"),
        (("check", "--for", "soon"), 2, "not a span of time"),
    ],
)
def test_what_cannot_be_done_is_said_clearly(arguments: tuple[str, ...], code: int, word: str) -> None:
    """One line of what happened, one of what to do."""
    done = duenotice(None, *arguments)
    assert (done.code, word in done.err) == (code, True), done.err


def test_a_client_of_ones_own_is_checked(runs: Runs) -> None:
    """It is waited for, put through the same, and judged by the same rules; a warning does not count."""
    done = runs["checked"].result()
    verdict = json.loads(done.out)
    (once,) = [rule for rule in verdict["rules"] if rule["outcome"] == "warned"]
    assert (done.code, verdict["passes"], verdict["errors"], verdict["warnings"]) == (0, True, 0, 1), done
    assert (once["id"], once["severity"], once["said"][0][-7:]) == ("once", "warning", "2 times")
    assert once["fix"]
    assert "broke" not in done.err
    assert "Waiting for a client at http://127.0.0.1:" in done.err


@pytest.fixture(scope="module")
def long_checks() -> Runs:
    """How they ended."""
    with ThreadPoolExecutor(len(LONG_CHECKS)) as pool:
        return {name: pool.submit(checked, *options) for name, options in LONG_CHECKS.items()}


@pytest.mark.soak  # real seconds decide
def test_a_client_of_ones_own_that_was_silent_is_led_on_when_it_asks_again(long_checks: Runs) -> None:
    """It cannot be started again, but the trials after its silence tell all the same."""
    done = long_checks["naps"].result()
    failed = [rule for rule, outcome in outcomes(done).items() if outcome == "failed"]
    assert (done.code, failed) == (1, ["pace"]), done.err
    assert outcomes(done)["incarnation"] == "passed"


@pytest.mark.soak  # waits for a client that has ended
def test_a_client_of_ones_own_may_end_with_its_vm(long_checks: Runs) -> None:
    """Nobody can see whether it has ended or is only silent, so neither speaks against it."""
    done = long_checks["leaves"].result()
    assert (done.code, "failed" in outcomes(done).values()) == (0, False), done


@pytest.mark.soak  # a whole notice without an approval
def test_a_client_of_ones_own_that_looks_for_its_hostname_does_nothing_and_the_verdict_says_so(
    long_checks: Runs,
) -> None:
    """It breaks no rule; how to give it its events is said beside that."""
    done = long_checks["hostname"].result()
    verdict = json.loads(done.out)
    assert (done.code, verdict["passes"], verdict["seen"]["own_events_approved"]) == (0, True, 0), done
    assert "the name of its VM is me (--vm)" in verdict["remarks"][0]
