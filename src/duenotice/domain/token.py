"""Tokens of operators, their roles, and the sessions that people begin with them at the console (S35)."""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import Enum

from msgspec import Struct

from duenotice.clock import Instant, micros_of

TOKEN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$"


class Role(Enum):
    """What the bearer of a token may do. Of the first three each may do what the ones before it may.

    A follower is a process that answers VMs for a node: it may follow, and nothing else, and nobody else may.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    FOLLOWER = "follower"

    def covers(self, needed: "Role") -> bool:
        """Whether this role is enough where another is needed."""
        return needed in _COVERED[self]


_PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
_COVERED = {role: _PEOPLE[: rank + 1] for rank, role in enumerate(_PEOPLE)} | {Role.FOLLOWER: (Role.FOLLOWER,)}


class Token(Struct, frozen=True, omit_defaults=True):
    """One token; the secret itself is nowhere, `digest` is its SHA-256 in hexadecimal.

    A follower's may be for the VMs alone that `only` chooses, such as `host=h1`.
    """

    id: str
    name: str
    role: Role
    digest: str
    created_at: datetime
    only: str = ""


def digest_of(secret: str) -> str:
    """What is stored in place of a secret: a guess of 256 random bits needs no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def token_with(secret: str, tokens: Iterable[Token]) -> Token | None:
    """The token with this secret. Comparing digests reveals nothing about the secret."""
    digest = digest_of(secret)
    return next((token for token in tokens if token.digest == digest), None)


LASTS = timedelta(hours=12)
"""The length of a shift; after that people sign in again."""

MOST_LATE = timedelta(days=7)
"""How much longer a session may last while the time of day does not say that it is over."""

MOST_OF_A_TOKEN, MOST_SESSIONS = 50, 10_000
"""A token has no more sessions than it may have live pages; and there is an end to all of them together (S24)."""

_SHOWN = 12
"""Letters of the digest that name a session where people read: enough to tell it from others."""


def session_id(digest: str) -> str:
    """The name of a session for people."""
    return digest[:_SHOWN]


class Session(Struct, frozen=True, gc=False):
    """One browser that is signed in. What it may do is what its token may do at that moment."""

    digest: str
    token_id: str
    until: datetime
    until_steady: int

    def is_over(self, now: Instant) -> bool:
        """Whether it has run out by both faces of time: a clock that is wrong for a moment ends no session (S34).

        One that was begun while the clock was years ahead ends by steady time alone in the end (S35).
        """
        run_out = self.until <= now.at and self.until_steady <= now.steady
        return run_out or self.until_steady + micros_of(MOST_LATE) <= now.steady
