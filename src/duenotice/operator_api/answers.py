"""How the operator's API answers: JSON, problems (RFC 9457), and each request with a key only once (S6).

An answer to a request that changes something is made in the same commit as the change, and stored under its
`Idempotency-Key` for a day of steady time. A refusal has changed nothing and is not kept. An answer that must not be
stored, such as a secret, is not kept either.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duenotice import errors
from duenotice.clock import Instant, micros_of
from duenotice.domain import commands as c
from duenotice.domain.records import EventRaised, RequestAnswered
from duenotice.domain.state import ANSWERS_KEPT, State
from duenotice.engine.engine import Engine, Receipt, Records
from duenotice.errors import InvariantBroken, Malformed, Refused
from duenotice.operator_api.calls import KEY, Room, actor_of
from duenotice.operator_api.large_body import LargeBody
from duenotice.wire import operator as o
from duenotice.wire.operator import from_domain
from duenotice.wire.operator.service import StoredAnswer, unpacked

JSON = "application/json"
RAISED = {201: o.Raised, 200: o.Raised}
"""The answers of what raises events, or none."""

STATUS: dict[type[errors.DuenoticeError], int] = {
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Refused: 422,
    errors.TooLarge: 413,
    errors.Malformed: 400,
    errors.Misconfigured: 422,
    errors.Damaged: 500,
    errors.Rewound: 503,
    errors.Unavailable: 503,
    errors.InvariantBroken: 500,
    errors.DuenoticeError: 500,
}

encode = msgspec.json.Encoder().encode


def shown(body: msgspec.Struct, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON that is always small; what may be larger than `bounds.LARGE_BYTES` is made aside."""
    return Response(encode(body), status, headers, JSON)


def problem(
    status: int,
    title: str,
    hint: str = "",
    headers: dict[str, str] | None = None,
    look_at: errors.LookAt | None = None,
) -> Response:
    """One problem: what happened and what to do; `look_at` lets a client say the hint in its own words."""
    body = o.Problem("about:blank", status, title, hint)
    if look_at is not None:
        body = o.Problem("about:blank", status, title, look_at.hint(f"GET /v1/{look_at.value}"), look_at.value)
    return Response(encode(body), status, headers, "application/problem+json")


async def on_error(_: Request, error: Exception) -> Response:
    """The answer to an error of ours."""
    if not isinstance(error, errors.DuenoticeError):
        return problem(500, "An internal error occurred.", "Look at the service's log.")
    headers = {}
    if isinstance(error, errors.Unavailable):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    return problem(status, error.message, error.hint, headers, error.look_at)


class Reply(NamedTuple):
    """What is to be answered to a request that changes something."""

    body: msgspec.Struct
    status: int = 200
    location: str = ""


Build = Callable[[State, Records], Reply]


class Keyed(NamedTuple):
    """A request with a key: the digest of the key and whose it is, and the digest of what is asked for."""

    key: str = ""
    request_digest: str = ""


