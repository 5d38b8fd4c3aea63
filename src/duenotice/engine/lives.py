"""The life of a node: a uuid for each process, which tells when that process began. Pure, but for its random part."""

import secrets
from datetime import UTC, datetime
from uuid import UUID

_VERSION = 7
"""A uuid of RFC 9562 that begins with the milliseconds of its moment."""


def new_life(at: datetime) -> str:
    """The life of a process that begins now; nobody can guess it."""
    moment = int(at.timestamp() * 1000) & (2**48 - 1)
    return str(UUID(int=moment << 80 | _VERSION << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)))


def born(life: str) -> datetime | None:
    """When a life began, by the clock of its own machine; None if it is not an id of a life."""
    try:
        uuid = UUID(life)
    except ValueError:
        return None
    return datetime.fromtimestamp((uuid.int >> 80) / 1000, UTC) if uuid.version == _VERSION else None
