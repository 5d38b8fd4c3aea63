"""Section F: whether anybody listens."""

from datetime import timedelta
from time import monotonic

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.node import HEADER, Node, start_requests

DELAY = 0.2


def listens(node: Node, vm: str) -> bool:
    """Whether the scope of a VM is on: then a user's restart raises an event (which is taken back)."""
    events = node.operate(f"/v1/vms/{vm}/restart")
    for event in events:
        node.operate(f"/v1/events/{event['id']}/cancel")
    return bool(events)


def seconds_to_answer(node: Node, vm: str) -> float:
    """How long a VM waits for its document."""
    begin = monotonic()
    assert node.get(vm).status == 200
    return monotonic() - begin


# F01


def test_F01_the_first_request_turns_a_scope_on(node: Node):
    """A scope is off until one of its VMs asks; then it is on, and other scopes are still off."""
    assert not listens(node, "web-0")
    node.get("web-0")
    assert listens(node, "web-0")
    assert not listens(node, "me")


def test_F01_one_vm_turns_it_on_for_its_whole_scope(node: Node):
    """It is enough that one VM of the scope asks."""
    node.get("web-4")
    assert listens(node, "web-0")


@pytest.mark.parametrize("version", ["2017-03-01", "2019-08-01", "2020-07-01"])
def test_F01_any_version_turns_it_on(node: Node, version: str):
    """The api-version of the request does not matter."""
    node.get("me", version)
    assert listens(node, "me")


def test_F01_an_approval_turns_it_on_too(node: Node):
    """A POST is a request as well, even one that approves nothing."""
    node.post("me", start_requests("x"))
    assert listens(node, "me")


def test_F01_other_requests_do_not_turn_it_on(node: Node):
    """Instance metadata and refused requests do not count."""
    node.ask("me", "GET", "/metadata/instance?api-version=2021-12-13")
    node.get("me", headers={})
    node.get("me", "latest")
    assert not listens(node, "me")


def test_F01_the_first_answer_is_prompt_by_default(node: Node):
    """Unless set otherwise the first answer is not late and has the document."""
    assert node.get("me").body == b'{"DocumentIncarnation":0,"Events":[]}'


def test_F01_the_first_answer_can_be_late():
    """A setting makes the first answer of a scope late; later ones, of its other VMs too, are prompt."""
    with Node(DEMO, first_answer_delay=DELAY) as node:
        assert seconds_to_answer(node, "web-0") >= DELAY
        assert min(seconds_to_answer(node, vm) for vm in ("web-0", "web-1", "web-2")) < DELAY
        assert seconds_to_answer(node, "me") >= DELAY


def test_F01_the_first_answer_can_be_empty():
    """Another setting makes it an empty 200, as the real service sometimes does."""
    with Node(DEMO, first_answer_empty=True) as node:
        first = node.get("web-0")
        assert (first.status, first.body) == (200, b"")
        assert node.get("web-1").body == b'{"DocumentIncarnation":0,"Events":[]}'


# F02


def test_F02_a_day_of_silence_turns_it_off(node: Node):
    """Without a request for 24 hours the scope is off; one second earlier it is not."""
    node.get("me")
    node.advance("23h59m59s")
    assert listens(node, "me")
    node.advance("1s")
    assert not listens(node, "me")


@pytest.mark.parametrize("tag", [None, '"0"'])
def test_F02_each_request_counts_from_anew(node: Node, tag: str | None):
    """Every poll, also one that is answered 304, keeps the scope on for another day."""
    headers = HEADER if tag is None else HEADER | {"If-None-Match": tag}
    for _ in range(3):
        assert node.get("me", headers=headers).status in (200, 304)
        node.advance("23h")
    assert listens(node, "me")


def test_F02_an_approval_counts_too(node: Node):
    """So does an approval."""
    node.get("me")
    event_id = node.schedule("Reboot", "me", not_before=(node.now() + timedelta(days=9)).isoformat())
    node.advance("23h")
    node.approve("me", event_id)
    node.advance("23h")
    assert listens(node, "me")


def test_F02_one_vm_keeps_its_scope_on(node: Node):
    """It is enough that one VM of the scope still asks, and that does not keep other scopes on."""
    node.enable("web-0", "me")
    node.advance("12h")
    node.get("web-3")
    node.advance("12h")
    assert (listens(node, "web-0"), listens(node, "me")) == (True, False)


def test_F02_it_can_be_turned_on_again(node: Node):
    """The next request turns it on again."""
    node.get("me")
    node.advance("24h")
    node.get("me")
    assert listens(node, "me")


# F03


def test_F03_while_off_maintenance_does_not_wait(node: Node):
    """Nobody listens, so the notice is not waited out: the event starts at once."""
    event_id = node.schedule("Reboot", "me")
    assert node.operate(f"/v1/events/{event_id}", method="GET")["phase"] == "started"
    assert node.statuses("me") == ["Started"]


def test_F03_while_off_an_eviction_does_not_wait(node: Node):
    """A spot VM that does not listen is gone after the eviction itself."""
    node.operate("/v1/vms/render-0/evict")
    node.advance("30s")
    assert node.get("127.0.1.20").status == 404


@pytest.mark.parametrize("operation", ["restart", "redeploy", "delete"])
def test_F03_while_off_user_operations_raise_no_event(node: Node, operation: str):
    """What a user does to a VM of a scope that is off is done without an event."""
    assert node.operate(f"/v1/vms/workers_0/{operation}") == []
    assert node.events("workers_1") == []


def test_F03_while_off_a_redeploy_takes_effect_at_once(node: Node):
    """The VM is on another host afterwards: a failure of the old one does not hit it."""
    node.operate("/v1/vms/db-0/redeploy")
    node.operate("/v1/hosts/host-1/fail")
    assert node.events("db-0") == []


def test_F03_while_off_a_delete_takes_effect_at_once(node: Node):
    """The VM is gone."""
    node.operate("/v1/vms/workers_0/delete")
    assert node.get("127.0.32.1").status == 404


def test_F03_the_incarnation_goes_on_when_it_is_turned_on_again(node: Node):
    """Off and on again, the incarnation counts on from where it was."""
    node.get("me")
    event_id = node.schedule("Reboot", "me")
    node.operate(f"/v1/events/{event_id}/cancel")
    assert node.incarnation("me") == 2
    node.advance("25h")
    assert not listens(node, "me")
    assert node.incarnation("me") == 2
    node.schedule("Reboot", "me")
    assert node.incarnation("me") == 3
