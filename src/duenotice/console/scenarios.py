"""Scenarios: which can be played, and runs of them, one at a time, with the token of who began it.

They are played only where the clock is not real, so that no real VM is affected.
"""

import asyncio
import threading
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import NamedTuple, TypeVar

from starlette.responses import Response

from duenotice.client.operator.client import OperatorClient
from duenotice.client.operator.errors import Denied
from duenotice.client.operator.request import OperatorRequest
from duenotice.console.visit import PageRoute, Visit, form_of, redirect, with_page_hint
from duenotice.errors import Conflict, DuenoticeError, Malformed, NotFound, Refused
from duenotice.http.asgi import App
from duenotice.scenarios import player as p
from duenotice.scenarios.kinds import needs_of
from duenotice.scenarios.player import play
from duenotice.scenarios.scenario import Scenario, shipped_names, shipped_scenario

T = TypeVar("T")
MOST_RUNS = 20
STOPPED = "stopped"
ANSWER_SECONDS = 30.0
LOOK_MILLISECONDS = 400
"""How often a page looks how far a run has come: it is not in the journal, so there is no live feed for it."""


class Stopped(Exception):
    """Somebody ended the run, or the service ends."""


class StepLine(NamedTuple):
    """One step and its progress; `state` is waiting, running, passed or failed."""

    text: str
    note: str
    state: str = "waiting"
    seen: str = ""
    at: datetime | None = None
    until: datetime | None = None


class RunVerdict(NamedTuple):
    """How a run ended: passed, failed, refused or stopped; `left` is what was raised and is still there."""

    outcome: str
    problem: str = ""
    hint: str = ""
    left: tuple[str, ...] = ()


class ScenarioRun:
    """One run of a scenario and its progress so far. Written by its own thread, read by pages."""

    def __init__(self, number: int, scenario: Scenario, by: str) -> None:
        self.id, self.scenario, self.by = str(number), scenario, by
        self.lines = [StepLine(step.tell(), step.note) for step in scenario.steps]
        self.cast: Mapping[str, str] = {}
        self.verdict: RunVerdict | None = None
        self.stop = threading.Event()

    @property
    def outcome(self) -> str:
        """Its state or outcome."""
        return "running" if self.verdict is None else self.verdict.outcome

    def note(self, progress: p.Progress) -> None:
        """Add what the player reports."""
        match progress:
            case p.Cast(names=names):
                self.cast = names
            case p.Begun(step=step, text=text, note=note, at=at):
                self.lines[step - 1] = StepLine(text, note, "running", at=at)
            case p.Waiting(step=step, until=until):
                self.lines[step - 1] = self.lines[step - 1]._replace(until=until)
            case p.Ended(step=step, ok=ok, seen=seen, at=at):
                state = "passed" if ok else "failed"
                self.lines[step - 1] = self.lines[step - 1]._replace(state=state, seen=seen, at=at, until=None)
            case p.PlayVerdict():
                self.verdict = RunVerdict(progress.outcome, progress.problem, progress.hint, progress.left)

    def end(self, outcome: str, problem: str, hint: str = "") -> None:
        """It ended without the player's own verdict."""
        self.verdict = RunVerdict(outcome, problem, hint)


class StoppableClient(OperatorClient):
    """Asks until it is stopped."""

    stop: threading.Event

    def _send(self, request: OperatorRequest[T]) -> T:
        if self.stop.is_set():
            raise Stopped
        return super()._send(request)


def _as_refusal(error: DuenoticeError) -> DuenoticeError:
    """Whatever the service does not do ends a run; its verdict says what is left behind."""
    with_page_hint(error)
    return error if isinstance(error, Refused | Malformed) else Refused(error.message, hint=error.hint)


def _play(run: ScenarioRun, cast: Mapping[str, str], client: StoppableClient) -> None:
    """All of it, in a thread of its own: the player waits and asks like any program."""

    def sleep(seconds: float) -> None:
        if run.stop.wait(seconds):
            raise Stopped

    try:
        for progress in play(run.scenario, client, cast, sleep):
            run.note(progress)
    except Stopped:
        run.end(STOPPED, "It was stopped.", "What it raised is still there.")
    except DuenoticeError as error:
        run.end(p.REFUSED, error.message, error.hint)
    except Exception as error:  # a page must not show it as running for ever
        run.end(p.FAILED, f"The scenario failed with an internal error: {error!r}.", "Please report this.")
        raise


