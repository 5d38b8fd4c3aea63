"""Who may use the operator's door: tokens by their digest, and what each role may do."""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from enum import Enum

from msgspec import Struct

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
