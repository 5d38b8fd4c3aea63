"""Addresses that a crowd of others must not shut out: of who has shown a token, and of health probes (S29).

Before a TLS handshake is over nobody can say who he is, and strangers have as many addresses as they like. So those
that came before go before them: every second handshake is one of theirs, and their connections are closed last.
"""

from enum import IntEnum
from typing import NamedTuple

from duenotice.clock import monotonic
from duenotice.engine.followers import MOST_FOLLOWERS
from duenotice.metadata_api.sessions import network_of

LOCAL = frozenset(("127.0.0.1", network_of("::1")))
"""Programs of this machine."""


class Who(IntEnum):
    """Why an address is known."""

    ADMIN, TOKEN, FOLLOWER, PROBE = range(4)


class Kept(NamedTuple):
    """How many addresses are known for one reason, and for how many seconds."""

    most: int
    seconds: float
    newest: bool
    """Whether a new one takes the place of the one that was silent for longest. Anybody may ask for a probe: who goes
    on asking keeps its place."""


KEPT = {
    Who.ADMIN: Kept(64, 86_400.0, True),
    Who.TOKEN: Kept(64, 86_400.0, True),
    Who.FOLLOWER: Kept(MOST_FOLLOWERS, 86_400.0, True),
    Who.PROBE: Kept(16, 300.0, False),
}


class KnownAddresses:
    """Those of one port, each with when it was heard of last; the one that was silent for longest comes first."""

    def __init__(self) -> None:
        self.all: frozenset[str | bytes] = LOCAL
        """They go before strangers. It is one set, because it is asked for all of a crowd when one more comes."""
        self._heard: dict[Who, dict[str | bytes, float]] = {who: {} for who in Who}

    def hear(self, address: str | bytes, who: Who) -> None:
        """Somebody has asked from there."""
        heard, kept, now = self._heard[who], KEPT[who], monotonic()
        if heard.pop(address, None) is None:
            if len(heard) == kept.most and not kept.newest and _first(heard)[1] + kept.seconds > now:
                return
            while heard and (len(heard) == kept.most or _first(heard)[1] + kept.seconds <= now):
                del heard[_first(heard)[0]]
            heard[address] = now
            self.all = LOCAL.union(*self._heard.values())
        heard[address] = now


def _first(heard: dict[str | bytes, float]) -> tuple[str | bytes, float]:
    return next(iter(heard.items()))
