"""Answers for what is hard to provoke over HTTP: keys in crowds, requests that are given up, errors as problems."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from starlette.requests import Request
from starlette.responses import Response
from structlog.testing import capture_logs

from duenotice.domain.token import Role, Token
from duenotice.engine.engine import Engine
from duenotice.errors import Damaged, DuenoticeError, InvariantBroken, Misconfigured, NotFound, Refused, Unavailable
from duenotice.operator_api.answers import KeptAnswers, Reply, Resource, on_error, problem
from tests.unit.domain.build import DAY, MINUTE
from tests.unit.engine.rig import SettableClock, listen, reboot, running


class Work:
    """Something that may be done; counts how often it was."""

    def __init__(self, error: Exception | None = None) -> None:
        self.times = 0
        self._error = error

    async def __call__(self) -> Response:
        self.times += 1
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        return Response(b"x" * 100, 201)


async def nothing_kept(_: str) -> None:
    """A journal without answers."""


def asked(key: str, method: str = "POST") -> Request:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    headers = [(b"idempotency-key", key.encode()), (b"host", b"here")]
    scope = {"type": "http", "method": method, "path": "/v1/x", "query_string": b"", "headers": headers}
    request = Request(scope, receive)
    request.state.actor, request.state.body = "token/admin", b"{}"
    request.state.token = Token("T-1", "admin", Role.ADMIN, "", datetime(2026, 1, 1, tzinfo=UTC))
    return request


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await story()

    asyncio.run(whole())


def test_who_comes_while_it_is_being_done_waits_for_the_same_answer() -> None:
    async def story() -> None:
        answers, work = KeptAnswers(nothing_kept), Work()
        got = await asyncio.gather(*(answers.once(asked("k"), work) for _ in range(5)))
        assert [answer.status_code for answer in got] == [201] * 5
        assert work.times == 1

    run(story)


def test_who_waits_for_a_refusal_is_refused_too_and_may_ask_again() -> None:
    async def story() -> None:
        answers, work = KeptAnswers(nothing_kept), Work(Refused("No."))
        got = await asyncio.gather(*(answers.once(asked("k"), work) for _ in range(3)), return_exceptions=True)
        assert [type(answer) for answer in got] == [Refused] * 3
        with pytest.raises(Refused):
            await answers.once(asked("k"), work)
        assert work.times == 2

    run(story)


def test_a_cancelled_request_leaves_nobody_waiting() -> None:
    async def story() -> None:
        answers, never = KeptAnswers(nothing_kept), asyncio.Event()

        async def wait() -> Response:
            await never.wait()
            return Response()

        first = asyncio.create_task(answers.once(asked("k"), wait))
        await asyncio.sleep(0.01)
        second = asyncio.create_task(answers.once(asked("k"), wait))
        await asyncio.sleep(0.01)
        first.cancel()
        with pytest.raises(ConnectionError):
            await second

    run(story)


def test_only_a_post_has_a_key() -> None:
    async def story() -> None:
        answers, work = KeptAnswers(nothing_kept), Work()
        for _ in range(2):
            await answers.once(asked("k", "PUT"), work)
        assert work.times == 2

    run(story)


class Events(Resource):
    """Raises an event for each request that is done."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.times = 0

    async def ask(self) -> Response:
        request = asked("k")
        return await KeptAnswers(self._engine.answered).once(request, lambda: self._raise(request))

    async def _raise(self, request: Request) -> Response:
        self.times += 1
        return await self._raised(request, reboot("alone", self.times))


@pytest.mark.parametrize(("days", "lasts"), [(3, 1), (-3, 4)])
def test_a_clock_that_is_set_between_two_tries_does_not_make_it_two_requests(days: int, lasts: int) -> None:
    """Its answer was lost on the way, and a minute later the time of day is another (S6).

    The answer is kept for a day, and longer if the time of day was set back (S34).
    """

    async def story() -> None:
        clock = SettableClock()
        async with running(clock=clock) as engine:
            await listen(engine, "alone")
            events = Events(engine)
            first = await events.ask()
            clock.pass_by(MINUTE)
            clock.set_wall(days * DAY)
            assert ((await events.ask()).body, events.times) == (first.body, 1)
            clock.pass_by(lasts * DAY)
            await events.ask()
            assert events.times == 2

    run(story)


def test_what_leaves_the_fleet_with_what_was_due_in_that_moment_is_not_found() -> None:
    """The command is done, and its answer would have been about what is not there any more. Found by the simulator."""

    async def story() -> None:
        async with running() as engine:
            await listen(engine, "alone")
            request = asked("k")

            def build(*_: object) -> Reply:
                raise NotFound("There is no VM named 'alone'.")

            class Toy(Resource):
                async def ask(self) -> Response:
                    return await self._done(request, reboot("alone", 1), build)

            with capture_logs() as logs, pytest.raises(NotFound, match="no VM named 'alone'"):
                await KeptAnswers(engine.answered).once(request, Toy(engine).ask)
            assert not [line for line in logs if line["log_level"] == "error"]

    run(story)


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
