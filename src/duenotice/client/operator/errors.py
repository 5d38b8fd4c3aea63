"""What a call of the operator's API can end with: the errors of the service itself, and six more on the way to it.

DuenoticeError                  message and hint, in the service's own words if it answered
├── Refused                     422: the rules forbid it
│   ├── NotFound                404: the thing named does not exist
│   └── Conflict                409: it clashes with what is already there
├── Malformed                   400, 413: the request is wrong, or too large
├── Denied                      403: the token's role does not allow it
│   └── UnknownToken            401: there is no token, or the service does not know it
├── Unavailable                 429, 502, 503, 504: not now; `retry_after` says when to try again
│   ├── NotReached              no connection, or it ended before an answer began
│   └── NoAnswer                no whole answer in time
├── CallFailed                  any other status
├── ForeignAnswer               what came is not an answer of this API
└── Misconfigured               the endpoint is not an address

The first three groups are those of `duenotice.errors`: what the service raises is what its caller gets.
"""

from duenotice.errors import Conflict, DuenoticeError, Malformed, NotFound, Refused, Unavailable


class Denied(DuenoticeError):
    """The token is missing or wrong, or its role does not allow this."""


class UnknownToken(Denied):
    """There is no token, or the service does not know it."""


class NotReached(Unavailable):
    """The service cannot be reached."""


class NoAnswer(Unavailable):
    """The service did not answer in time."""


class CallFailed(DuenoticeError):
    """The service answered with a status that has no error of its own."""


class ForeignAnswer(DuenoticeError):
    """What came is not an answer of the operator's API."""


BY_STATUS: dict[int, type[DuenoticeError]] = {
    400: Malformed,
    401: UnknownToken,
    403: Denied,
    404: NotFound,
    409: Conflict,
    413: Malformed,
    422: Refused,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def least_pause(error: DuenoticeError) -> float | None:
    """How many seconds to wait before a call is tried again; None when that cannot help."""
    if isinstance(error, Unavailable):
        return error.retry_after
    return 0.0 if isinstance(error, ForeignAnswer) else None
