"""The keys that access tokens are signed with: a new one each day, and none in the journal or a backup of it (M02).

They are in a file of the data directory, or for several nodes in a table of their own. A key is there for some minutes
before anything is signed with it, so that each node knows it; and it counts until the last token that was signed with
it has ended. `KeyRing` says which keys there should be; `SigningKeys` keeps them so.
"""

import secrets
from collections.abc import Callable, Collection
from typing import Protocol
from uuid import uuid4

import msgspec
from msgspec import Struct

from duenotice.clock import monotonic, wall
from duenotice.errors import Misconfigured, Refused

FILE = "azure-tokens.key"
LASTS = 3600
"""Seconds that an access token lasts; clients ask for a new one by themselves."""
SLACK = 300
"""Seconds that the clocks of two nodes may differ."""
ROTATED_AFTER = 24 * 3600
BEGINS_AFTER = 300
"""Nodes look for new keys each minute; after so long all of them know this one."""
NEEDED = LASTS + SLACK
"""Seconds that a key may still be needed when the next one is used: its last token lasts so long."""
MOST_KEYS = 16


class SigningKey(Struct, frozen=True):
    """One key; from `begins` on, in seconds since 1970, tokens are signed with it."""

    id: str
    secret: bytes
    begins: int

    def __repr__(self) -> str:
        """Without the secret: nothing that is logged has it."""
        return f"SigningKey({self.id}, begins={self.begins})"


class KeyRing(Struct, frozen=True):
    """All keys that count, the oldest first."""

    keys: tuple[SigningKey, ...] = ()

    def find(self, key_id: str) -> SigningKey | None:
        """The key with this id, if it counts."""
        return next((key for key in self.keys if key.id == key_id), None)

    def signing(self, now: int) -> SigningKey:
        """The key that tokens are signed with: the newest that has begun."""
        return next((key for key in reversed(self.keys) if key.begins <= now), self.keys[0])

    def in_time(self, now: int, long_known: Collection[str] = ()) -> "KeyRing":
        """As it should be now: with a new key each day, and without those that no token can need.

        A key goes when a later one was in use long enough by the time of day, and is `long_known`: a clock that is
        wrong for a moment drops none that counts (S34). One that such a clock has made begins far ahead, and waits.
        """
        keys = list(self.keys)
        near = [key for key in keys if key.begins <= now + LASTS]
        if not near:
            keys.append(_new_key(now))
        elif near[-1].begins + ROTATED_AFTER < now:
            keys.append(_new_key(now + BEGINS_AFTER))
        keys.sort(key=lambda key: key.begins)
        settled = [number for number, key in enumerate(keys) if key.begins + NEEDED < now and key.id in long_known]
        return KeyRing(tuple(keys[settled[-1] if settled else 0 :][:MOST_KEYS]))

    def rotated(self, now: int, at_once: bool) -> "KeyRing":
        """With a new key. At once: whatever was signed with another one counts no more."""
        if at_once:
            return KeyRing((_new_key(now),))
        kept = self.in_time(now)
        if len(kept.keys) >= MOST_KEYS:
            raise Refused(f"There are {MOST_KEYS} keys that still count.", hint="Wait for an hour, or use --at-once.")
        return KeyRing((*kept.keys, _new_key(now + BEGINS_AFTER)))


class SecretStore(Protocol):
    """Where a text is kept that nobody else may read: `files.SecretFile`, or a table in PostgreSQL."""

    def change(self, work: Callable[[str], str]) -> str:
        """Store what this makes of what is there, which is "" at first; one change at a time. May wait for a disk."""

    def close(self) -> None:
        """Let go of it."""


class SigningKeys:
    """The keys as this process knows them. `ring` may be read on any thread; the methods wait for the store."""

    def __init__(self, store: SecretStore) -> None:
        self.ring = KeyRing()
        self._store, self.close = store, store.close
        self._known_since: dict[str, float] = {}

    def look(self) -> None:
        """Take what is stored, or what has to be by now. A store that has lost all gets back what we know."""
        begun = monotonic() - BEGINS_AFTER - NEEDED
        long_known = {key_id for key_id, since in self._known_since.items() if since < begun}
        self._change(lambda ring: ring.in_time(_now(), long_known))

    def rotate(self, at_once: bool) -> None:
        """Make a new key now."""
        self._change(lambda ring: ring.rotated(_now(), at_once))

    def _change(self, work: Callable[[KeyRing], KeyRing]) -> None:
        def change(text: str) -> str:
            before = _read(text) if text else self.ring
            after = work(before)
            return text if text and after == before else msgspec.json.encode(after).decode()

        self.ring = _read(self._store.change(change))
        self._known_since = {key.id: self._known_since.get(key.id, monotonic()) for key in self.ring.keys}


def _read(text: str) -> KeyRing:
    try:
        return msgspec.json.decode(text, type=KeyRing)
    except (msgspec.MsgspecError, ValueError):
        raise Misconfigured(
            "What is stored as keys of access tokens are none of ours.",
            hint=f"Remove {FILE} from the data directory, or the row of duenotice.signing_keys; new ones are made.",
        ) from None


def _new_key(begins: int) -> SigningKey:
    return SigningKey(str(uuid4()), secrets.token_bytes(32), begins)


def _now() -> int:
    """The real time, as for access tokens."""
    return int(wall().timestamp())
