"""One node and two followers as real processes: they are killed and stopped, and no VM ever goes back (S3, S27)."""

import http.client
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.followers.flock import LEASE, Asked, Flock, Walker, changes, flock, said_at_start, until
from tests.support.node import SECONDS, events_at, wire
from tests.support.served import wait_until

ROUNDS = 4


@pytest.fixture
def herd(tmp_path: Path) -> Iterator[Flock]:
    """A node that can be followed."""
    with flock(tmp_path) as made:
        yield made


def may_answer(door: Asked, vm: str = "db-0") -> bool:
    return door.get(vm).status == 200


def test_a_vm_reads_the_same_bytes_from_a_follower_as_from_its_node(herd: Flock) -> None:
    """As soon as the operator has the answer, on every door; a follower of one host knows the VMs of that host only."""
    whole, part = herd.follower(), herd.follower(only="host=h1")
    for vm in ("db-0", "web-0"):
        whole.enable(vm)
        changes(herd.node, vm)
        herd.node.operate("/v1/events", {"type": "Freeze", "resources": [vm]})
        bodies = {door.get(vm).body for door in (herd.node, whole, part)}
        assert len(bodies) == 1 and b"Freeze" in bodies.pop()
    assert whole.get("web-1").body == herd.node.get("web-1").body
    with whole.connect("db-0") as waiting:  # a held poll is answered with the new document, and not with 503
        known = whole.get("db-0").headers["etag"]
        asked = f"GET {events_at()}&wait=30s HTTP/1.1"
        waiting.send(wire(asked, "Host: a", "Metadata: true", f"If-None-Match: {known}"))
        herd.node.operate("/v1/events", {"type": "Redeploy", "resources": ["db-0"]})
        answer = waiting.answer()
        assert (answer.status, b"Redeploy" in answer.body) == (200, True)
    assert [part.get(vm).status for vm in ("db-1", "web-1")] == [404, 404]


def test_a_follower_passes_on_what_vms_and_operators_ask(herd: Flock) -> None:
    """The first poll, an approval, and any call of the API; what the rules forbid is refused alike (N09)."""
    follower = herd.follower(only="host=h1")
    assert herd.node.operate("/v1/vms/db-0", method="GET")["listens"] is False
    follower.enable("db-0")
    assert herd.node.operate("/v1/vms/db-0", method="GET")["listens"] is True
    (event,) = follower.operate("/v1/events", {"type": "Reboot", "resources": ["db-0"]})
    follower.enable("web-0")
    refused = [door.approve("web-0", event["id"]) for door in (follower, herd.node)]
    assert [answer.status for answer in refused] == [400, 400]
    assert refused[0].body == refused[1].body
    assert follower.approve("db-0", event["id"]).status == 200
    assert [door.statuses("db-0") for door in (follower, herd.node)] == [["Started"], ["Started"]]


def test_cut_off_it_answers_503_after_the_lease_and_comes_back_by_itself(herd: Flock) -> None:
    """Until then it goes on; nothing is answered 200 without the right to (N05)."""
    follower = herd.follower()
    follower.enable("db-0")
    herd.node.server.freeze()
    assert may_answer(follower)
    wait_until(lambda: not may_answer(follower))
    answer = follower.get("db-0")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    herd.node.server.thaw()
    wait_until(lambda: may_answer(follower))
    herd.node.server.kill()
    assert follower.operator("GET", "/v1/fleet").status == 503
    herd.start_node()
    wait_until(lambda: may_answer(follower))
    changes(herd.node, "db-0")
    wait_until(lambda: follower.get("db-0").body == herd.node.get("db-0").body)  # a busy machine may cost it a lease


def test_what_was_asked_while_it_was_stopped_gets_nothing_old_when_it_wakes(herd: Flock) -> None:
    """The request is there before it can look at anything else, and its right is over by then (N05, S27)."""
    follower = herd.follower()
    ask = f"GET {events_at()} HTTP/1.1\r\nHost: x\r\nMetadata: true\r\n\r\n".encode()
    with follower.connect("db-0") as line:
        for _ in range(3):  # from the second time on it takes the short way
            line.send(ask)
            assert line.answer().status == 200
        for _ in range(3):
            follower.server.freeze()
            line.send(ask)
            changes(herd.node, "db-0")  # shown when the follower has been put out
            newest = herd.node.get("db-0").body
            follower.server.thaw()
            answer = line.answer()
            assert answer.status == 503 or answer.body == newest, answer
            wait_until(lambda: may_answer(follower))
            line.send(ask)
            assert line.answer().body == newest


