"""The same POST twice is done once: its answer is kept in the journal by `Idempotency-Key`, for a day (S6).

A refusal has changed nothing and is not kept. An answer that must not be stored, such as a secret, is not kept either.
"""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.kept_answers import KEPT
from duenotice.domain.transitions import RequestAnswered
from duenotice.errors import Malformed, Refused
from duenotice.wire.stored_answer import StoredAnswer, unpacked

HEADER = "idempotency-key"
KEY = re.compile(r"[!-~]{1,255}")


class Asked(NamedTuple):
    """A request with a key: the digest of the key and whose it is, and the digest of what is asked for."""

    key: str = ""
    fingerprint: str = ""
    old_key: str = ""
    """What the key was while it was bound to the name of a token, and from when on that name was this token's."""
    since: datetime = datetime.max.replace(tzinfo=UTC)


class _UnderWay(NamedTuple):
    asked: Asked
    answer: "asyncio.Future[Response]"


class Answers:
    """Checks whether a request was answered before. The same request waits while it is being done."""

    def __init__(self, answered: Callable[[str], Awaitable[RequestAnswered | None]]) -> None:
        """`answered` tells what a request with a key was answered, if it was."""
        self._answered = answered
        self._under_way: dict[str, _UnderWay] = {}

    async def once(self, request: Request, do: Callable[[], Awaitable[Response]]) -> Response:
        """The answer to a request, done now or before."""
        request.state.asked = asked = await _asked(request)
        if not asked.key:
            return await do()
        under_way = self._under_way.get(asked.key)
        if under_way is None:
            return await self._first(asked, do)
        _refuse_another(asked, under_way.asked.fingerprint)
        return _again(await asyncio.shield(under_way.answer))

    async def _first(self, asked: Asked, do: Callable[[], Awaitable[Response]]) -> Response:
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

    async def _kept(self, asked: Asked) -> Response | None:
        known = await self._answered(asked.key) or await self._answered_before(asked)
        if known is None:
            return None
        _refuse_another(asked, known.fingerprint)
        return _again(response_of(unpacked(known.answer)))

    async def _answered_before(self, asked: Asked) -> RequestAnswered | None:
        """What an older duenotice has answered to this token; answers to another of its name are not for it."""
        known = await self._answered(asked.old_key)
        return known if known is not None and known.until - KEPT >= asked.since else None


def response_of(answer: StoredAnswer) -> Response:
    """The answer as it was."""
    headers = {"Location": answer.location} if answer.location else None
    return Response(answer.body, answer.status, headers, "application/json")


async def _asked(request: Request) -> Asked:
    text = request.headers.get(HEADER)
    if text is None or request.method != "POST":
        return Asked()
    if not KEY.fullmatch(text):
        raise Malformed("The Idempotency-Key is not valid.", hint="Use 1 to 255 letters, digits and signs.")
    head = f"{request.url.path}?{request.url.query}\n".encode()
    # The token's id, not its name: whoever gets a name that was free again must not get answers of the one before.
    token, fingerprint = request.state.token, _digest(head + await request.body())
    key, old_key = (_digest(f"{bound_to}\n{text}".encode()) for bound_to in (token.id, request.state.actor))
    return Asked(key, fingerprint, old_key, token.created_at)


def _refuse_another(asked: Asked, fingerprint: str) -> None:
    if asked.fingerprint != fingerprint:
        raise Refused("This Idempotency-Key was used for another request.", hint="Use a new key for each request.")


def _again(response: Response) -> Response:
    copy = Response(response.body, response.status_code, dict(response.headers))
    copy.headers["Idempotent-Replayed"] = "true"
    return copy


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
