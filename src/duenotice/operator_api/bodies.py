"""What requests bring, as values; and ids for what they make."""

from typing import TypeVar
from uuid import uuid4

import msgspec
from starlette.requests import Request

from duenotice.errors import Malformed

T = TypeVar("T")


def new_id() -> str:
    """An id for something new, in the form of an EventId (B03)."""
    return str(uuid4()).upper()


async def decoded(request: Request, kind: type[T]) -> T:
    """The JSON body of a request; no body is an empty object."""
    body = await request.body() or b"{}"
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"The body will not do: {error}.", hint="Send JSON with the keys of this call.") from None
