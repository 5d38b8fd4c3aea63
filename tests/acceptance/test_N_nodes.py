"""Section N: several nodes on one database are one service; real processes on a real PostgreSQL."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.trio import FLEET, LEASE, NAMES, Trio, ask, trio
from tests.crash.server import Server
from tests.handlers.databases import postgresql
from tests.support.postgres import Database
from tests.support.push_receiver import PushReceiver
from tests.support.served import wait_until

pytestmark = pytest.mark.machine

ME = "127.0.0.1"
REBOOT = {"type": "Reboot", "resources": ["me"]}


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """One database for all tests of this file."""
    with postgresql("fsync=off") as connection:
        yield Database(connection.split()[0].removeprefix("host="), "postgres")


@pytest.fixture(scope="module")
def nodes(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trio]:
    """Three nodes for all tests of this file; each test leaves them whole."""
    with trio(tmp_path_factory.mktemp("nodes"), database, push_allow="127.0.0.0/8") as running:
        running.want_every_notice()
        yield running


@pytest.fixture(autouse=True)
def whole(nodes: Trio) -> None:
    nodes.wait_until_whole()


def scheduled(nodes: Trio, name: str, key: str = "") -> str:
    answer = nodes.operate(name, "POST", "/v1/events", REBOOT, key)
    assert answer.status == 201, answer
    return str(answer.json()["events"][0]["id"])


def ids(nodes: Trio, name: str) -> list[str]:
    return [event["EventId"] for event in nodes.poll(name, ME).json()["Events"]]


def test_N01_one_node_leads_and_all_nodes_name_the_same_one(nodes: Trio, database: Database) -> None:
    """One leader writes, under one epoch, and every node knows which one it is."""
    told = [nodes.operate(name, "GET", "/v1/nodes").json() for name in NAMES]
    assert len({(each["leader"], each["epoch"]) for each in told}) == 1
    assert [sum(node["leads"] for node in each["items"]) for each in told] == [1, 1, 1]
    assert str(told[0]["epoch"]) == database.sql("SELECT epoch FROM duenotice.head")


def test_N02_an_append_whose_answer_was_lost_is_done_once(nodes: Trio) -> None:
    """The operator gets the true answer, and there is one event."""
    before = set(ids(nodes, "a"))
    line = nodes.lines[nodes.leader()]
    lost, line.loses_next_answer = line.lost, True
    event = scheduled(nodes, "b")
    assert line.lost == lost + 1
    assert set(ids(nodes, "c")) == before | {event}


def test_N03_a_new_process_of_a_node_puts_the_old_one_out(nodes: Trio, database: Database, tmp_path: Path) -> None:
    """The old process, which stood still meanwhile, ends and says why."""
    name = next(name for name in nodes.others() if name != "a")  # the operator has the token of a
    own = tmp_path / "admin.token"
    own.touch(0o600)
    own.write_text(nodes.servers[name].token)
    nodes.servers[name].freeze()
    second = Server(tmp_path, FLEET, journal=database.url, node=name, lease=LEASE)
    second.wait_until_serving()
    nodes.servers[name].thaw()
    assert nodes.servers[name].ended() != 0
    assert "Another process has registered as this node" in nodes.servers[name].log()
    second.stop()
    nodes.start(name)


def test_N04_another_node_leads_when_the_leader_was_killed(nodes: Trio) -> None:
    """After a lease, without anybody's help; what was answered is there (S5)."""
    old = nodes.leader()
    event = scheduled(nodes, old)
    nodes.servers[old].kill()
    new = nodes.leader(but=old)
    assert new != old
    assert event in ids(nodes, new)
    nodes.start(old)


def test_N05_a_node_without_the_database_answers_503_after_a_lease(nodes: Trio) -> None:
    """With Retry-After; /readyz says it too, /livez does not. It answers again when the database is back."""
    name = nodes.others()[0]
    nodes.lines[name].cut()
    wait_until(lambda: nodes.poll(name, ME).status == 503)
    answer = nodes.poll(name, ME)
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    operator = nodes.servers[name].operator
    assert [ask(operator, "GET", path).status for path in ("/readyz", "/livez")] == [503, 200]
    nodes.lines[name].mend()
    wait_until(lambda: nodes.poll(name, ME).status == 200)


def test_N06_what_one_node_shows_no_other_node_shows_older(nodes: Trio) -> None:
    """When a change is answered at one node, a poll of any other node sees it at once (S27)."""
    for number in range(12):
        event = scheduled(nodes, NAMES[number % 3])
        assert all(event in ids(nodes, name) for name in NAMES)
    assert len({nodes.poll(name, ME).body for name in NAMES}) == 1


def test_N07_a_leader_that_is_stopped_hands_over_at_once(nodes: Trio) -> None:
    """The next command at another node needs no second try; the node joins again before it answers."""
    old, other = nodes.leader(), nodes.others()[0]
    nodes.servers[old].stop()
    event = scheduled(nodes, other)
    nodes.start(old)
    assert event in ids(nodes, old)


