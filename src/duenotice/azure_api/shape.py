"""What answers of the Azure door look like: JSON, pages with a next link, errors as Azure has them (M04, S24)."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from duenotice import errors
from duenotice.bounds import LARGE_BYTES, LONGEST_ITEM, PAGE_BYTES, PAGE_ROWS, body_of
from duenotice.domain.fleet import Group
from duenotice.errors import DuenoticeError, Refused

T = TypeVar("T")
JSON = "application/json; charset=utf-8"
encode = msgspec.json.Encoder().encode


class AzureJson(Struct, frozen=True, rename="camel"):
    """A value with the names that Azure uses."""


class Listed(AzureJson, Generic[T], frozen=True):
    """A page of a list, and where the next one is."""

    value: Sequence[T]
    next_link: str | UnsetType = UNSET


class AzureError(AzureJson, frozen=True):
    """What clients show: a code that programs know, and a message for people."""

    code: str
    message: str
    target: str | None = None
    details: tuple["AzureError", ...] = ()


class AzureFailure(AzureJson, frozen=True):
    """The whole body of an answer that is an error."""

    error: AzureError


class AzureProblem(Refused):
    """This door refuses it, with a status and a code that clients know."""

    status: int = 400
    code: str = "BadRequest"
    target: str | None = None

    @classmethod
    def of(cls, status: int, code: str, message: str, *, hint: str = "", target: str | None = None) -> "AzureProblem":
        """The refusal with this status and code; `target` is what in the request is wrong."""
        problem = cls(message, hint=hint)
        problem.status, problem.code, problem.target = status, code, target
        return problem


CODES: dict[type[DuenoticeError], tuple[int, str]] = {
    errors.NotFound: (404, "ResourceNotFound"),
    errors.Conflict: (409, "Conflict"),
    errors.Refused: (409, "OperationNotAllowed"),
    errors.TooLarge: (413, "RequestTooLarge"),
    errors.Malformed: (400, "InvalidParameter"),
    errors.Misconfigured: (409, "OperationNotAllowed"),
    errors.Unavailable: (503, "ServiceUnavailable"),
    errors.DuenoticeError: (500, "InternalServerError"),
}
"""What an error of ours is to a client."""

_PLAIN = {
    404: ("NotFound", "This call does not exist here. docs/azure.md lists the calls that do."),
    405: ("MethodNotAllowed", "This path exists, but not with this method. docs/azure.md lists the calls."),
}


def json_response(body: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(encode(body), status, headers, JSON)


class EncodedResponse(Response):
    """An answer in JSON that was encoded off the loop. What is large is written in pieces, as fast as it is read."""

    media_type = JSON

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Write it; each piece waits until most of what was written before is gone."""
        whole = memoryview(self.body)
        if len(whole) <= LARGE_BYTES or scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        for begin in range(0, len(whole), LARGE_BYTES):
            end = begin + LARGE_BYTES
            piece = bytes(whole[begin:end])
            await send({"type": "http.response.body", "body": piece, "more_body": end < len(whole)})


def error_response(status: int, error: AzureError, headers: dict[str, str] | None = None) -> Response:
    """An answer that is an error. `az` also wants its code in a header."""
    return json_response(AzureFailure(error), status, {"x-ms-error-code": error.code, **(headers or {})})


def error_of(error: DuenoticeError) -> tuple[int, AzureError]:
    """The status and the body of an error of ours; the hint follows the message."""
    message = f"{error.message} {error.hint}".strip()
    if isinstance(error, AzureProblem):
        return error.status, AzureError(error.code, message, error.target)
    status, code = next(CODES[kind] for kind in type(error).__mro__ if kind in CODES)
    return status, AzureError(code, message)


async def on_error(_: Request, error: Exception) -> Response:
    """The answer to an error; one that is not ours tells nothing of its inside."""
    if not isinstance(error, DuenoticeError):
        return error_response(
            500, AzureError("InternalServerError", "An internal error occurred. Look at the service's log.")
        )
    status, told = error_of(error)
    headers = {}
    if isinstance(error, errors.Unavailable):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return error_response(status, told, headers)


async def on_http_error(_: Request, error: Exception) -> Response:
    """The answer to a call that does not exist."""
    assert isinstance(error, HTTPException)
    code, message = _PLAIN.get(error.status_code, ("BadRequest", error.detail))
    return error_response(error.status_code, AzureError(code, message))


def misfit(error: msgspec.ValidationError) -> AzureProblem:
    """The refusal of a body whose JSON is not of the form of its call."""
    problem, _, target = str(error).partition(" - at `$")
    words = f"The body is not valid: {problem[:200]}."
    return AzureProblem.of(400, "InvalidParameter", words, target=target.strip(".`") or None)


async def body_bytes(request: Request) -> bytearray:
    """The body of a request; the row of its call bounds it."""
    return await body_of(request.receive, request.headers.get("content-length", ""), request.state.bounds)


async def read(request: Request, kind: type[T]) -> T:
    """The JSON body of a request, which is small enough to be decoded here; no body is an empty object."""
    try:
        return msgspec.json.decode(await body_bytes(request) or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise misfit(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AzureProblem.of(400, "InvalidRequestContent", f"The body is not JSON: {error}.") from None


def base_of(request: Request) -> str:
    """Where this client reaches us; every link in an answer begins with it."""
    return f"{request.url.scheme}://{request.url.netloc}"


SKIP_TOKEN = "$skiptoken"


def page_of(request: Request, names: Sequence[str], shown: Callable[[str], object]) -> bytes:
    """The page that a request asks for of things with their names in order, as JSON; a thing that is None is left out.

    It ends at its number of items, or before the item that would make it too large.
    """
    after = request.query_params.get(SKIP_TOKEN, "")
    page, size, last = list[bytes](), 0, ""
    for place in range(bisect_right(names, after), len(names)):
        if (item := shown(names[place])) is None:
            continue
        encoded = encoded_item(item, names[place])
        size += len(encoded)
        if page and (len(page) == PAGE_ROWS or size > PAGE_BYTES):
            link = b',"nextLink":' + encode(_next_link(request, last))
            break
        page.append(encoded)
        last = names[place]
    else:
        link = b""
    return b'{"value":[%b]%b}' % (b",".join(page), link)


def encoded_item(item: object, name: str) -> bytes:
    """One thing as JSON; refused if nobody could be asked to hold it."""
    encoded = encode(item)
    if len(encoded) > LONGEST_ITEM:
        raise too_large(f"{name[:80]!r}", LONGEST_ITEM, "The operator's API has its VMs in pages: GET /v1/vms.")
    return encoded


def too_large(what: str, most: int, hint: str) -> AzureProblem:
    """The refusal of a thing that is larger than its answer may be; the code is Azure's."""
    message = f"{what} is larger than {most} bytes."
    return AzureProblem.of(400, "ResponsePayloadTooLarge", message, hint=hint)


def names_of_instances(names: Sequence[str], group: Group) -> Sequence[str]:
    """Those of the instances of a scale set, as far as names tell."""
    begin = f"{group.name}_"
    return names[bisect_left(names, begin) : bisect_left(names, f"{group.name}`")]


def _next_link(request: Request, last: str) -> str:
    query = {**request.query_params, SKIP_TOKEN: last}
    return f"{base_of(request)}{request.url.path}?{urlencode(query)}"
