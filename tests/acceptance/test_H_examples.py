"""The clients under examples/clients do what section H asks for, each as a person starts it, against the real service.

PowerShell's is not run: neither Debian nor the package indexes that this project uses have its runtime.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.programs import require_program
from tests.support.evil import Answer, EvilServer, json_answer, reply
from tests.support.node import Node

EXAMPLES = Path(__file__).parents[2] / "examples" / "clients"
FLEET = """
[[availability_sets]]
name = "web"
update_domains = 2
vms = [
  { name = "web-0", address = "127.0.0.1", update_domain = 0 },
  { name = "web-1", address = "127.0.2.2", update_domain = 0 },
]
"""
HOOK = """#!/bin/sh
echo "$*" >>"$0.log"
test ! -e "$0.fails-$1"
"""


def bash(_: Path) -> list[str]:
    require_program("curl", "curl")
    require_program("jq", "jq")
    return [require_program("bash", "bash"), str(EXAMPLES / "client.sh")]


def python(_: Path) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLES / "client.py")]


def node_js(_: Path) -> list[str]:
    return [require_program("node", "nodejs"), str(EXAMPLES / "client.js")]


def go(folder: Path) -> list[str]:
    built, cache = folder / "client", {"GOCACHE": str(folder / "cache"), "GOFLAGS": "-p=1"}
    command = [require_program("go", "golang-go"), "build", "-o", str(built), str(EXAMPLES / "client.go")]
    subprocess.run(command, env=os.environ | cache, check=True, timeout=250)
    return [str(built)]


def c_sharp(folder: Path) -> list[str]:
    built = folder / "Client.exe"
    libraries = ["-r:System.Net.Http", "-r:System.Runtime.Serialization", "-nowarn:0649"]
    compiler = require_program("mcs", "mono-mcs")
    subprocess.run([compiler, *libraries, f"-out:{built}", str(EXAMPLES / "Client.cs")], check=True, timeout=120)
    return [require_program("mono", "mono-runtime"), str(built)]


@pytest.fixture(scope="module", params=[bash, python, node_js, go, c_sharp], ids=lambda each: each.__name__)
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """How a client is started; those that need it are built once."""
    build: Callable[[Path], list[str]] = request.param
    return build(tmp_path_factory.mktemp("built"))


class Vm:
    """One VM with a client: its hook writes down what it is called with, and fails when told to."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._state = folder / "state"
        self._hook = folder / "hook"
        self._hook.write_text(HOOK)
        self._hook.chmod(0o755)
        self._log = folder / "hook.log"

    @contextmanager
    def client(self, endpoint: str) -> Iterator[None]:
        """Run the client meanwhile, and kill it then."""
        proxy = dict.fromkeys(("http_proxy", "HTTP_PROXY"), "http://127.0.0.1:9")
        settings = {"DUENOTICE_METADATA_ENDPOINT": endpoint, "DUENOTICE_STATE_DIR": str(self._state)}
        with subprocess.Popen([*self._command, str(self._hook)], env=os.environ | proxy | settings) as process:
            try:
                yield
                assert process.poll() is None, "the client has ended"
            finally:
                process.kill()

    def fail(self, verb: str, fails: bool = True) -> None:
        """Let the hook fail, or not any more."""
        mark = self._hook.with_name(f"hook.fails-{verb}")
        mark.touch() if fails else mark.unlink()

    def has_prepared(self, event_id: str) -> bool:
        """Whether the client has written down that it is ready; killed before that, it would rightly prepare again."""
        note = self._state / event_id
        return note.exists() and note.read_text().startswith("prepared")

    def calls(self, event_id: str) -> list[str]:
        """The verbs the hook was called with for an event."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [line.split()[0] for line in lines if line.split()[1] == event_id]


@pytest.fixture
def vm(command: list[str], tmp_path: Path) -> Vm:
    return Vm(command, tmp_path)


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(FLEET) as running:
        running.enable("web-0")
        yield running


def endpoint(node: Node) -> str:
    return "http://{}:{}".format(*node.metadata_address)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def status(node: Node, event_id: str) -> str:
    """Scheduled, Started, or gone."""
    return {event["EventId"]: str(event["EventStatus"]) for event in node.events("web-0")}.get(event_id, "gone")


def test_H01_examples_act_on_their_own_events_once_and_on_no_neighbours(vm: Vm, node: Node):
    """Every event that hits this VM is prepared for once and approved; the neighbour's is left alone."""
    neighbours = node.schedule("Reboot", "web-1")
    mine = [node.schedule("Freeze", "web-0"), node.schedule("Redeploy", "web-0")]
    with vm.client(endpoint(node)):
        wait_until(lambda: all(status(node, each) == "Started" for each in mine))
        later = node.schedule("Reboot", "web-0")  # when this one is dealt with, the others were seen again
        wait_until(lambda: status(node, later) == "Started")
    assert [vm.calls(each) for each in (*mine, later)] == [["prepare"]] * 3
    assert (vm.calls(neighbours), status(node, neighbours)) == ([], "Scheduled")


