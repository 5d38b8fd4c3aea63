"""Errors as problems, for what cannot be provoked over HTTP at will."""

import asyncio
import json

import pytest
from starlette.requests import Request
from starlette.responses import Response

from duenotice.errors import Damaged, DuenoticeError, InvariantBroken, Misconfigured, Unavailable
from duenotice.operator_api.problems import on_error, problem

REQUEST = Request({"type": "http"})


def answer_to(error: Exception) -> Response:
    return asyncio.run(on_error(REQUEST, error))


@pytest.mark.parametrize(
    ("error", "status"),
    [(Misconfigured(), 422), (Damaged(), 500), (Unavailable(), 503), (InvariantBroken(), 500)],
)
def test_an_error_has_the_status_of_its_kind(error: DuenoticeError, status: int) -> None:
    answer = answer_to(error)
    assert answer.status_code == status
    assert json.loads(bytes(answer.body))["title"] == error.message


@pytest.mark.parametrize(("seconds", "header"), [(0.2, "1"), (1.0, "1"), (29.6, "30")])
def test_what_is_unavailable_says_when_to_come_back_in_whole_seconds(seconds: float, header: str) -> None:
    assert answer_to(Unavailable(retry_after=seconds)).headers["retry-after"] == header


def test_an_error_that_is_none_of_ours_tells_nothing_of_its_inside() -> None:
    answer = answer_to(KeyError("secret"))
    assert answer.status_code == 500
    assert b"secret" not in bytes(answer.body)


def test_a_problem_is_an_rfc_9457_one() -> None:
    answer = problem(418, "Short and stout.", "Tip it over.", {"X-Handle": "here"})
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-handle"] == "here"
    assert json.loads(bytes(answer.body)) == {
        "type": "about:blank",
        "status": 418,
        "title": "Short and stout.",
        "hint": "Tip it over.",
    }
