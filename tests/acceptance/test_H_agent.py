"""H. The VM's side: the agent."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duenotice.wire.spans import format_rfc1123
from tests.agent.machine import Machine, metadata_endpoint
from tests.support.evil import EvilServer, json_answer, reply
from tests.support.node import Node
from tests.support.ports import free_port

FLEET = """
[[availability_sets]]
name = "web"
update_domains = 2
vms = [
  { name = "web-0", address = "127.0.42.1", update_domain = 0 },
  { name = "web-1", address = "127.0.42.2", update_domain = 0 },
  { name = "web-2", address = "127.0.42.3", update_domain = 1 },
]
"""
PEERS = """
[approval.peers]
key_file = "{key}"
listen = "{address}:{port}"
[approval.peers.addresses]
web-0 = "http://127.0.42.1:{port}"
web-1 = "http://127.0.42.2:{port}"
web-2 = "http://127.0.42.3:{port}"
"""
Start = Callable[..., Machine]


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(FLEET) as running:
        running.enable("web-0")
        yield running


@pytest.fixture
def start(node: Node, tmp_path: Path) -> Iterator[Start]:
    """Starts the agent of a VM."""
    machines: list[Machine] = []

    def started(vm: str, policy: str = "own", more: str = "", drain: str = "") -> Machine:
        machine = Machine(tmp_path / vm, metadata_endpoint(node), node.address(vm), policy, more, drain)
        machines.append(machine)
        machine.start()
        return machine

    yield started
    for machine in machines:
        machine.kill()


def peers(folder: Path, address: str, port: int) -> str:
    """How agents reach each other, with a key that they share."""
    key = folder / "key"
    key.write_text("a key that both agents share\n")
    key.chmod(0o600)
    return PEERS.format(key=key, address=address, port=port)


def approvals(node: Node) -> list[str]:
    """Who approved, in order."""
    return [record["actor"] for record in node.operate("/v1/audit?action=event-approved", method="GET")]


def test_H01_the_agent_acts_on_each_event_that_hits_it_and_on_no_other(node: Node, start: Start):
    """Of a set's events an agent prepares for those that name its VM, for all of them, and then approves."""
    neighbours = node.schedule("Reboot", "web-2").upper()
    mine = {node.schedule(kind, "web-0").upper() for kind in ("Freeze", "Reboot")}
    agent = start("web-0")
    agent.until(lambda: len(approvals(node)) == 2)
    acted = {line.split()[1] for line in agent.trace_file.read_text().splitlines()}
    assert acted == mine and neighbours not in acted
    assert approvals(node) == ["vm/web-0", "vm/web-0"]


def test_H03_one_leader_approves_for_all(node: Node, start: Start):
    """Of two VMs that are hit and ready only the first of Resources approves."""
    second = start("web-1")
    node.schedule("Freeze", "web-0", "web-1")
    assert node.event("web-0")["Resources"][0] == "web-0"
    second.until(lambda: "prepared" in second.whats)
    first = start("web-0")
    first.until(lambda: node.statuses("web-0") == ["Started"])
    second.until(lambda: [record.seen.status for record in second.records if record.seen] == ["Scheduled", "Started"])
    assert approvals(node) == ["vm/web-0"]


def test_H04_no_approval_after_failed_work(node: Node, start: Start):
    """A drain that failed keeps the event waiting for its NotBefore."""
    agent = start("web-0", drain="exit 1")
    node.schedule("Reboot", "web-0")
    agent.until(lambda: "failed" in agent.whats)
    node.schedule("Redeploy", "web-0")
    agent.until(lambda: agent.whats.count("failed") == 2)  # time enough for an approval of the first
    assert node.statuses("web-0") == ["Scheduled", "Scheduled"] and approvals(node) == []


def test_H04_no_approval_before_every_vm_that_is_hit_is_ready(node: Node, start: Start, tmp_path: Path):
    """The leader is ready and asks the other, who is not yet; when it is, the event is approved, once."""
    gate, port = tmp_path / "gate", free_port("127.0.42.1")
    first, second = (
        start(vm, "all-ready", peers(tmp_path, node.address(vm), port), drain=drain)
        for vm, drain in (("web-0", ""), ("web-1", f"until [ -e {gate} ]; do sleep 0.05; done"))
    )
    node.schedule("Reboot", "web-0", "web-1")
    second.until(lambda: "preparing" in second.whats)
    asked = first.log.count("not-all-ready")
    first.until(lambda: first.log.count("not-all-ready") >= asked + 2)
    assert first.whats[-1] == "prepared" and node.statuses("web-0") == ["Scheduled"]
    gate.touch()
    first.until(lambda: node.statuses("web-0") == ["Started"])
    assert "prepared" in second.whats and approvals(node) == ["vm/web-0"]


