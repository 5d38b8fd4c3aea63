"""When a call is tried again: only where that is safe, and within its budget."""

from typing import Any

import pytest

from duenotice.client.operator.client import request_flow
from duenotice.client.operator.errors import CallFailed, Denied, ForeignAnswer, NoAnswer, NotReached
from duenotice.client.operator.request import OperatorRequest, delete, get, post, put
from duenotice.errors import DuenoticeError, NotFound, Unavailable
from duenotice.http.flow import ConnectionClosed
from duenotice.http.http1 import ProtocolError, Response
from duenotice.wire.operator import FleetChange, Health, NewToken, TokenRequest
from tests.unit.client.operator.operator_stage import OperatorStage, Service

GOOD = Response(200, {}, b'{"status":"ok"}')
ASK, DO = get(Health, "x"), post(Health, "x")
ONCE: list[OperatorRequest[Any]] = [
    put(FleetChange, "fleet", toml=""),
    delete("tokens", "A"),
    post(NewToken, "tokens", body=TokenRequest("a", "viewer"), once=True),
]


def always(answer: Response | Exception) -> Service:
    return lambda _: answer


def refusal(status: int, **headers: str) -> Response:
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"")


TABLE: list[tuple[Response | Exception, type[DuenoticeError], list[float]]] = [
    (ConnectionRefusedError(), NotReached, [0.0, 0.2, 0.6, 1.4, 3.0, 5.0, 7.0, 9.0]),
    (ConnectionClosed(), NotReached, [0.0, 0.2, 0.6, 1.4, 3.0, 5.0, 7.0, 9.0]),
    (ProtocolError("it ends halfway"), ForeignAnswer, [0.0, 0.2, 0.6, 1.4, 3.0, 5.0, 7.0, 9.0]),
    (refusal(503), Unavailable, [0.0, 1.0, 2.0, 3.0, 4.6, 6.6, 8.6]),
    (refusal(503, retry_after="4"), Unavailable, [0.0, 4.0, 8.0]),
    (refusal(429, retry_after="30"), Unavailable, [0.0]),
    (refusal(404), NotFound, [0.0]),
    (refusal(403), Denied, [0.0]),
    (refusal(500), CallFailed, [0.0]),
]


@pytest.mark.parametrize(("answer", "error", "tries"), TABLE)
@pytest.mark.parametrize("request_", [ASK, DO], ids=["GET", "POST"])
def test_what_may_pass_is_tried_again_and_what_cannot_is_not(
    request_: OperatorRequest[Any], answer: Response | Exception, error: type[DuenoticeError], tries: list[float]
) -> None:
    """The table of docs/operator-client.md, in seconds with the longest jitter."""
    stage = OperatorStage(always(answer))
    with pytest.raises(error):
        stage.play(request_flow(request_, stage.settings()))
    assert stage.times == tries


@pytest.mark.parametrize("request_", ONCE, ids=["PUT", "DELETE", "a secret"])
def test_what_is_not_safe_to_repeat_is_sent_once(request_: OperatorRequest[Any]) -> None:
    stage = OperatorStage(always(ConnectionClosed()))
    with pytest.raises(NotReached):
        stage.play(request_flow(request_, stage.settings()))
    assert (stage.times, stage.headers("Idempotency-Key")) == ([0.0], [""])


def test_all_tries_of_a_post_have_the_same_key_and_another_post_another() -> None:
    """So the service does it once (S6)."""
    stage = OperatorStage(lambda _: ConnectionClosed() if len(stage.sent) < 3 else GOOD)
    assert stage.play(request_flow(DO, stage.settings())) == Health("ok")
    assert stage.headers("Idempotency-Key") == ["key-0"] * 3
    stage.play(request_flow(DO, stage.settings()))
    assert stage.headers("Idempotency-Key")[-1] == "key-3"


def test_without_a_budget_there_is_one_try_and_no_key() -> None:
    """A key would be one more record in the journal, for nothing."""
    stage = OperatorStage(always(ConnectionClosed()))
    with pytest.raises(NotReached):
        stage.play(request_flow(DO, stage.settings(budget=0)))
    assert stage.headers("Idempotency-Key") == [""]


def test_a_try_has_its_timeout_and_the_last_ones_what_is_left_of_the_budget() -> None:
    stage = OperatorStage(always(TimeoutError()))
    with pytest.raises(NoAnswer, match=r"did not answer in 1\.4 s"):
        stage.play(request_flow(ASK, stage.settings(timeout=4.0, budget=10.0)))
    assert (stage.times, stage.now) == ([0.0, 4.2, 8.6], 1010.0)


def test_the_first_good_answer_ends_it() -> None:
    stage = OperatorStage(lambda _: refusal(503) if len(stage.sent) == 1 else GOOD)
    assert stage.play(request_flow(ASK, stage.settings())) == Health("ok")
    assert stage.times == [0.0, 1.0]