def test_H03_examples_approve_only_as_leader(vm: Vm, node: Node):
    """Both VMs are hit: the second of the resources prepares, and leaves the approval to the first."""
    led_by_other = node.schedule("Reboot", "web-1", "web-0")
    mine = node.schedule("Reboot", "web-0")
    with vm.client(endpoint(node)):
        wait_until(lambda: vm.calls(led_by_other) == ["prepare"] and status(node, mine) == "Started")
    assert status(node, led_by_other) == "Scheduled"


def test_H04_examples_approve_when_the_others_are_ready_too(vm: Vm, node: Node):
    """As leader of an event that hits two, the client waits until its hook says that the other is ready."""
    vm.fail("others-ready")
    event_id = node.schedule("Reboot", "web-0", "web-1")
    with vm.client(endpoint(node)):
        wait_until(lambda: vm.calls(event_id)[:3] == ["prepare", "others-ready", "others-ready"])
        assert status(node, event_id) == "Scheduled"
        vm.fail("others-ready", False)
        wait_until(lambda: status(node, event_id) == "Started")


def test_H04_examples_never_approve_after_failed_work(vm: Vm, node: Node):
    """Preparing is tried again until it works; only then is the event approved."""
    vm.fail("prepare")
    event_id = node.schedule("Reboot", "web-0")
    with vm.client(endpoint(node)):
        wait_until(lambda: vm.calls(event_id)[:2] == ["prepare", "prepare"])
        assert status(node, event_id) == "Scheduled"
        vm.fail("prepare", False)
        wait_until(lambda: status(node, event_id) == "Started")


def test_H05_examples_come_back_when_the_event_is_over_or_cancelled(vm: Vm, node: Node):
    """Gone from the document, for whatever reason, is the way back; it is taken once."""
    vm.fail("others-ready")
    done, cancelled = node.schedule("Reboot", "web-0"), node.schedule("Reboot", "web-0", "web-1")
    with vm.client(endpoint(node)):
        wait_until(lambda: status(node, done) == "Started" and "prepare" in vm.calls(cancelled))
        node.operate(f"/v1/events/{cancelled}/cancel")
        wait_until(lambda: "restore" in vm.calls(cancelled))
        node.advance("1h")
        wait_until(lambda: "restore" in vm.calls(done))
    assert vm.calls(done) == ["prepare", "restore"]
    assert [vm.calls(cancelled).count(verb) for verb in ("prepare", "restore")] == [1, 1]


def test_H05_examples_remember_what_they_did_when_they_are_killed(vm: Vm, node: Node):
    """A client that is killed and started again prepares nothing twice, and comes back from what it had prepared."""
    over, still_there = node.schedule("Reboot", "web-0"), node.schedule("Reboot", "web-1", "web-0")
    with vm.client(endpoint(node)):
        wait_until(lambda: status(node, over) == "Started" and vm.has_prepared(still_there))
    node.advance("12m")  # the first is over, the second not yet due
    assert (status(node, over), status(node, still_there)) == ("gone", "Scheduled")
    with vm.client(endpoint(node)):
        wait_until(lambda: vm.calls(over) == ["prepare", "restore"])
        later = node.schedule("Freeze", "web-0")
        wait_until(lambda: vm.calls(later)[:1] == ["prepare"])
    assert vm.calls(still_there) == ["prepare"]


EVENT = {"EventId": "F020BA2E", "EventStatus": "Scheduled", "EventType": "Reboot", "Resources": ["web-0"]}
STARTED = EVENT | {"EventStatus": "Started", "NotBefore": ""}
NAME: Answer = reply(200, b"web-0", "Content-Type: text/plain")


def test_H06_examples_take_no_error_for_no_events(vm: Vm):
    """500, 429, an empty 200, a redirect, a sign-in page, null and half a document: none of them is the way back."""
    wrong: list[Answer] = [
        reply(500),
        reply(429),
        reply(200),
        reply(302, b"", "Location: /elsewhere"),
        reply(200, b"<html>Sign in</html>", "Content-Type: text/html"),
        json_answer(b"null"),
        json_answer({"DocumentIncarnation": 1}),
        json_answer({"DocumentIncarnation": 1, "Events": None}),
        json_answer(b'{"DocumentIncarnation":1,"Events":['),
    ]
    seen, started, gone = (
        json_answer({"DocumentIncarnation": number, "Events": events})
        for number, events in ((1, [EVENT]), (2, [STARTED]), (3, []))
    )
    with EvilServer([NAME, seen, reply(200), *wrong, started, gone]) as server, vm.client(server.endpoint):
        wait_until(lambda: vm.calls("F020BA2E") == ["prepare", "restore"])
        assert len(server.requests) >= len(wrong) + 5
        assert all(asked.headers["metadata"] == "true" for asked in server.requests)
        assert [json.loads(asked.body) for asked in server.requests if asked.method == "POST"] == [
            {"StartRequests": [{"EventId": "F020BA2E"}]}
        ]
        assert not [target for target in server.targets if "elsewhere" in target]