def test_N09_commands_and_approvals_work_at_every_node(nodes: Trio) -> None:
    """The answer says which node did it: the one that leads."""
    leader = nodes.leader()
    for name in NAMES:
        answer = nodes.operate(name, "POST", "/v1/events", REBOOT)
        assert (answer.status, answer.headers["duenotice-node"]) == (201, leader)
        event = answer.json()["events"][0]["id"]
        assert nodes.approve(name, ME, event).status == 200
        shown = {each["EventId"]: each["EventStatus"] for each in nodes.poll(name, ME).json()["Events"]}
        assert shown[event] == "Started"


def test_N09_a_leader_that_stood_still_passes_on_what_it_is_asked_when_it_wakes(nodes: Trio) -> None:
    """It has not done it and does not refuse it, so nobody needs a second try."""
    old = nodes.leader()
    nodes.servers[old].freeze()
    new = nodes.leader(but=old)
    event = scheduled(nodes, new)
    nodes.servers[old].thaw()
    answer = nodes.operate(old, "POST", f"/v1/events/{event}/cancel", {})
    assert (answer.status, answer.headers["duenotice-node"]) == (200, new)


def test_N09_another_process_cannot_give_commands_as_a_node(nodes: Trio) -> None:
    """Only a node knows the life of a node."""
    body = {"kind": "LiftIncarnations", "actor": "me", "command": {"to": 4_000_000_000}}
    for headers in ({}, {"Duenotice-Life": "a"}, {"Duenotice-Life": ""}):
        assert ask(nodes.servers[nodes.leader()].operator, "POST", "/v1/nodes/commands", body, headers).status == 401


def test_N12_who_has_subscribed_is_told_by_the_leader_and_then_by_the_next(nodes: Trio) -> None:
    """Made at any node, told once by the one that leads; what happens after it was killed is told by the next."""
    nodes.poll("a", ME)
    with PushReceiver() as receiver:
        asked = {"url": receiver.url, "format": "cloudevents"}
        made = nodes.operate(nodes.others()[0], "POST", "/v1/subscriptions", asked)
        assert made.status == 201, made
        old, which = nodes.leader(), f"/v1/subscriptions/{made.json()['id']}"
        first = scheduled(nodes, old)
        receiver.wait(lambda: receiver.statuses(first) == ["Scheduled"])
        position = nodes.operate(old, "GET", f"/v1/events/{first}/history").json()["items"][0]["position"]
        wait_until(lambda: nodes.operate(old, "GET", which).json()["position"] >= position)
        nodes.servers[old].kill()
        second = scheduled(nodes, nodes.leader(but=old))
        receiver.wait(lambda: receiver.statuses(second) == ["Scheduled"])
        told = [each.told[0] for each in receiver.taken]  # events of earlier tests may end meanwhile
        assert [event for event in told if event in (first, second)] == [first, second]
        nodes.start(old)
        nodes.wait_until_whole()
        assert nodes.operate(old, "DELETE", which).status == 204


def test_N13_keys_and_tokens_hold_at_every_node(nodes: Trio) -> None:
    """The same request at three nodes is done once and has one answer; each node's token counts everywhere."""
    assert len({scheduled(nodes, name, key="only-once") for name in NAMES}) == 1
    for server in nodes.servers.values():
        headers = {"Authorization": f"Bearer {server.token}"}
        assert [ask(other.operator, "GET", "/v1/me", None, headers).status for other in nodes.servers.values()] == [
            200,
            200,
            200,
        ]


def incarnation(nodes: Trio, name: str) -> int:
    return int(nodes.poll(name, ME).json()["DocumentIncarnation"])


def test_N14_what_the_database_has_lost_is_forgotten_and_incarnations_go_ahead(nodes: Trio, database: Database) -> None:
    """All nodes see it by themselves and go on from what is there; no VM takes a new document for an old one (S3)."""
    kept = scheduled(nodes, "a")
    position = database.sql("SELECT position FROM duenotice.head")
    lost = scheduled(nodes, "b")
    before = max(incarnation(nodes, name) for name in NAMES)
    for line in nodes.lines.values():
        line.cut()
    database.sql(
        f"DELETE FROM duenotice.records WHERE position > {position};"
        f"UPDATE duenotice.head SET position = {position}, shown = least(shown, {position})"
    )
    for line in nodes.lines.values():
        line.mend()
    wait_until(lambda: "incarnations-lifted" in database.sql("SELECT change FROM duenotice.history"))
    nodes.wait_until_whole()
    assert min(incarnation(nodes, name) for name in NAMES) > before
    assert [(kept in ids(nodes, name), lost in ids(nodes, name)) for name in NAMES] == [(True, False)] * 3
    assert scheduled(nodes, "c") in ids(nodes, "a")


def test_N15_without_a_database_nothing_is_done_and_all_comes_back_by_itself(nodes: Trio) -> None:
    """Commands are 503 and have no effect; polls and commands work again soon after."""
    before = ids(nodes, "a")
    for line in nodes.lines.values():
        line.cut()
    answers = [nodes.operate(name, "POST", "/v1/events", REBOOT) for name in NAMES]
    assert {answer.status for answer in answers} == {503}
    assert all("title" in json.loads(answer.body) for answer in answers)
    for line in nodes.lines.values():
        line.mend()
    wait_until(lambda: all(nodes.is_ready(name) for name in NAMES), 10)
    assert set(ids(nodes, "b")) <= set(before)
    scheduled(nodes, "c")
