"""What an answer of the operator's API means."""

import ssl
from types import NoneType

import pytest

from duenotice.client.operator.answers import failure_of, problem_in, value_in
from duenotice.client.operator.errors import CallFailed, Denied, ForeignAnswer, NoAnswer, NotReached, UnknownToken
from duenotice.client.operator.errors import least_pause as pause
from duenotice.errors import Conflict, DuenoticeError, Malformed, NotFound, Refused, Unavailable
from duenotice.http.flow import ConnectionClosed
from duenotice.http.http1 import ProtocolError, Response
from duenotice.wire.operator import Health

SAID = b'{"type":"about:blank","status":0,"title":"It is so.","hint":"Do this."}'
HERE = "http://h"


def answer(status: int, body: bytes = b"", **headers: str) -> Response:
    return Response(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def test_a_good_answer_is_a_value_of_the_type_that_was_asked_for() -> None:
    assert value_in(answer(200, b'{"status":"ok"}'), Health, HERE) == Health("ok")
    assert value_in(answer(201, b"raw"), bytes, HERE) == b"raw"
    assert value_in(answer(200, b"\xc3\xa4"), str, HERE) == "ä"
    assert value_in(answer(204), NoneType, HERE) is None


def test_what_a_newer_service_adds_is_left_aside() -> None:
    assert value_in(answer(200, b'{"status":"ok","more":1}'), Health, HERE) == Health("ok")


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"status":7}', b"{}", b"\xff", b"[" * 100_000])
def test_another_shape_is_foreign(body: bytes) -> None:
    with pytest.raises(ForeignAnswer, match="Cannot read an answer of http://h") as caught:
        value_in(answer(200, body), Health, HERE)
    assert "another version" in caught.value.hint or "same version" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, ForeignAnswer),
        (400, Malformed),
        (401, UnknownToken),
        (403, Denied),
        (404, NotFound),
        (405, CallFailed),
        (409, Conflict),
        (413, Malformed),
        (422, Refused),
        (429, Unavailable),
        (500, CallFailed),
        (502, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
    ],
)
def test_each_status_has_its_error(status: int, kind: type[DuenoticeError]) -> None:
    """The table of docs/operator-client.md."""
    assert type(problem_in(answer(status, SAID), HERE)) is kind


def test_the_services_words_and_hint_reach_the_caller() -> None:
    error = problem_in(answer(404, SAID), HERE)
    assert (error.message, error.hint) == ("It is so.", "Do this.")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b"null", b'{"hint":1}', b"[" * 100_000])
def test_without_its_words_the_status_is_said_and_the_port_is_doubted(body: bytes) -> None:
    """The port for VMs and a proxy answer too."""
    error = problem_in(answer(404, body), HERE)
    assert error.message == "The service answers 404."
    assert error.hint.startswith("Is that the operator's port?")


@pytest.mark.parametrize(("said", "seconds"), [("30", 30.0), ("", 1.0), ("Mon, 19 Sep 2016 18:29:47 GMT", 1.0)])
def test_unavailable_says_when_to_come_back(said: str, seconds: float) -> None:
    error = problem_in(answer(503, SAID, retry_after=said), HERE)
    assert isinstance(error, Unavailable)
    assert error.retry_after == seconds


@pytest.mark.parametrize(
    ("failure", "kind", "words"),
    [
        (TimeoutError(), NoAnswer, "http://h did not answer in 3 s."),
        (ConnectionClosed(), NotReached, "Cannot reach duenotice at http://h: the connection ended before an answer."),
        (ConnectionRefusedError(111, "x"), NotReached, "Cannot reach duenotice at http://h: Connection refused."),
        (UnicodeError("label too long"), NotReached, "Cannot reach duenotice at http://h: label too long."),
        (ProtocolError("it ends halfway"), ForeignAnswer, "The answer of http://h is not valid: it ends halfway."),
        (ssl.SSLError(1, "wrong version"), NotReached, "Cannot reach duenotice at http://h: wrong version."),
    ],
)
def test_each_failure_on_the_way_has_its_error(failure: Exception, kind: type[DuenoticeError], words: str) -> None:
    error = failure_of(failure, HERE, 3.0)
    assert type(error) is kind
    assert error.message == words
    assert error.hint


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Unavailable(retry_after=7.0), 7.0),
        (NotReached(retry_after=0.0), 0.0),
        (ForeignAnswer(), 0.0),
        (NotFound(), None),
        (Denied(), None),
        (CallFailed(), None),
    ],
)
def test_asking_again_helps_only_where_it_may_have_been_bad_luck(error: DuenoticeError, seconds: float | None) -> None:
    assert pause(error) == seconds
