"""Who is signed in: a token once, then a cookie that no other site can use. The journal has the sessions.

So each node knows them, and none can be made from a copy of the journal. While nothing can be stored, people sign in
and out all the same, at this node alone: that is when they need the console most. It is stored as soon as that works
again. (Decision 0018.)
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import micros_of, monotonic
from duenotice.domain.commands import BeginSession, EndSession
from duenotice.domain.token import LASTS, MOST_OF_A_TOKEN, Session, Token, digest_of
from duenotice.engine.engine import Engine
from duenotice.errors import DuenoticeError, Refused, Unavailable

COOKIE = "duenotice_session"
HOST_ALONE = "__Host-"
"""Browsers take a cookie with such a name only over TLS, for all paths, and from no other host than this one."""


def secret_of(request: Request) -> str:
    """The secret of the visitor's session; empty when there is none."""
    return request.cookies.get(_cookie_name(request), "")


def set_cookie(response: Response, request: Request, secret: str) -> None:
    """Let the browser keep the secret where no script and no other site can reach it; the server ends it in time."""
    _set_cookie(response, request, secret, int(LASTS.total_seconds()))


def delete_cookie(response: Response, request: Request) -> None:
    """Let the browser forget it."""
    _set_cookie(response, request, "", 0)


def _set_cookie(response: Response, request: Request, secret: str, seconds: int) -> None:
    secure = request.url.scheme == "https"
    response.set_cookie(_cookie_name(request), secret, seconds, httponly=True, samesite="strict", secure=secure)


def _cookie_name(request: Request) -> str:
    """Browsers share cookies between the ports of a host; so two services on one host use two names."""
    name = f"{COOKIE}_{request.url.port or request.url.scheme}"
    return HOST_ALONE + name if request.url.scheme == "https" else name


_SECRET_BYTES = 32
_SECRET_LENGTH = 43
"""Letters of such a secret; anything else is not looked up."""

PATIENCE_SECONDS = 3.0
"""How long somebody waits for the journal, before the session is kept here alone."""
AGAIN_SECONDS = 2.0
"""How often it is tried again to store what could not be stored."""

SIGN_INS, ONE_MORE_SECONDS = 30, 2.0
"""Sign-ins of one token at once, and how long it takes until there is one more: each is a record for ever (S24)."""
_MOST_HERE, _MOST_ENDED, _MOST_RATES = 1_000, 10_000, 2_000


class SignedIn(NamedTuple):
    """What a browser gets; `problem` says why its session is at this node alone for now."""

    secret: str
    problem: DuenoticeError | None


async def _nothing() -> None:
    """A single node has caught up with itself."""


