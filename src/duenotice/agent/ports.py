"""What others may ask the agent: its own port for load balancers, people and Prometheus, and the one for its peers.

These tell; they change nothing. Commands on this machine ask at a socket in the state directory, which only the agent's
user may open, and that works without any port, also when the disk is full: it tells the same, and takes what the person
wants (`levers`).
"""

import asyncio
import json
from collections.abc import Callable, Set
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from duenotice.agent.cases import Case, Cases, Work
from duenotice.agent.config import Config
from duenotice.agent.handlers.readiness import SWITCH, Switch
from duenotice.agent.http import Request, Respond, serve
from duenotice.agent.logs import complain
from duenotice.agent.metrics import AgentFacts, metrics, state_of
from duenotice.agent.peers import PeerState, answer_peer
from duenotice.agent.plan import PlanView, is_in_service, is_ready
from duenotice.agent.problems import Problem, kinds_of
from duenotice.agent.recorder import Recorder
from duenotice.clock import wall
from duenotice.errors import Misconfigured
from duenotice.http.fetch import HttpAnswer
from duenotice.settings import parse_listen
from duenotice.wire.seen_documents import SeenDocument

METRICS = "text/plain; version=0.0.4; charset=utf-8"
SOCKET = "agent.sock"
_WORKS_NOT = {
    "socket": "Commands such as 'agent status' cannot ask the agent.",
    "status": "Load balancers and Prometheus cannot ask the agent.",
    "peers": "Other agents cannot ask this one, so none approves what hits this VM too.",
}


class Told(Protocol):
    """What an agent can tell others."""

    config: Config
    recorder: Recorder
    directory: Path
    document: SeenDocument | None
    heard_at: datetime | None

    @property
    def me(self) -> str: ...

    @property
    def is_polling(self) -> bool: ...

    @property
    def seconds_unread(self) -> float: ...

    def view(self) -> PlanView: ...
    def shown(self) -> tuple[Cases, set[str]]: ...
    def problems(self) -> list[Problem]: ...


class Ports:
    """The agent's socket, and the ports that its configuration names.

    One that cannot be opened does not stop the agent: that is said, and tried again (S32).
    """

    def __init__(self, agent: Told, levers: Respond) -> None:
        pages = answers(SWITCH, agent)
        self._socket = agent.directory / SOCKET
        self._wanted: dict[str, tuple[tuple[str, int] | Path, Respond]] = {
            "socket": (self._socket, lambda asked: levers(asked) if asked.method == "POST" else pages(asked))
        }
        if agent.config.status_listen:
            self._wanted["status"] = agent.config.status_listen, pages
        if agent.config.peers:
            listen = parse_listen("listen", agent.config.peers.listen)
            self._wanted["peers"] = listen, lambda asked: _answer_peer(agent, asked)
        self._open: dict[str, asyncio.Server] = {}
        self._failures: dict[str, Misconfigured] = {}
        self._made: tuple[int, int] | None = None

    async def keep_open(self) -> None:
        """Open those that are not open; also the socket, when somebody has removed its file."""
        if "socket" in self._open and self._found() != self._made:
            self._open.pop("socket").close()
        for name in self._wanted.keys() - self._open.keys():
            where, respond = self._wanted[name]
            try:
                self._open[name] = await serve(where, respond, ("POST",) if name == "socket" else ())
            except Misconfigured as error:
                self._failures[name] = error
                complain(f"{name}-closed", error)
            else:
                self._failures.pop(name, None)
                self._made = self._found()

    def _found(self) -> tuple[int, int] | None:
        """Which file has the socket's name now: somebody may remove it, or replace the directory."""
        try:
            there = self._socket.stat()
        except OSError:
            return None
        return there.st_dev, there.st_ino

    def problems(self) -> list[Problem]:
        return [
            Problem("port", f"{_WORKS_NOT[name]} {error.message}", error.hint, handler=name)
            for name, error in sorted(self._failures.items())
        ]

    def close(self) -> None:
        for server in self._open.values():
            server.close()


def _answer_peer(agent: Told, asked: Request) -> HttpAnswer:
    return answer_peer(asked, agent.config.peer_keys, agent.me, partial(tell, agent))


