"""Scenarios being played: one at a time, in a thread, with the token of who began it; kept while the service runs."""

import asyncio
import threading
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, TypeVar

from duenotice.client.operator.client import OperatorClient
from duenotice.client.operator.request import OperatorRequest
from duenotice.console.hints import with_pages
from duenotice.errors import Conflict, DuenoticeError, Malformed, NotFound, Refused
from duenotice.http.asgi import App
from duenotice.scenarios import progress as p
from duenotice.scenarios.player import play
from duenotice.scenarios.scenario import Scenario

T = TypeVar("T")
MOST_PLAYS = 20
STOPPED = "stopped"
ANSWER_SECONDS = 30.0


class Stopped(Exception):
    """Somebody ended the play, or the service ends."""


class StepLine(NamedTuple):
    """One step and its progress; `state` is waiting, running, passed or failed."""

    text: str
    note: str
    state: str = "waiting"
    seen: str = ""
    at: datetime | None = None
    until: datetime | None = None


class PlayOutcome(NamedTuple):
    """How a play ended: passed, failed, refused or stopped; `left` is what was raised and is still there."""

    outcome: str
    problem: str = ""
    hint: str = ""
    left: tuple[str, ...] = ()


class Play:
    """One play and its progress so far. Written by its own thread, read by pages."""

    def __init__(self, number: int, scenario: Scenario, by: str) -> None:
        self.id, self.scenario, self.by = str(number), scenario, by
        self.lines = [StepLine(step.tell(), step.note) for step in scenario.steps]
        self.cast: Mapping[str, str] = {}
        self.verdict: PlayOutcome | None = None
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
                self.verdict = PlayOutcome(progress.outcome, progress.problem, progress.hint, progress.left)

    def end(self, outcome: str, problem: str, hint: str = "") -> None:
        """It ended without the player's own verdict."""
        self.verdict = PlayOutcome(outcome, problem, hint)


class Plays:
    """The plays of this service."""

    def __init__(self) -> None:
        self._plays: dict[str, Play] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    def newest_first(self) -> list[Play]:
        """Those that are remembered."""
        return list(self._plays.values())[::-1]

    def find(self, play_id: str) -> Play:
        """One of them."""
        if play_id not in self._plays:
            raise NotFound(f"There is no play {play_id}.", hint="The service forgets plays when it restarts.")
        return self._plays[play_id]

    def begin(self, scenario: Scenario, told: Mapping[str, str], api: App, by: str) -> Play:
        """Begin one. Only one is played at a time, because two would see each other's events."""
        if running := next((one for one in self._plays.values() if one.verdict is None), None):
            raise Conflict(f"{running.scenario.name} is being played.", hint="Wait for its end, or stop it.")
        self._count += 1
        begun = self._plays[str(self._count)] = Play(self._count, scenario, by)
        while len(self._plays) > MOST_PLAYS:
            del self._plays[next(iter(self._plays))]
        client = PlayersClient.in_process(
            api, "", asyncio.get_running_loop(), timeout=ANSWER_SECONDS, explain=_as_refusal
        )
        client.stop = begun.stop
        task = asyncio.create_task(asyncio.to_thread(_run, begun, told, client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return begun

    async def close(self) -> None:
        """Stop what is played, and wait until it has."""
        for one in self._plays.values():
            one.stop.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class PlayersClient(OperatorClient):
    """Asks until it is stopped."""

    stop: threading.Event

    def _send(self, request: OperatorRequest[T]) -> T:
        if self.stop.is_set():
            raise Stopped
        return super()._send(request)


def _as_refusal(error: DuenoticeError) -> DuenoticeError:
    """Whatever the service does not do ends a play; its verdict says what is left behind."""
    with_pages(error)
    return error if isinstance(error, Refused | Malformed) else Refused(error.message, hint=error.hint)


def _run(play_: Play, told: Mapping[str, str], client: PlayersClient) -> None:
    """The whole play, in a thread of its own: the player waits and asks like any program."""

    def sleep(seconds: float) -> None:
        if play_.stop.wait(seconds):
            raise Stopped

    try:
        for progress in play(play_.scenario, client, told, sleep):
            play_.note(progress)
    except Stopped:
        play_.end(STOPPED, "It was stopped.", "What it raised is still there.")
    except DuenoticeError as error:
        play_.end(p.REFUSED, error.message, error.hint)
    except Exception as error:  # a page must not show it as running for ever
        play_.end(p.FAILED, f"The play failed with an internal error: {error!r}.", "Please report this.")
        raise
