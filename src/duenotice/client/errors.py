"""What can go wrong between a VM and its metadata service; none of it ever means "no events" (H06, S14).

MetadataError
├── Unreachable      no connection, or it ended before an answer began
├── TimedOut         no whole answer in time
├── Throttled        429: asked too often
├── Gone             410: the service is being renewed and comes back
├── Rejected         any other 4xx: the request itself is wrong
├── ServerFailed     5xx: the service failed
└── BadAnswer        what came is not a whole, plain answer of the contract
    └── Redirected   3xx: somebody else answers here; never followed

`transient` says whether asking again may help; `retry_after` how many seconds the service asked for, if it did.
"""

from typing import ClassVar

from duenotice.errors import DuenoticeError


class MetadataError(DuenoticeError):
    """The metadata service did not give an answer that can be used."""

    transient: ClassVar[bool] = True
    least_pause: ClassVar[float] = 0.0
    """The shortest pause between two tries, in seconds."""

    def __init__(
        self, message: str = "", *, hint: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after = retry_after


class Unreachable(MetadataError):
    """The metadata service cannot be reached."""


class TimedOut(MetadataError):
    """The metadata service did not answer in time."""


class Throttled(MetadataError):
    """The metadata service was asked too often."""

    least_pause = 1.0


class Gone(MetadataError):
    """The metadata service is being renewed."""

    least_pause = 1.0


class Rejected(MetadataError):
    """The metadata service rejected the request."""

    transient = False


class ServerFailed(MetadataError):
    """The metadata service failed."""


class BadAnswer(MetadataError):
    """The answer is not one of the contract."""


class Redirected(BadAnswer):
    """The answer is a redirect."""

    transient = False