def test_a_scope_that_asks_only_a_follower_is_not_silent(tmp_path: Path) -> None:
    """Its node hears of the polls and keeps it on; one that asks nobody for 24 hours is turned off (F02, N11)."""
    with flock(tmp_path, clock="10000x") as herd:  # a day is nine seconds
        follower = herd.follower()
        follower.enable("db-0", "db-1")

        def is_off(vm: str) -> bool:
            assert follower.get("db-0").status == 200
            return not herd.node.operate(f"/v1/vms/{vm}", method="GET")["listens"]

        wait_until(lambda: is_off("db-1"))
        over = until(12.0)
        wait_until(lambda: is_off("db-0") or time.monotonic() > over)
        off = herd.node.operate("/v1/audit?action=scope-disabled", method="GET")
        assert {each["details"]["scope"] for each in off} == {"vm/db-1"}
        assert not is_off("db-0")


def test_a_follower_that_died_delays_a_change_by_a_lease_and_no_more(herd: Flock) -> None:
    """Nobody knows that it is dead; it might still answer."""
    follower = herd.follower()
    follower.enable("db-0")
    follower.server.kill()
    began = time.monotonic()
    changes(herd.node, "db-0")
    assert LEASE / 4 < time.monotonic() - began < 4 * LEASE
    leaver = herd.follower()
    leaver.enable("db-0")
    leaver.server.stop()
    began = time.monotonic()
    changes(herd.node, "db-0")
    assert time.monotonic() - began < LEASE / 2, "one that ended cleanly is not waited for"


@pytest.mark.timeout(300)
def test_a_vm_that_asks_any_of_three_never_goes_back(herd: Flock) -> None:
    """While one of them is killed, or stopped past the lease and continued, and events come and go all the time."""
    seed = random.randrange(2**32)
    chance, story = random.Random(seed), [f"seed {seed}"]
    kinds = [{}, {"only": "host=h1"}]
    doors = [herd.node, *(herd.follower(**kind) for kind in kinds)]
    herd.node.enable("db-0", "web-0")
    walkers = [Walker(vm, doors, chance.randrange(2**32)) for vm in ("db-0", "web-0", "db-0")]
    for walker in walkers:
        walker.start()
    for number in range(ROUNDS):
        victim = chance.choice((0, 1, 2))
        how = chance.choice(("kill", "stop"))
        story.append(f"{number}: {how} {victim}")
        _hurt(herd, doors, kinds, victim, how)
        wait_until(lambda: all(may_answer(door) for door in doors))
    for walker in walkers:
        walker.finish()
    assert [walker.wrong for walker in walkers] == [[], [], []], story
    read = [(walker.answers, walker.newest) for walker in walkers]
    assert all(answers > 5 * ROUNDS and newest > ROUNDS for answers, newest in read), (read, story)


def _hurt(herd: Flock, doors: list[Asked], kinds: list[dict[str, str]], victim: int, how: str) -> None:
    changes(herd.node, "db-0")
    server = doors[victim].server
    if how == "stop":
        server.freeze()
    else:
        server.kill()
    over = until(1.5 * LEASE)
    while time.monotonic() < over:
        if victim:
            changes(herd.node, "db-0")
            changes(herd.node, "web-0")
        time.sleep(0.05)
    if how == "stop":
        server.thaw()
    elif victim:
        doors[victim] = herd.follower(**kinds[victim - 1])
    else:
        doors[0] = herd.start_node()
    for vm in ("db-0", "web-0"):
        changes(herd.node, vm)


BAD = {
    "a token of another role": ("viewer", "has the role viewer; this needs follower"),
    "a token that nobody knows": ("", "This needs a token"),
}


@pytest.mark.parametrize("case", BAD)
def test_who_may_not_follow_is_told_in_one_clear_line(herd: Flock, tmp_path: Path, case: str) -> None:
    role, said = BAD[case]
    file = tmp_path / "token"
    made = (
        {"token": "dn_nobody_knows_this_one"}
        if not role
        else herd.node.operate("/v1/tokens", {"name": "other", "role": role})
    )
    file.write_text(made["token"])
    status, text = said_at_start(f"--follow={herd.url}", f"--follow-token-file={file}")
    assert status != 0
    assert said in text
    assert len(text.strip().splitlines()) == 2, "what happened, and a hint"


