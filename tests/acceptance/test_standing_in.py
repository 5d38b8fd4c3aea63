"""What the operator does in a VM's place, or to its client: listen for it, and answer it wrongly on purpose."""

import pytest

from duenotice.errors import Malformed, Misconfigured
from tests.acceptance.conftest import DEMO
from tests.support.node import Node


def test_listen_stands_in_for_the_first_poll(node: Node) -> None:
    """From then on a restart is told before it happens (F01), and the journal knows who asked for it."""
    assert node.operate("/v1/vms/db-0", method="GET")["listens"] is False
    assert node.operate("/v1/vms/db-0/listen")["listens"] is True
    assert node.operate("/v1/vms/db-0/listen")["listens"] is True
    (event,) = node.operate("/v1/vms/db-0/restart")
    assert event["resources"] == ["db-0"]
    (record,) = node.operate("/v1/audit?action=scope-enabled", method="GET")
    assert record["actor"] == "token/admin"


def test_listen_counts_as_a_poll_for_the_24_hours(node: Node) -> None:
    """Also on a service that has run for days, and again for a scope that listens already (F02)."""
    node.advance("3d")
    for _ in range(2):
        node.operate("/v1/vms/db-0/listen")
        node.advance("23h59m")
        assert node.operate("/v1/vms/db-0", method="GET")["listens"] is True
    node.advance("1m")
    assert node.operate("/v1/vms/db-0", method="GET")["listens"] is False


def test_nobody_can_listen_for_a_vm_that_is_not_there(node: Node) -> None:
    """A refusal, as of every call."""
    assert node.refusal("/v1/vms/nobody/listen") == (404, "There is no VM named 'nobody'.")


def test_a_vm_is_answered_wrongly_where_that_is_allowed() -> None:
    """For as long as asked for; the others never notice."""
    with Node(DEMO, allow_faults=True) as node:
        answer = node.operator("PUT", "/v1/vms/db-0/fault", {"answer": "410", "for": "20s"}).json()
        assert (answer["vm"], answer["answer"]) == ("db-0", "410")
        assert [node.get(vm).status for vm in ("db-0", "db-1")] == [410, 200]
        node.advance("20s")
        assert node.get("db-0").status == 200
        node.operate("/v1/vms/db-0/fault", {"answer": "empty", "for": "20s"}, "PUT")
        assert node.get("db-0").body == b""
        node.operate("/v1/vms/db-0/fault", method="DELETE")
        assert node.events("db-0") == []
        wrong = node.refusal("/v1/vms/db-0/fault", {"answer": "418", "for": "20s"}, "PUT")
        assert wrong == (400, "'418' is not a fault.")


def test_a_service_not_started_for_it_answers_nobody_wrongly(node: Node) -> None:
    """The default."""
    body = {"answer": "500", "for": "20s"}
    assert node.refusal("/v1/vms/db-0/fault", body, "PUT") == (422, "This service does not allow faults.")
    assert node.refusal("/v1/vms/db-0/fault", method="DELETE")[0] == 422
    assert node.get("db-0").status == 200


def test_incarnations_can_jump_where_that_is_allowed() -> None:
    """Far ahead, as after a restore (S3); elsewhere it is refused and they stay."""
    with Node(DEMO, allow_faults=True) as node:
        before = node.get("db-0").json()["DocumentIncarnation"]
        told = node.operate("/v1/vms/db-0/jump")
        assert told == {"vm": "db-0", "incarnation": node.get("db-0").json()["DocumentIncarnation"]}
        assert told["incarnation"] > before + 1
    with Node(DEMO) as node:
        assert node.refusal("/v1/vms/db-0/jump")[0] == 422


def test_everybody_can_be_answered_wrongly_from_the_start() -> None:
    """The setting `fault`, where faults are allowed; else the node does not start."""
    with Node(DEMO, allow_faults=True, fault="503") as node:
        assert [node.get(vm).status for vm in ("db-0", "web-0")] == [503, 503]
    with pytest.raises(Misconfigured, match="needs allow_faults"), Node(DEMO, fault="503"):
        pass
    with pytest.raises(Malformed, match="'nothing' is not a fault"), Node(DEMO, allow_faults=True, fault="nothing"):
        pass
