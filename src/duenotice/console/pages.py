"""What every page of the console is made with: the visit it answers, and the row that says where it is."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from duenotice.console.api import Api, ApiProblem

ROLES = ("viewer", "operator", "admin")
LONGEST_FORM = 64 * 1024


class Visit(NamedTuple):
    """One request of somebody who has come in."""

    request: Request
    api: Api
    me: dict[str, Any]
    clock: dict[str, Any]
    position: int
    render: Callable[..., str]

    @property
    def now(self) -> datetime:
        """The time on the service's clock."""
        return datetime.fromisoformat(self.clock["now"])

    def may(self, role: str) -> bool:
        """Whether the visitor's token is enough for a role."""
        return ROLES.index(self.me["role"]) >= ROLES.index(role)

    def query(self, name: str, default: str = "") -> str:
        """A parameter of the address."""
        return self.request.query_params.get(name, default)

    def page(self, template: str, title: str, **values: Any) -> Response:
        """A whole page."""
        common = {
            "title": title,
            "path": self.request.url.path,
            "me": self.me,
            "clock": self.clock,
            "now": self.now,
            "may": self.may,
            "said": self.query("said"),
            "failed": self.query("failed"),
            "position": self.position,
        }
        return HTMLResponse(self.render(template, **common, **values))

    def parts(self, template: str, **values: Any) -> Response:
        """Pieces of a page, to be put in place of those with the same ids."""
        return HTMLResponse(self.render(template, now=self.now, may=self.may, clock=self.clock, **values))

    async def done(self, path: str, act: Callable[[], Awaitable[Any]], said: str) -> Response:
        """Do what a form asks for and go to a page that says how it went."""
        try:
            await act()
        except ApiProblem as problem:
            if problem.status == 401:
                raise
            return go(path, failed=f"{problem.message} {problem.hint}")
        return go(path, said=said)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; one that is too long to be meant is empty."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            return {}
    return dict(parse_qsl(body.decode(errors="replace"), max_num_fields=20))


class Page(NamedTuple):
    """One method of one path."""

    method: str
    path: str
    handler: Callable[[Visit], Awaitable[Response]]


def go(path: str, **said: str) -> Response:
    """To another page, with a word on what was done."""
    return RedirectResponse(f"{path}?{urlencode(said)}" if said else path, 303)
