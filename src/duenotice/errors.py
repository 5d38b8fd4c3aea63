"""What can go wrong, by who has to act. No HTTP here: each door maps these classes to its own answers.

DuenoticeError
├── Refused            the rules forbid it
│   ├── NotFound       the thing named does not exist
│   └── Conflict       it clashes with what is already there
├── Malformed          the bytes are wrong
│   └── TooLarge       there are too many of them
├── Unavailable        a disk or another service failed; `retry_after` says when to try again
├── Misconfigured      a setting or a file is wrong; names key and file
│   └── Damaged        stored data cannot be trusted
│       └── Rewound    the journal has lost its last records: begin again from what is there
└── InvariantBroken    a bug of ours: stop
"""

from collections.abc import Mapping
from enum import Enum


class LookAt(Enum):
    """What there are lists of. A refusal may name one to look at; each door says how its users get it."""

    VMS = "vms"
    GROUPS = "groups"
    HOSTS = "hosts"
    EVENTS = "events"
    MAINTENANCES = "maintenances"
    TOKENS = "tokens"
    SUBSCRIPTIONS = "subscriptions"
    AUDIT = "audit"

    def hint(self, how: str) -> str:
        """The hint to look at it; `how` is what the user of a door does for that."""
        return f"{how} {_LISTED.get(self, 'lists them')}."


_LIVE_ONES = "lists them, without those that are over"
_LISTED = {LookAt.EVENTS: _LIVE_ONES, LookAt.MAINTENANCES: _LIVE_ONES, LookAt.AUDIT: "lists what happened"}


class DuenoticeError(Exception):
    """Something went wrong in duenotice."""

    def __init__(self, message: str = "", *, hint: str = "", look_at: LookAt | None = None) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.look_at = look_at
        hint = self.hint = hint or ("" if look_at is None else "Look at the list of them.")
        super().__init__(self.message)
        if hint:
            self.add_note(f"hint: {hint}")  # where a traceback is shown, as in pytest, so is the hint

    def hint_in(self, ways: Mapping[LookAt, str]) -> str:
        """The hint in the words of one door: `ways` are what its users do to see a list."""
        return self.look_at.hint(ways[self.look_at]) if self.look_at and self.look_at in ways else self.hint


class Refused(DuenoticeError):
    """The rules forbid this."""


class NotFound(Refused):
    """There is no such thing."""


class Conflict(Refused):
    """This clashes with what is already there."""


class Malformed(DuenoticeError):
    """The input could not be understood."""


class TooLarge(Malformed):
    """The input is larger than it may be."""


class Unavailable(DuenoticeError):
    """This cannot be done right now."""

    def __init__(self, message: str = "", *, hint: str = "", retry_after: float = 1.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class Misconfigured(DuenoticeError):
    """A setting or a file is wrong."""


class Damaged(Misconfigured):
    """Stored data is damaged."""


class Rewound(Damaged):
    """The journal has lost what it had stored. What is left is whole: a new start goes on from there (N14)."""


class InvariantBroken(DuenoticeError):
    """A promise of ours does not hold; stopping is the only safe thing."""


def reason(error: Exception) -> str:
    """Why something failed, in the words of the system: without its number, or a path that was named already."""
    return getattr(error, "strerror", None) or str(error)


BROUGHT_BY = {
    "rich": "cli",
    "apsw": "server",
    "httptools": "server",
    "jinja2": "server",
    "prometheus_client": "server",
    "starlette": "server",
    "structlog": "server",
    "uvicorn": "server",
    "uvloop": "server",
    "pytest": "test",
    "cryptography": "azure",
    "psycopg": "postgres",
    "libvirt": "libvirt",
}


def missing_extra(error: ModuleNotFoundError, whatever: str = "This") -> Misconfigured | None:
    """The error for people when a library of one of our extras is not installed; None for any other module."""
    library = (error.name or "").partition(".")[0]
    extra = BROUGHT_BY.get(library)
    if extra is None:
        return None
    return Misconfigured(
        f"{whatever} needs the package {library}, which is not installed.", hint=f"pip install 'duenotice[{extra}]'"
    )
