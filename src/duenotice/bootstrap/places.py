"""Places at the operator's port: who may have how many requests under way, known before anything is read of them.

Who shows no token may also ask only so often: places bound what is under way, but not how much of the loop's time
requests take that are quick. A probe that comes more often is told what the last one was told.

A table says how many there are of each kind. When all of a kind are taken, the holder with the most of them makes room
for one with fewer: its oldest answer ends. So nobody takes the places of others, and probes and admins have their own
(S24, S29).
"""

import asyncio
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from duenotice.bootstrap.acceptor import Accepted
from duenotice.bootstrap.known_addresses import Who
from duenotice.bounds import LARGE_BYTES
from duenotice.client.operator.errors import UnknownToken
from duenotice.clock import monotonic
from duenotice.domain.token import Role, Token
from duenotice.metadata_api.sessions import UnknownCallers, network_of, plain_address
from duenotice.operator_api.answers import problem

CONNECTION = "duenotice.connection"
"""Where the scope of a request has the connection that it came on."""

PROBES = frozenset(("/livez", "/readyz"))
QUERIES = (b"", b"verbose")
FOLLOWS = "/v1/follow/"


class Room(NamedTuple):
    """How many places there are of one kind, and how many of them one holder may have."""

    places: int
    each: int


PROBING, STRANGERS, TOKENS, ADMINS = Room(16, 16), Room(16, 8), Room(100, 60), Room(48, 48)
"""Probes; requests without a token, for each address; tokens, for each; tokens of admins. Together they are fewer
than connections, so that a new one finds a place where it can say who it is."""

REQUESTS, TOGETHER = 200.0, 2.0
"""So many a second without a token for each address, probes aside, and all addresses together so many times that. A
browser asks for the page to sign in and all of its files at once, which are a dozen."""

PROBED, PROBED_TOGETHER, PROBED_SECONDS = 20.0, 5.0, 1.0
"""How many probes a second of one address are looked after; of all together, in multiples of that; and how old the
answer may be, in seconds, that is told to who asks more often. So a flood of probes makes no machine look ill, and one
that is ill is seen soon."""


WHO = {Role.ADMIN: Who.ADMIN, Role.FOLLOWER: Who.FOLLOWER}


class Place:
    """One request that is under way."""

    __slots__ = ("_accepted", "is_read")

    def __init__(self, accepted: Accepted | None, is_read: bool) -> None:
        self._accepted, self.is_read = accepted, is_read

    def end(self) -> None:
        """Make room for somebody else."""
        if self._accepted is not None:
            self._accepted.abort()


class Places:
    """Those of one kind, by who has them."""

    def __init__(self, room: Room) -> None:
        self._room, self._taken = room, 0
        self._of: dict[str | bytes, dict[Place, None]] = {}

    def take(self, holder: str | bytes, place: Place) -> bool:
        """Whether there is a place; one that only reads goes, the oldest of who has the most of them."""
        own = self._of.get(holder, {})
        if len(own) >= self._room.each:
            return False
        if self._taken >= self._room.places and not self._makes_room(len(own)):
            return False
        self._of.setdefault(holder, own)[place] = None
        self._taken += 1
        return True

    def leave(self, holder: str | bytes, place: Place) -> None:
        """It is over; it may have been put out before."""
        own = self._of.get(holder, {})
        if place in own:
            del own[place]
            self._taken -= 1
            if not own:
                del self._of[holder]

    def _makes_room(self, of_newcomer: int) -> bool:
        greediest = max(self._of, key=lambda holder: len(self._of[holder]))
        if len(self._of[greediest]) <= of_newcomer + 1:
            return False
        oldest = next((place for place in self._of[greediest] if place.is_read), None)
        if oldest is None:
            return False
        self.leave(greediest, oldest)
        oldest.end()
        return True


class Probes:
    """How often probes are looked after, and what the last of each kind were told."""

    def __init__(self) -> None:
        self._asked = UnknownCallers(PROBED, PROBED_TOGETHER)
        self._told: dict[tuple[str, bytes], tuple[float, list[Message]]] = {}

    def told(self, scope: Scope, address: str) -> Sequence[Message]:
        """What is told to who asks too often; nothing: look after it."""
        now = monotonic()
        if self._asked.take(address, now):
            return ()
        if (kind := _kind(scope)) is None:
            return TOO_OFTEN
        when, messages = self._told.get(kind, (0.0, []))
        return messages if messages and now - when < PROBED_SECONDS else ()

    def keeping(self, scope: Scope, send: Send) -> Send:
        """Sends an answer, and keeps it when it is whole."""
        kind, messages = _kind(scope), list[Message]()

        async def sent(message: Message) -> None:
            messages.append(message)
            if kind is not None and message["type"] == "http.response.body" and not message.get("more_body"):
                self._told[kind] = monotonic(), messages
            await send(message)

        return sent


