"""What probes ask, with no token: whether the process lives, whether (and why not) it takes requests, its version."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from duenotice import __version__
from duenotice.engine.engine import Engine
from duenotice.operator_api.problems import problem
from duenotice.operator_api.table import Call
from duenotice.plain_text import one_line
from duenotice.wire import operator_shapes as shapes

_LATER = {"Retry-After": "5"}


class Probes:
    """Answers from memory."""

    def __init__(self, engine: Engine, fleet_problem: Callable[[], str | None]) -> None:
        self._engine, self._fleet_problem = engine, fleet_problem

    def calls(self) -> list[Call]:
        """The rows of the table."""
        ready = {200: (shapes.Health, "text/plain")}
        return [
            Call("GET", "/livez", None, self.alive, "Whether the process lives", answers={200: shapes.Health}),
            Call(
                "GET",
                "/readyz",
                None,
                self.ready,
                "Whether it takes requests",
                query=("verbose",),
                answers=ready,
                refusals=(503,),
            ),
            Call("GET", "/version", None, self.version, "Which duenotice this is", answers={200: shapes.Version}),
        ]

    async def alive(self, _: Request) -> Response:
        """Always yes: otherwise nobody would answer."""
        return JSONResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """200 as long as polls are answered; `verbose` says what is wrong."""
        stopped = self._engine.failed.done()
        if "verbose" in request.query_params:
            return PlainTextResponse(self._checks(stopped), 503 if stopped else 200, _LATER if stopped else None)
        if stopped:
            return problem(503, "The engine has stopped.", "Look at the service's log.", _LATER)
        return JSONResponse({"status": "ok"})

    def _checks(self, stopped: bool) -> str:
        """One line for each check, in the form that Kubernetes uses."""
        problems = {"engine": "has stopped" if stopped else None, "fleet": self._fleet_problem()}
        lines = [one_line(f"[-]{name} {why}") if why else f"[+]{name} ok" for name, why in problems.items()]
        return "".join(f"{line}\n" for line in [*lines, f"readyz check {'failed' if stopped else 'passed'}"])

    async def version(self, _: Request) -> Response:
        """Ours."""
        return JSONResponse({"version": __version__})
