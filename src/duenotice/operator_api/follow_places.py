"""How many streams of followers are open at once: bounded for each token, refused before anything is answered (N20).

A crash loop, or a token in wrong hands, takes the places of its own token and not those of others. A follower that is
refused is told why, and the log of this node has one line for it, however often it tries.
"""

from collections import Counter

from duenotice.domain.token import Token
from duenotice.engine.followers import MOST_FOLLOWERS, Followers
from duenotice.engine.log import report
from duenotice.errors import Unavailable
from duenotice.operator_api.follow_stream import FollowerEar
from duenotice.operator_api.node_troubles import Reader, Readers

MOST_OF_A_TOKEN = 250
_LOGGED = 1000
"""Refused followers that are remembered, so that each is logged once (S24)."""


class FollowPlaces:
    """The open streams of one node, by the token that let them in."""

    def __init__(self, followers: Followers) -> None:
        self._followers = followers
        self._open: dict[FollowerEar, str] = {}
        self._logged: dict[str, None] = {}
        self._readers: Readers = {}
        followers.describe = self._described

    def take(self, token: Token, life: str, ear: FollowerEar, reader: Reader) -> None:
        """A place for this stream, until it is closed; who is silent goes before a newcomer is refused."""
        if self._is_full(token):
            self._followers.put_out_silent()
            self._open = {each: owner for each, owner in self._open.items() if not each.closed.is_set()}
        if self._is_full(token):
            self._refuse(token, life)
        self._logged.pop(life, None)
        self._open[ear] = token.id
        self._readers[life] = reader
        if len(self._readers) > 2 * MOST_FOLLOWERS + len(self._followers.by_life):
            self._readers = self.readers()

    def readers(self) -> Readers:
        """Who the followers of this node are, by their lives."""
        return {life: reader for life, reader in self._readers.items() if life in self._followers.by_life}

    def _described(self, life: str) -> dict[str, str]:
        """For a person: whose token it has, and where it is."""
        reader = self._readers.get(life)
        return {"follower": life} if reader is None else {**reader._asdict(), "follower": life.partition("/")[2]}

    def leave(self, ear: FollowerEar) -> None:
        """Its stream has ended."""
        self._open.pop(ear, None)

    def _is_full(self, token: Token) -> bool:
        return len(self._open) >= MOST_FOLLOWERS or Counter(self._open.values())[token.id] >= MOST_OF_A_TOKEN

    def _refuse(self, token: Token, life: str) -> None:
        if len(self._open) >= MOST_FOLLOWERS:
            what, hint = f"This node has {MOST_FOLLOWERS} followers, which is the limit.", "Follow another node."
        else:
            what = f"This node has {MOST_OF_A_TOKEN} followers with the token {token.name!r}, which is the limit."
            hint = "Is one of them started again and again? Give each host a token of its own."
        if life not in self._logged:
            report("warning", "a follower was refused", action="follower-refused", token=token.name, error=what)
            self._logged[life] = None
            while len(self._logged) > _LOGGED:
                del self._logged[next(iter(self._logged))]
        raise Unavailable(what, hint=hint)