def tell(agent: Told, event_id: str, content: str) -> PeerState:
    """What a peer is told."""
    cases = agent.recorder.cases
    case = cases.get(event_id)
    ready = case is not None and case.content == content and is_ready(case, agent.view())
    return PeerState(ready, is_in_service(cases))


def status(agent: Told) -> dict[str, Any]:
    """What `/status` says."""
    now = wall()
    cases, unrecorded = agent.shown()
    return {
        "vm": agent.me,
        "now": now.isoformat(),
        "policy": agent.config.approval.policy,
        "heard": agent.document is not None,
        "seconds_unread": round(agent.seconds_unread),
        "incarnation": agent.document.incarnation if agent.document else None,
        "drained": SWITCH.is_drained,
        "problems": [problem._asdict() for problem in agent.problems()],
        "events": cases_json(cases, now, unrecorded),
    }


def _metrics(agent: Told) -> str:
    facts = AgentFacts(*agent.shown(), kinds_of(agent.problems()), SWITCH.is_drained, agent.heard_at)
    return metrics(facts, agent.recorder.counters, agent.recorder.times_lost, wall())


def answers(switch: Switch, agent: Told) -> Respond:
    """What each path says."""
    pages: dict[str, Callable[[], HttpAnswer]] = {
        "/readyz": lambda: _state(switch, 503 if switch.is_drained else 200),
        "/drainz": lambda: _state(switch, 200 if switch.is_drained else 503),
        "/livez": lambda: _alive(agent.is_polling),
        "/status": lambda: HttpAnswer(200, json.dumps(status(agent)).encode()),
        "/metrics": lambda: HttpAnswer(200, _metrics(agent).encode(), {"content-type": METRICS}),
    }

    def respond(request: Request) -> HttpAnswer:
        page = pages.get(request.target.partition("?")[0])
        known = " ".join(pages)
        return page() if page else HttpAnswer(404, json.dumps({"error": f"There are {known}."}).encode())

    return respond


def _state(switch: Switch, status: int) -> HttpAnswer:
    body = {"drained": switch.is_drained, "reasons": switch.reasons}
    return HttpAnswer(status, json.dumps(body).encode(), {"cache-control": "no-store"})


def _alive(is_polling: bool) -> HttpAnswer:
    """Starting the agent again helps when it does not ask; it does not help when the service does not answer."""
    return HttpAnswer(200 if is_polling else 503, json.dumps({"alive": is_polling}).encode())


def cases_json(cases: Cases, now: datetime, unrecorded: Set[str] = frozenset()) -> list[dict[str, Any]]:
    """Every case, the oldest first; `unrecorded` are those that the ledger does not have as they are."""
    return [_case_json(case, now, event_id not in unrecorded) for event_id, case in cases.items()]


def _case_json(case: Case, now: datetime, recorded: bool) -> dict[str, Any]:
    waits = not case.event.started and not case.event.is_advice and not case.returning
    coming = case.not_before is not None and waits
    left = (case.not_before - now).total_seconds() if coming and case.not_before else None
    return {
        "event_id": case.event.event_id,
        "type": case.event.type,
        "status": case.event.status,
        "state": state_of(case) if recorded else "unrecorded",
        "drill": case.drill,
        "not_before": _time(case.not_before),
        "coming": coming,
        "seconds_left": None if left is None else max(0, round(left)),
        "resources": list(case.event.resources),
        "source": case.event.source,
        "description": case.event.description,
        "duration": case.event.duration,
        "first_seen": _time(case.first_seen),
        "approved_at": _time(case.approved_at),
        "returning": case.returning,
        "unprepared": case.unprepared,
        "handlers": [_work_json(name, work) for name, work in case.works.items()],
    }


def _work_json(name: str, work: Work) -> dict[str, Any]:
    state = "stuck" if work.is_stuck else "skipped" if work.skipped else work.state
    return {
        "handler": name,
        "state": state,
        "at": _time(work.at),
        "tries": work.tries,
        "reason": work.reason,
        "output": work.output,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