class Scenarios:
    """The pages of scenarios, and the runs of this service: the last of them are remembered until it restarts."""

    def __init__(self) -> None:
        self._runs: dict[str, ScenarioRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    def pages(self) -> list[PageRoute]:
        """Which page is where."""
        return [
            PageRoute("GET", "/scenarios", self.scenarios_page, on_main_loop=True),
            PageRoute("GET", "/scenarios/plays/{id}", self.run_page, on_main_loop=True),
            PageRoute("POST", "/scenarios/plays/{id}/stop", self.stop, "operator"),
            PageRoute("GET", "/scenarios/{name}", self.scenario_page),
            PageRoute("POST", "/scenarios/{name}", self.begin, "operator"),
        ]

    async def close(self) -> None:
        """Stop what runs, and wait until it has."""
        for run in self._runs.values():
            run.stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def scenarios_page(self, visit: Visit) -> Response:
        """All that come with duenotice, and what was played, the newest first."""
        return visit.page(
            "scenarios.html",
            "Scenarios",
            scenarios=_all(),
            runs=list(self._runs.values())[::-1],
            may_play=may_play(visit),
        )

    async def scenario_page(self, visit: Visit) -> Response:
        """One scenario: what it is about, its cast and its steps."""
        found = shipped_scenario(visit.name("name"))
        return visit.page(
            "scenario.html",
            found.title,
            scenario=found,
            cast=[(role.name, needs_of(role)) for role in found.cast],
            may_play=may_play(visit),
        )

    async def begin(self, visit: Visit) -> Response:
        """Play it with the cast of the form."""
        found, form = shipped_scenario(visit.name("name")), await form_of(visit.request)
        if visit.clock.speed == 1:
            raise Conflict("The clock is real.", hint="Scenarios are played on demo and test services: --clock 60x.")
        if not may_play(visit):
            raise Denied("Your token may not play scenarios.", hint="Ask for an operator's token.")
        cast = {role.name: form[role.name].strip() for role in found.cast if form.get(role.name, "").strip()}
        try:
            begun = self._begin(found, cast, visit.api, visit.me.name)
        except DuenoticeError as error:
            return redirect(f"/scenarios/{found.name}", failed=f"{error.message} {error.hint}")
        return redirect(f"/scenarios/plays/{begun.id}")

    async def run_page(self, visit: Visit) -> Response:
        """The progress of a run."""
        run = self._find(visit)
        every = "" if run.verdict else str(LOOK_MILLISECONDS)
        return visit.page("scenario_run.html", run.scenario.title, run=run, may_play=may_play(visit), every=every)

    async def stop(self, visit: Visit) -> Response:
        """End a run before its last step; what it has raised stays."""
        if not may_play(visit):
            raise Denied("Your token may not stop scenarios.", hint="Ask for an operator's token.")
        run = self._find(visit)
        run.stop.set()
        return redirect(f"/scenarios/plays/{run.id}")

    def _find(self, visit: Visit) -> ScenarioRun:
        if (run := self._runs.get(visit.name("id"))) is None:
            raise NotFound(
                f"Scenario run {visit.name('id')} is not known.", hint="The service forgets runs when it restarts."
            )
        return run

    def _begin(self, scenario: Scenario, cast: Mapping[str, str], api: App, by: str) -> ScenarioRun:
        """Begin one. Only one is played at a time, because two would see each other's events."""
        if running := next((run for run in self._runs.values() if run.verdict is None), None):
            raise Conflict(f"{running.scenario.name} is being played.", hint="Wait for its end, or stop it.")
        self._count += 1
        begun = self._runs[str(self._count)] = ScenarioRun(self._count, scenario, by)
        while len(self._runs) > MOST_RUNS:
            del self._runs[next(iter(self._runs))]
        client = StoppableClient.in_process(
            api, "", asyncio.get_running_loop(), timeout=ANSWER_SECONDS, explain=_as_refusal
        )
        client.stop = begun.stop
        task = asyncio.create_task(asyncio.to_thread(_play, begun, cast, client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return begun


def may_play(visit: Visit) -> bool:
    """Whether the visitor may: operators where the clock runs by itself, admins where it must be told."""
    speed = visit.clock.speed
    return bool(speed != 1 and visit.may("admin" if speed == 0 else "operator"))


@cache
def _all() -> list[Scenario]:
    return [shipped_scenario(name) for name in shipped_names()]