class Sessions:
    """The sessions of one console."""

    def __init__(self, engine: Engine, caught_up: Callable[[], Awaitable[None]] = _nothing) -> None:
        """`caught_up` waits until this node shows what another one may have shown already."""
        self._engine, self._caught_up = engine, caught_up
        self._here: dict[str, Session] = {}
        """Sessions that are not stored yet, the oldest first."""
        self._ended: dict[str, None] = {}
        """Who has signed out here: what was under way meanwhile does not bring the session back."""
        self._to_store: dict[str, tuple[BeginSession | EndSession, str]] = {}
        self._storing: asyncio.Task[None] | None = None
        self._free_at: dict[str, float] = {}

    def token_of(self, secret: str) -> Token | None:
        """The token whose rights the bearer of this secret has in this moment; a look into two dicts (S29, S35)."""
        if len(secret) != _SECRET_LENGTH:
            return None
        digest, state = digest_of(secret), self._engine.state
        session = state.sessions.get(digest) or self._here.get(digest)
        if session is None or digest in self._ended or session.is_over(self._engine.clock.now()):
            return None
        return state.tokens.get(session.token_id)

    async def token_now(self, secret: str) -> Token | None:
        """The same; the session may have begun at another node just now."""
        if (token := self.token_of(secret)) is None and len(secret) == _SECRET_LENGTH:
            await self._caught_up()
            return self.token_of(secret)
        return token

    async def begin(self, token_id: str, actor: str, instead_of: str) -> SignedIn:
        """Sign a browser in, with a new secret each time; the session that it had before ends."""
        self._count_in(token_id)
        secret, now = secrets.token_urlsafe(_SECRET_BYTES), self._engine.clock.now()
        lasts = int(micros_of(LASTS) * max(1.0, self._engine.clock.speed))  # twelve real hours, on a fast clock as well
        before = digest_of(instead_of) if await self.token_now(instead_of) is not None else ""
        command = BeginSession(token_id, digest_of(secret), lasts, before)
        problem = await self._store(command, actor)
        if before:
            self._end_here(before)
        if problem is not None:
            until = now.after(lasts)
            self._keep_here(Session(command.digest, token_id, until.at, until.steady))
        return SignedIn(secret, problem)

    async def end(self, secret: str) -> DuenoticeError | None:
        """Sign out: at this node at once, at others as soon as it is stored. Says why that takes longer."""
        if (token := await self.token_now(secret)) is None:
            return None
        digest = digest_of(secret)
        self._end_here(digest)
        return await self._store(EndSession(digest), f"token/{token.name}")

    async def close(self) -> None:
        """Try no more."""
        if self._storing is not None:
            self._storing.cancel()
            await asyncio.gather(self._storing, return_exceptions=True)

    def _count_in(self, token_id: str) -> None:
        now = monotonic()
        free_at = max(now, self._free_at.get(token_id, 0.0)) + ONE_MORE_SECONDS
        if free_at - now > SIGN_INS * ONE_MORE_SECONDS:
            raise Refused("This token has signed in too often.", hint=f"Try again in {ONE_MORE_SECONDS:g} seconds.")
        if len(self._free_at) >= _MOST_RATES:
            self._free_at = {each: at for each, at in self._free_at.items() if at > now}
        self._free_at[token_id] = free_at

    def _keep_here(self, session: Session) -> None:
        self._here[session.digest] = session
        own = [each.digest for each in self._here.values() if each.token_id == session.token_id]
        for digest in own[:-MOST_OF_A_TOKEN]:
            self._forget(digest)
        while len(self._here) > _MOST_HERE:
            self._forget(next(iter(self._here)))

    def _forget(self, digest: str) -> None:
        self._here.pop(digest, None)
        self._to_store.pop(digest, None)

    def _end_here(self, digest: str) -> None:
        self._forget(digest)
        self._ended[digest] = None
        while len(self._ended) > _MOST_ENDED:
            del self._ended[next(iter(self._ended))]

    async def _store(self, command: BeginSession | EndSession, actor: str) -> DuenoticeError | None:
        """Why it is not stored yet; then it is tried again until it is."""
        storing = self._engine.submit(command, actor)
        storing.add_done_callback(lambda done: done.cancelled() or done.exception())  # perhaps nobody waits by then
        await asyncio.wait((storing,), timeout=PATIENCE_SECONDS)
        try:
            if storing.done():
                storing.result()
                return None
            problem = Unavailable("The journal does not answer.", hint="See GET /readyz and the service's log.")
        except Unavailable as error:
            problem = error
        self._to_store[command.digest] = command, actor
        if self._storing is None or self._storing.done():
            self._storing = asyncio.create_task(self._store_all(), name="console-sessions")
        return problem

    async def _store_all(self) -> None:
        while self._to_store:
            await asyncio.sleep(AGAIN_SECONDS)
            for digest, (command, actor) in list(self._to_store.items()):
                try:
                    await self._engine.submit(command, actor)
                except Unavailable:
                    break
                except DuenoticeError:
                    pass  # its token was revoked meanwhile, and the session ended with it
                if self._to_store.get(digest) == (command, actor):  # and not signed out meanwhile
                    self._forget(digest)