class Resource:
    """What all resources have: an engine to ask, and the ways to answer from it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def _written(
        self, write: Callable[[], msgspec.Struct], status: int = 200, headers: dict[str, str] | None = None
    ) -> Response:
        """Answer with something large, made from values that never change, off the loop that answers VMs (S26)."""
        return Response(await self._engine.aside(lambda: encode(write())), status, headers, JSON)

    async def _looked(self, look: Callable[[State], msgspec.Struct]) -> Response:
        """Answer with the result of a query on the durable state, which may be large, off the loop as well (S26)."""
        return Response(await self._engine.look(lambda state: encode(look(state))), media_type=JSON)

    async def _done(self, request: Request, command: c.Command, build: Build) -> Response:
        """Submit a command; `build` sees the state as it is once the command and all that is due are applied."""
        asked: Keyed = request.state.asked
        made: list[StoredAnswer] = []
        gone: list[errors.NotFound] = []

        def write(state: State, records: Records, now: Instant) -> RequestAnswered | None:
            try:
                reply = build(state, records)
            except errors.NotFound as error:  # it left the fleet with what was due; asked again, it is not found either
                gone.append(error)
                return None
            made.append(StoredAnswer(reply.status, encode(reply.body).decode(), reply.location))
            until, answer = now.after(micros_of(ANSWERS_KEPT)), made[0].packed()
            return (
                RequestAnswered(asked.key, asked.request_digest, until.at, answer, until.steady) if asked.key else None
            )

        await self._engine.submit(command, actor_of(request), Receipt(asked.key, write))
        if gone:
            raise gone[0]
        if not made:
            raise InvariantBroken("The request was done, but its answer is lost.", hint="Please report this.")
        return response_of(made[0])

    async def _raised(self, request: Request, command: c.Command) -> Response:
        """Submit it and answer with the events that it raised; none when nobody listens (F03)."""

        def build(_: State, records: Records) -> Reply:
            raised = raised_in(records)
            location = f"/v1/events/{raised.events[0].id}" if len(raised.events) == 1 else ""
            return Reply(raised, 201 if raised.events else 200, location)

        return await self._done(request, command, build)


def raised_in(records: Records) -> o.Raised:
    """The events that were raised in these records: one page of them."""
    raised = [record.transition.event for record in records if isinstance(record.transition, EventRaised)]
    events = Room().filled(map(from_domain.event, raised))
    return o.Raised(events, len(raised) - len(events))


class _UnderWay(NamedTuple):
    asked: Keyed
    answer: "asyncio.Future[Response]"


class KeptAnswers:
    """Checks whether a request was answered before. A request that is being done already waits for that answer."""

    def __init__(self, answered: Callable[[str], Awaitable[RequestAnswered | None]]) -> None:
        """`answered` tells what a request with a key was answered, if it was."""
        self._answered = answered
        self._under_way: dict[str, _UnderWay] = {}

    async def once(self, request: Request, do: Callable[[], Awaitable[Response]]) -> Response:
        """The answer to a request, done now or before."""
        request.state.asked = asked = _asked(request)
        if not asked.key:
            return await do()
        under_way = self._under_way.get(asked.key)
        if under_way is None:
            return await self._first(asked, do)
        _refuse_another(asked, under_way.asked.request_digest)
        return _again(await asyncio.shield(under_way.answer))

    async def _first(self, asked: Keyed, do: Callable[[], Awaitable[Response]]) -> Response:
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._under_way[asked.key] = _UnderWay(asked, answer)
        try:
            response = await self._kept(asked) or await do()
        except BaseException as error:
            # Those who wait are told the same.
            answer.set_exception(error if isinstance(error, Exception) else ConnectionError())
            answer.exception()
            raise
        finally:
            del self._under_way[asked.key]
        answer.set_result(response)
        return response

    async def _kept(self, asked: Keyed) -> Response | None:
        known = await self._answered(asked.key)
        if known is None:
            return None
        _refuse_another(asked, known.request_digest)
        return _again(response_of(unpacked(known.answer)))


def response_of(answer: StoredAnswer) -> Response:
    """The answer as it was."""
    headers = {"Location": answer.location} if answer.location else None
    return Response(answer.body, answer.status, headers, JSON)


def key_of(request: Request) -> str:
    """The Idempotency-Key of a request that may have one; empty when it has none."""
    given = request.headers.getlist("idempotency-key")
    if not given or request.method != "POST":
        return ""
    if len(given) > 1:
        raise Malformed("The request has more than one Idempotency-Key.", hint="Send one.")
    if not KEY.fullmatch(given[0]):
        raise Malformed("The Idempotency-Key is not valid.", hint="Use 1 to 255 letters, digits and signs.")
    return given[0]


def _asked(request: Request) -> Keyed:
    if not (text := key_of(request)):
        return Keyed()
    asked = hashlib.sha256(f"{request.url.path}?{request.url.query}\n".encode())
    body = request.state.body
    asked.update(body.digest if isinstance(body, LargeBody) else body)
    # The token's id, not its name: a new token with an old name must not get the answers of the old token.
    key = hashlib.sha256(f"{request.state.token.id}\n{text}".encode()).hexdigest()
    return Keyed(key, asked.hexdigest())


def _refuse_another(asked: Keyed, request_digest: str) -> None:
    if asked.request_digest != request_digest:
        raise Refused("This Idempotency-Key was used for another request.", hint="Use a new key for each request.")


def _again(response: Response) -> Response:
    copy = Response(response.body, response.status_code, dict(response.headers))
    copy.headers["Idempotent-Replayed"] = "true"
    return copy
