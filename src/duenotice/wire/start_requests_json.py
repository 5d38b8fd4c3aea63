"""The body of an approval as the service reads it (C01); `seen_document` writes it."""

from uuid import UUID

import msgspec

from duenotice.errors import Malformed

_HINT = 'Send {"StartRequests":[{"EventId":"…"}]} with the EventId from the document.'


class _StartRequest(msgspec.Struct, rename="pascal"):
    event_id: str


class _StartRequests(msgspec.Struct, rename="pascal"):
    """`DocumentIncarnation` may be there, as string or number, and is ignored like any other key."""

    start_requests: list[_StartRequest]


_decoder = msgspec.json.Decoder(_StartRequests)


def decode_start_requests(body: bytes) -> tuple[str, ...]:
    """The ids to approve, in the one form we use: upper case (B03)."""
    try:
        asked = _decoder.decode(body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"The body is not a list of StartRequests: {error}.", hint=_HINT) from None
    if not asked.start_requests:
        raise Malformed("StartRequests is empty.", hint=_HINT)
    return tuple(canonical_id(request.event_id) for request in asked.start_requests)


def canonical_id(text: str) -> str:
    """An EventId as we write it; one that is not a GUID stays as it is, and is then unknown."""
    try:
        return str(UUID(text)).upper()
    except ValueError:
        return text