def test_a_token_for_one_host_is_good_for_its_vms_alone(herd: Flock, tmp_path: Path) -> None:
    """Whoever has it learns nothing of other VMs, and can do nothing for them; and the follower is told so."""
    refused = herd.node.refusal("/v1/tokens", {"name": "x", "role": "follower", "only": "colour=red"})
    assert refused == (400, "'colour=red' chooses nothing.")
    made = herd.node.operate("/v1/tokens", {"name": "h1", "role": "follower", "only": "host=h1"})
    assert made["only"] == "host=h1"
    bound = Asked(herd.node.server, made["token"])
    for query, asked in {"": "everything", "?only=host%3Dh2": "only host=h2"}.items():
        for call in ("snapshot", "records"):
            status, title = bound.refusal(f"/v1/follow/{call}{query}", method="GET")
            assert (status, title) == (403, f"Token 'h1' is for host=h1 only, and this asks for {asked}.")
    assert bound.refusal("/v1/follow/command", {"vm": "db-1"})[0] == 404
    assert bound.operator("POST", "/v1/follow/command", {"vm": "db-0"}).status == 200
    (file := tmp_path / "token").write_text(made["token"])
    status, text = said_at_start(f"--follow={herd.url}", f"--follow-token-file={file}")
    assert status != 0
    assert "is for host=h1 only, and this asks for everything" in text
    assert "--only host=h1" in text
    part = herd.follower(only="host=h1", follow_token_file=file)
    assert [part.get(vm).status for vm in ("db-0", "db-1")] == [200, 404]


def test_a_revoked_follower_hears_nothing_more_and_nobody_can_speak_for_it(herd: Flock) -> None:
    """Its stream ends with its token; another token cannot say that it has gone, so its node still waits for it."""
    first, second = (herd.node.operate("/v1/tokens", {"name": name, "role": "follower"}) for name in ("one", "two"))
    one, two = Asked(herd.node.server, first["token"]), Asked(herd.node.server, second["token"])
    snapshot = one.operate("/v1/follow/snapshot", method="GET")
    after, node = snapshot["position"], snapshot["node"]
    line = http.client.HTTPConnection(*herd.node.operator_address, timeout=SECONDS)
    query = f"/v1/follow/records?after={after}&node={node}&life=me"
    line.request("GET", query, headers={"Authorization": f"Bearer {one.token}"})
    stream = line.getresponse()
    assert b"hello" in stream.readline()
    mine = {"life": "me", "node": node, "hidden": after}
    assert two.refusal("/v1/follow/beat", mine)[0] == 409
    assert two.operator("POST", "/v1/follow/beat", {"life": "me", "leaving": True}).status == 200
    assert one.operator("POST", "/v1/follow/beat", mine).status == 200
    herd.node.operate(f"/v1/tokens/{first['id']}", method="DELETE")
    stream.read()
    line.close()
    assert one.refusal("/v1/follow/beat", mine)[0] == 401


def test_a_follower_of_a_choice_that_cannot_be_made_is_told_so(herd: Flock) -> None:
    status, text = said_at_start(f"--follow={herd.url}", f"--follow-token-file={herd.token_file}", "--only=colour=red")
    assert status != 0
    assert "'colour=red' chooses nothing" in text


def test_settings_of_a_node_are_refused_for_a_follower(tmp_path: Path) -> None:
    """And those of a follower for a node."""
    assert "a follower has none" in said_at_start("--follow=http://127.0.0.1:1", "--fleet=x.toml")[1]
    assert "not the URL of a node" in said_at_start("--follow=nonsense")[1]
    assert "follow_token_file is not set" in said_at_start("--follow=http://127.0.0.1:1")[1]
    assert "for followers" in said_at_start("--only=host=h1", "--data-dir=:memory:")[1]


def test_vms_of_one_host_that_ask_different_doors_wait_for_each_other(herd: Flock) -> None:
    """C07: one approves at a follower, one at the node; both read Scheduled everywhere until then, and then Started."""
    follower = herd.follower()
    for vm in ("db-0", "web-0"):
        follower.enable(vm)

    def read() -> set[str]:
        doors = (herd.node, follower)
        return {status for door in doors for vm in ("db-0", "web-0") for status in door.statuses(vm)}

    herd.node.operate("/v1/maintenances", {"on": ["host=h1"], "type": "Reboot", "consent": "host"})
    for vm, door in (("db-0", follower), ("web-0", herd.node)):
        assert read() == {"Scheduled"}
        assert door.approve(vm, door.event(vm)["EventId"]).status == 200
    wait_until(lambda: read() == {"Started"})
