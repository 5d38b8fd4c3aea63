"""The page of tokens, for admins: who may ask the service, a new token, and the end of one."""

from collections.abc import Mapping

from starlette.responses import Response

from duenotice.client.operator.errors import Denied
from duenotice.console.pages import PageRoute, Visit, form_of, status_of
from duenotice.errors import DuenoticeError
from duenotice.wire.operator import ROLES, NewToken

EMPTY = {"name": "", "role": ROLES[0], "only": ""}


class TokenPages:
    """Shows tokens without their secrets; a new one's secret is shown once."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [
            PageRoute("GET", "/tokens", self.index),
            PageRoute("POST", "/tokens", self.create, "admin"),
            PageRoute("POST", "/tokens/{id}/revoke", self.revoke, "admin"),
        ]

    async def index(self, visit: Visit) -> Response:
        """All of them, and a form for another."""
        return await _all(visit, EMPTY)

    async def create(self, visit: Visit) -> Response:
        """Make one; its secret is on the page that answers, and nowhere after that."""
        given = EMPTY | await form_of(visit.request)
        try:
            made = await visit.client.create_token(given["name"].strip(), given["role"], given["only"].strip())
        except Denied:
            raise
        except DuenoticeError as problem:
            return await _all(visit, given, f"{problem.message} {problem.hint}", status=status_of(problem))
        return await _all(visit, EMPTY, made=made)

    async def revoke(self, visit: Visit) -> Response:
        """Refuse everybody who uses it from now on."""
        which = visit.name("id")
        return await visit.done("/tokens", lambda: visit.client.revoke_token(which), "The token is revoked.")


async def _all(
    visit: Visit, given: Mapping[str, str], refused: str = "", made: NewToken | None = None, status: int = 200
) -> Response:
    known = [token async for token in visit.client.tokens()]
    is_open = bool(refused) or made is not None  # then a reload would lose what is shown once
    live = "" if is_open else "tokens"
    shown = {"known": known, "given": given, "refused": refused, "made": made, "roles": ROLES}
    return visit.page("tokens.html", "Tokens", live, status, **shown)
