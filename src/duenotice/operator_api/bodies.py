"""What requests contain, as values; who sends them; and ids for what they create."""

from typing import TypeVar
from uuid import uuid4

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from duenotice.errors import Malformed
from duenotice.operator_api.table import Call, Parameter

T = TypeVar("T")
LONGEST_FLEET = 256 * 1024 * 1024
"""A fleet file of a million VMs fits; more is a mistake."""
LONGEST_BODY = 1024 * 1024
"""Any other body."""
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def new_id() -> str:
    """An id for something new, in the form of an EventId (B03)."""
    return str(uuid4()).upper()


def actor_of(request: Request) -> str:
    """Who asks, as the journal remembers it; the gate has written it down."""
    return str(request.state.actor)


def flag(request: Request, name: str) -> bool:
    """Whether a parameter such as `dry_run` is set. Nothing is guessed: a wrong guess could do the real change."""
    text = request.query_params.get(name, "false")
    if text.lower() not in _FLAGS:
        raise Malformed(f"{name}={text[:40]} is not valid.", hint="Use true or false.")
    return _FLAGS[text.lower()]


def check_query(request: Request, call: Call) -> None:
    """With two values nobody knows which was meant, and a misspelt `dry_run` must not do the real change."""
    known = [asked.name if isinstance(asked, Parameter) else asked for asked in call.query]
    if (not known and call.method == "GET") or call.role is None:  # a probe may add any parameter
        return
    for name in request.query_params:
        if name not in known:
            hint = f"It knows {', '.join(known)}." if known else "Leave it out."
            raise Malformed(f"This call does not know {name[:40]!r}.", hint=hint)
        if len(request.query_params.getlist(name)) > 1:
            raise Malformed(f"{name} is given more than once.", hint="Give it once.")


async def body_of(request: Request) -> bytes:
    """The whole body, unless it is too large."""
    body, longest = bytearray(), LONGEST_FLEET if request.method == "PUT" else LONGEST_BODY
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > longest:
                raise HTTPException(413, f"The body is larger than {longest} bytes.")
    except ClientDisconnect:
        raise Malformed("The request ended before the end of its body.", hint="Send all of it.") from None
    request._body = bytes(body)  # where Starlette keeps it for the next reader
    return request._body


async def decoded(request: Request, kind: type[T]) -> T:
    """The JSON body of a request; no body is an empty object."""
    body = await request.body() or b"{}"
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"The body is not valid: {error}.", hint="Send JSON with the keys of this call.") from None
