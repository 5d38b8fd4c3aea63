"""Who may act: a token on every call, loopback included; the calls that manage tokens; the first token."""

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from duenotice.domain import commands as c
from duenotice.domain.records import TokenCreated
from duenotice.domain.token import Role, Token, digest_of, token_with
from duenotice.engine.engine import Records
from duenotice.errors import Misconfigured
from duenotice.operator_api.answers import Resource, problem, shown
from duenotice.operator_api.calls import Call, Paging, actor_of, by_id, decoded, new_id
from duenotice.system import SecretFile
from duenotice.wire import operator as o
from duenotice.wire.operator import from_domain, to_domain

ASKED_WITH = "duenotice.asked_with"
"""Where the scope of a request from inside this process has the id of its token."""
FILE = "admin.token"
SHORTEST = 20
"""Length in characters; a shorter text was not written by us."""


def new_token() -> str:
    """A token nobody can guess."""
    return "dn_" + secrets.token_urlsafe(32)


def token_of(data_dir: Path) -> str:
    """The admin token of a data directory; the first start writes it, readable by its owner only."""
    path = data_dir / FILE
    # One that is there and empty is refused below: half a token would be easy to guess.
    token = SecretFile(path).change(lambda known: known if path.exists() else f"{new_token()}\n").strip()
    if len(token) < SHORTEST:
        raise Misconfigured(f"{path} holds no token.", hint="Remove it, and the next start writes a new one.")
    return token


class Gate:
    """Lets a request through if its token has a sufficient role. It knows tokens only by their digest."""

    def __init__(
        self, tokens: Callable[[], Mapping[str, Token]], vouched_for: Callable[[Request], str] = lambda _: ""
    ) -> None:
        """`vouched_for` is the id of the token that another node has seen, which passes a request on; or empty."""
        self._tokens, self._vouched_for = tokens, vouched_for
        self.own: tuple[Token, ...] = ()
        """Tokens of the node's own workers. They end with the process, so they are in no journal."""

    def refuse(self, request: Request, needed: Role) -> Response | None:
        """Why this request is refused, or None; then who asks is stored in its state."""
        token = self.token_of(request)
        if token is None:
            hint = f"Send 'Authorization: Bearer …' with a token, such as the one from {FILE} in the data directory."
            return problem(401, "This needs a token.", hint, {"WWW-Authenticate": "Bearer"})
        if not token.role.covers(needed):
            title = f"Token {token.name!r} has the role {token.role.value}; this needs {needed.value}."
            return problem(403, title, "Use a token with that role; an admin can create one.")
        state = request.state
        state.actor, state.token = f"token/{token.name}", token
        return None

    def token_of(self, request: Request) -> Token | None:
        """The token that a request shows, or that it is asked with; a revoked one is none from then on (S35)."""
        if secret := bearer_of(request):
            return token_with(secret, self.own) or token_with(secret, self._tokens().values())
        token_id = request.scope.get(ASKED_WITH) or self._vouched_for(request)
        return self._tokens().get(token_id) if token_id else None


def asked_with(app: ASGIApp, token_id: Callable[[], str]) -> ASGIApp:
    """The API for a part of this process, such as the console, that knows whose token it acts for at each request."""

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        scope[ASKED_WITH] = token_id()
        await app(scope, receive, send)

    return asked


def comes_with_token(request: Request) -> bool:
    """Whether it shows a token, or is asked with one; it may not be known."""
    return bool(bearer_of(request) or request.scope.get(ASKED_WITH))


def bearer_of(request: Request) -> str:
    """The secret in the head of a request; empty when there is none, or more than one."""
    given = request.headers.getlist("authorization")
    scheme, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return secret.strip() if scheme.lower() == "bearer" else ""


class Tokens(Resource):
    """The tokens that there are."""

    def calls(self) -> list[Call]:
        """The rows of the table."""
        one, all_, admin = "/v1/tokens/{id}", "/v1/tokens", Role.ADMIN
        page, paging = {200: o.Page[o.Token]}, ("limit", "cursor")
        return [
            Call("GET", "/v1/me", Role.VIEWER, self.me, "Whose token this is", {200: o.Token}),
            Call("GET", all_, admin, self.index, "List tokens, without secrets", page, query=paging),
            Call("POST", all_, admin, self.create, "Create a token, shown once", {201: o.NewToken}, o.TokenRequest),
            Call("DELETE", one, admin, self.revoke, "Revoke a token", {204: None}),
        ]

    async def me(self, request: Request) -> Response:
        """The token that asks."""
        return shown(from_domain.token(request.state.token))

    async def index(self, request: Request) -> Response:
        """All tokens, without their secrets; there are never very many."""
        paging, known = Paging.of(request), list(self._tokens.values())
        return await self._written(lambda: paging.page(known, _name, from_domain.token))

    async def create(self, request: Request) -> Response:
        """A new token; its secret is only ever in this answer."""
        asked = await decoded(request, o.TokenRequest)
        secret, token_id, role = new_token(), new_id(), to_domain.parse_role(asked.role)
        if asked.only:
            to_domain.chooses(asked.only)
        command = c.CreateToken(token_id, asked.name, role, digest_of(secret), only=asked.only)
        records = await self._engine.submit(command, actor_of(request))
        made = from_domain.new_token(_made(records), secret)
        return shown(made, 201, {"Location": f"/v1/tokens/{token_id}", "Cache-Control": "no-store"})

    async def revoke(self, request: Request) -> Response:
        """Revoke a token."""
        token = by_id(self._tokens.values(), request.path_params["id"], "token")
        await self._engine.submit(c.RevokeToken(token.id), actor_of(request))
        return Response(status_code=204)

    @property
    def _tokens(self) -> dict[str, Token]:
        return self._engine.state.tokens


def _made(records: Records) -> Token:
    """As it was stored: a leader that is cut off then may not show it yet (S23)."""
    changes = (record.transition for record in records)
    return next(change.token for change in changes if isinstance(change, TokenCreated))


def _name(token: Token) -> str:
    return token.name
