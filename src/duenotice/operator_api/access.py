"""The routes of tokens: list them, create one, revoke one."""

from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain import commands as c
from duenotice.domain.token import TOKEN_NAME, Role, Token
from duenotice.engine.engine import Engine
from duenotice.operator_api.bodies import actor_of, decoded, new_id
from duenotice.operator_api.finding import by_id
from duenotice.operator_api.pages import page
from duenotice.operator_api.table import Call
from duenotice.operator_api.tokens import digest_of, new_token
from duenotice.wire import operator_json
from duenotice.wire import operator_shapes as shapes


class TokenRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request for a token."""

    name: Annotated[str, msgspec.Meta(extra_json_schema={"pattern": TOKEN_NAME})]
    role: Annotated[str, msgspec.Meta(extra_json_schema={"enum": [role.value for role in Role]})]


class Access:
    """Translates between JSON and the commands of tokens."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def calls(self) -> list[Call]:
        """The rows of the table."""
        paging = ("limit", "cursor")
        page, new = {200: shapes.Page[shapes.Token]}, {201: shapes.NewToken}
        return [
            Call("GET", "/v1/me", Role.VIEWER, self.me, "Whose token this is", answers={200: shapes.Token}),
            Call(
                "GET", "/v1/tokens", Role.ADMIN, self.index, "List tokens, without secrets", query=paging, answers=page
            ),
            Call(
                "POST", "/v1/tokens", Role.ADMIN, self.create, "Create a token, shown once", TokenRequest, answers=new
            ),
            Call("DELETE", "/v1/tokens/{id}", Role.ADMIN, self.revoke, "Revoke a token", answers={204: None}),
        ]

    async def me(self, request: Request) -> Response:
        """The token that asks."""
        return JSONResponse(operator_json.token_to_json(request.state.token))

    async def index(self, request: Request) -> Response:
        """All tokens, without their secrets."""
        return page(request, self._tokens.values(), _name, operator_json.token_to_json)

    async def create(self, request: Request) -> Response:
        """A new token; its secret is only ever in this answer."""
        asked = await decoded(request, TokenRequest)
        secret, token_id = new_token(), new_id()
        command = c.CreateToken(token_id, asked.name, operator_json.parse_role(asked.role), digest_of(secret))
        await self._engine.submit(command, actor_of(request))
        made: shapes.NewToken = {**operator_json.token_to_json(self._tokens[token_id]), "token": secret}
        return JSONResponse(made, 201, {"Location": f"/v1/tokens/{token_id}", "Cache-Control": "no-store"})

    async def revoke(self, request: Request) -> Response:
        """Revoke a token."""
        token = by_id(self._tokens.values(), request.path_params["id"], "token")
        await self._engine.submit(c.RevokeToken(token.id), actor_of(request))
        return Response(status_code=204)

    @property
    def _tokens(self) -> dict[str, Token]:
        return self._engine.state.tokens


def _name(token: Token) -> str:
    return token.name