def test_H04_a_silent_peer_is_not_ready(node: Node, start: Start, tmp_path: Path):
    """When the other agent cannot be reached the notice runs out; nothing is cut short."""
    agent = start("web-0", "all-ready", peers(tmp_path, node.address("web-0"), free_port("127.0.42.1")))
    node.schedule("Reboot", "web-0", "web-1")
    agent.until(lambda: agent.log.count("not-all-ready") >= 2)
    assert node.statuses("web-0") == ["Scheduled"]
    node.advance("16m")
    agent.until(lambda: agent.records[-1].seen is not None and agent.records[-1].seen.started)
    assert approvals(node) == []


def test_H04_no_approval_that_leaves_too_few_in_service(node: Node, start: Start, tmp_path: Path):
    """With a guard the leader also asks those that are not hit; it approves when enough of them serve."""
    port = free_port("127.0.42.1")
    guard = '[approval.guard]\ngroup = ["web-0", "web-1", "web-2"]\nkeep = 2\n'
    leader = start("web-0", more=peers(tmp_path, node.address("web-0"), port) + guard)
    start("web-1", more=peers(tmp_path, node.address("web-1"), port))
    node.schedule("Reboot", "web-0")
    leader.until(lambda: '"in_service": ["web-1"]' in leader.log)
    assert node.statuses("web-0") == ["Scheduled"]
    start("web-2", more=peers(tmp_path, node.address("web-2"), port))
    leader.until(lambda: node.statuses("web-0") == ["Started"])


@pytest.mark.parametrize("ends", ["over", "cancelled"])
def test_H05_the_machine_returns_to_service_when_the_event_is_gone(node: Node, start: Start, ends: str):
    """Done or called off, everything is put back."""
    agent = start("web-0", "own" if ends == "over" else "never")
    event_id = node.schedule("Freeze", "web-0").upper()
    agent.until(lambda: ("approved" if ends == "over" else "prepared") in agent.whats)
    assert agent.drained.exists()
    if ends == "over":
        node.advance("20m")
    else:
        node.operate(f"/v1/events/{event_id}/cancel")
    agent.until(lambda: agent.is_over(event_id))
    assert agent.trace == ["prepare", "recover"] and not agent.drained.exists()


def test_H05_the_machine_returns_to_service_after_the_reboot(node: Node, start: Start):
    """Another boot is the end of the event for this VM, though the document still shows it Started."""
    agent = start("web-0")
    event_id = node.schedule("Reboot", "web-0").upper()
    agent.until(lambda: "approved" in agent.whats)
    agent.kill()
    agent.reboot()
    agent.start()
    agent.until(lambda: agent.is_over(event_id))
    assert node.statuses("web-0") == ["Started"] and agent.trace == ["prepare", "recover"]


EVENT = {
    "EventId": "805C2F53-88EE-4045-95F8-788FD1634F66",
    "EventStatus": "Scheduled",
    "EventType": "Reboot",
    "ResourceType": "VirtualMachine",
    "Resources": ["vm-0"],
}


def shown(seconds: float, **changed: object) -> dict[str, object]:
    """A document with one event, so many seconds ahead."""
    not_before = format_rfc1123(datetime.now(UTC) + timedelta(seconds=seconds))
    return {"DocumentIncarnation": 1, "Events": [EVENT | {"NotBefore": not_before} | changed]}


def test_H06_errors_and_empty_answers_are_not_the_end_of_an_event(tmp_path: Path):
    """Only a whole document without the event is; until then the machine stays drained."""
    wrong = [reply(500), reply(200), reply(429), reply(410), reply(200, b"[]"), reply(302), json_answer({"Events": []})]
    with (
        EvilServer(json_answer(shown(900))) as server,
        Machine(tmp_path / "vm", server.endpoint, "127.0.0.1", "never", name="vm-0") as agent,
    ):
        agent.start()
        agent.until(lambda: "prepared" in agent.whats)
        server.answers = wrong
        asked = len(server.requests)
        agent.until(lambda: len(server.requests) > asked + len(wrong))
        assert agent.trace == ["prepare"] and agent.drained.exists() and "poll-failed" in agent.log
        server.answers = json_answer({"DocumentIncarnation": 2, "Events": []})
        agent.until(lambda: agent.is_over(str(EVENT["EventId"])))
        assert agent.trace == ["prepare", "recover"]