def _kind(scope: Scope) -> tuple[str, bytes] | None:
    """Which of the few answers that probes can get."""
    query = scope.get("query_string", b"")
    return (scope["path"], query) if scope.get("method") in ("GET", "HEAD") and query in QUERIES else None


class Side(NamedTuple):
    """One of the two sides of the port: its application, and whose token a request to it has."""

    app: ASGIApp
    who: Callable[[Request], Token | None]


class Front:
    """One port for programs and people: the API has its own paths and all of /v1, the console the rest."""

    def __init__(self, programs: Side, people: Side, api_paths: Container[str]) -> None:
        self._programs, self._people, self._api_paths = programs, people, api_paths
        self._asked, self._probes = UnknownCallers(REQUESTS, TOGETHER), Probes()
        self._probing, self._strangers = Places(PROBING), Places(STRANGERS)
        self._tokens, self._admins = Places(TOKENS), Places(ADMINS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, if there is a place for it."""
        path, accepted = scope.get("path", ""), scope.get(CONNECTION)
        is_for_programs = path in self._api_paths or path == "/v1" or path.startswith("/v1/")
        side = self._programs if is_for_programs else self._people
        token = None if path in PROBES else side.who(Request(scope))
        if accepted is not None and (token is not None or path in PROBES):
            accepted.is_of(Who.PROBE if token is None else WHO.get(token.role, Who.TOKEN))
        if token is not None and token.role is Role.FOLLOWER and path.startswith(FOLLOWS):
            if accepted is not None:
                accepted.set_apart()
            await side.app(scope, receive, in_pieces(send))
            return
        if token is None:
            address = plain_address((scope.get("client") or ("",))[0])
            if path in PROBES:
                answer = self._probes.told(scope, address)
            else:
                answer = () if self._asked.take(address, monotonic()) else TOO_OFTEN
            if answer:
                for message in answer:
                    await send(message)
                if accepted is not None:
                    accepted.rest()
                return
        holder = network_of(address) if token is None else token.id
        place = Place(accepted, scope.get("method") in ("GET", "HEAD"))
        places = next((each for each in self._for(path, token) if each.take(holder, place)), None)
        if places is None:
            await _refusal(token)(scope, receive, send)
            return
        try:
            await side.app(scope, receive, self._probes.keeping(scope, send) if path in PROBES else in_pieces(send))
        except UnknownToken:  # who has signed out, or whose token was revoked, in the middle of an answer (S35)
            place.end()  # cut off, so that nobody takes what came for the whole
        finally:
            places.leave(holder, place)

    def _for(self, path: str, token: Token | None) -> tuple[Places, ...]:
        if path in PROBES:
            return (self._probing,)
        if token is None:
            return (self._strangers,)
        return (self._admins, self._tokens) if token.role is Role.ADMIN else (self._tokens,)


def _refusal(token: Token | None) -> ASGIApp:
    later = {"Retry-After": "1"}
    if token is None:
        title = "Too many requests without a token are under way."
        return problem(503, title, "Try again in a moment, or send a token.", later)
    title = f"Too many requests are under way, {TOKENS.each} at the most of token {token.name!r}."
    return problem(429, title, "Wait for some answers, read them, and try again.", later)


def _too_often() -> tuple[Message, Message]:
    """Made once: who is refused thousands of times a second should cost next to nothing (S29)."""
    hint = "Wait a second, or send a token."
    made = problem(429, "Too many requests without a token.", hint, {"Retry-After": "1"})
    return (
        {"type": "http.response.start", "status": made.status_code, "headers": made.raw_headers},
        {"type": "http.response.body", "body": made.body},
    )


TOO_OFTEN = _too_often()


def in_pieces(send: Send) -> Send:
    """Sends a large body in pieces, the next one when the client has taken the last (S24, S26)."""

    async def sent(message: Message) -> None:
        body = message.get("body", b"")
        if len(body) <= LARGE_BYTES:
            await send(message)
            return
        last = (len(body) - 1) // LARGE_BYTES * LARGE_BYTES
        for begin in range(0, last, LARGE_BYTES):
            await send(_piece(body[begin : begin + LARGE_BYTES], more=True))
            await asyncio.sleep(0)  # a quick reader must not keep VMs waiting
        await send(_piece(body[last:], more=message.get("more_body", False)))

    return sent


def _piece(body: bytes, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}