def test_H07_the_notice_left_decides_the_timeout(tmp_path: Path):
    """A handler that may take 20 s is cut off in time when only a few seconds of notice are left."""
    with (
        EvilServer(json_answer(shown(5))) as server,
        Machine(tmp_path / "vm", server.endpoint, "127.0.0.1", drain="sleep 60", name="vm-0") as agent,
    ):
        began = time.monotonic()
        agent.start()
        agent.until(lambda: "failed" in agent.whats)
        (failed,) = (record for record in agent.records if record.kind == "failed")
        seen = agent.records[0].seen
        assert seen and seen.not_before and failed.at < seen.not_before and time.monotonic() - began < 6
        assert all(asked.method == "GET" for asked in server.requests)


ADVICE = """
[[vms]]
name = "render-0"
address = "127.0.42.9"
spot = true
"""
NAMES_IT = """
[metadata]
endpoint = "{endpoint}"
source_address = "{address}"
name = "{name}"
[approval]
policy = "{policy}"
[[rules]]
types = ["SpotRebalanceRecommendation"]
handlers = ["drain"]
[handlers.drain]
kind = "command"
prepare = ["{hooks}/drain"]
recover = ["{hooks}/undrain"]
"""


def test_H04_an_agent_whose_rule_names_advice_prepares_for_it_and_never_approves(tmp_path: Path):
    """It asks for the version that shows it, lets the handler work, and puts back when the advice is withdrawn."""
    with Node(ADVICE, spot_rebalance=True) as node:
        node.enable("render-0")
        event_id = node.schedule("SpotRebalanceRecommendation", "render-0")
        with Machine(tmp_path / "m", metadata_endpoint(node), "127.0.42.9", "own", config=NAMES_IT) as agent:
            agent.start()
            agent.until(lambda: "prepared" in agent.whats)
            node.operate(f"/v1/events/{event_id}/cancel")
            agent.until(lambda: "recovered" in agent.whats)
            assert (agent.trace, approvals(node)) == (["prepare", "recover"], [])


def test_H08_an_agent_whose_approval_meets_a_sign_in_page_tries_again(tmp_path: Path):
    """Nothing is recorded as approved before an answer of ours has come; then it is, once."""
    event = {
        "EventId": "805C2F53-88EE-4045-95F8-788FD1634F66",
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "Resources": ["vm-0"],
        "NotBefore": format_rfc1123(datetime.now(UTC) + timedelta(minutes=15)),
    }
    document = json_answer({"DocumentIncarnation": 1, "Events": [event]})
    page = reply(200, b"<html>Please sign in</html>", "Content-Type: text/html")
    with EvilServer(document) as server:
        server.to_posts = page
        with Machine(tmp_path / "vm", server.endpoint, "127.0.0.1", "own", name="vm-0") as agent:
            agent.start()
            agent.until(lambda: sum(asked.method == "POST" for asked in server.requests) >= 3)
            assert "approved" not in agent.whats
            server.to_posts = reply(200)
            agent.until(lambda: "approved" in agent.whats)


def has_read_started(agent: Machine, event_id: str) -> bool:
    """Whether the ledger of an agent knows that an event has started."""
    case = agent.tracked(event_id)
    return case is not None and case.seen.started


def test_D07_the_way_back_waits_until_the_event_is_gone(node: Node, start: Start):
    """An announced Reboot that only pauses the VM, twice, is not over before it is gone from the document."""
    agent = start("web-0")
    event_id = node.schedule("Reboot", "web-0")
    agent.until(lambda: node.statuses("web-0") == ["Started"])
    for _ in range(2):
        agent.pause()
        node.advance("2m")
        agent.go_on()
        agent.until(lambda: has_read_started(agent, event_id))
        assert agent.trace == ["prepare"]
    node.advance("6m")
    agent.until(lambda: agent.is_over(event_id))
    assert agent.trace == ["prepare", "recover"]
