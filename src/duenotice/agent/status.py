"""What others may ask the agent: its own port for load balancers, people and Prometheus, and the one for its peers.

These tell; they change nothing. Commands on this machine ask at a socket in the state directory, which only the agent's
user may open, and that works without any port, also when the disk is full: it tells the same, and takes what a person
wants (`control`). docs/metrics.md is made from the table `METRICS`.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Set
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from duenotice import __version__
from duenotice.agent.handlers.readiness import READINESS, ReadinessState
from duenotice.agent.http_server import Request, Respond, serve
from duenotice.agent.ledger import OUTCOMES, Counters
from duenotice.agent.log import complain
from duenotice.agent.peers import PeerState, answer_peer
from duenotice.agent.planner import is_in_service, is_ready
from duenotice.agent.problems import KINDS, Problem, kinds_of
from duenotice.agent.state import Events, HandlerRun, TrackedEvent
from duenotice.clock import wall
from duenotice.errors import Misconfigured
from duenotice.http.fetch import HttpAnswer
from duenotice.settings import parse_listen

if TYPE_CHECKING:
    from duenotice.agent.runtime import Agent

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SOCKET = "agent.sock"
_WORKS_NOT = {
    "socket": "Commands such as 'agent status' cannot ask the agent.",
    "status": "Load balancers and Prometheus cannot ask the agent.",
    "peers": "Other agents cannot ask this one, so none approves what hits this VM too.",
}


class Ports:
    """The agent's socket, and the ports that its configuration names.

    One that cannot be opened does not stop the agent: that is said, and tried again (S32).
    """

    def __init__(self, agent: "Agent", actions: Respond) -> None:
        pages = answers(READINESS, agent)
        self._socket = agent.directory / SOCKET
        self._wanted: dict[str, tuple[tuple[str, int] | Path, Respond]] = {
            "socket": (self._socket, lambda asked: actions(asked) if asked.method == "POST" else pages(asked))
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


def _answer_peer(agent: "Agent", asked: Request) -> HttpAnswer:
    return answer_peer(asked, agent.config.peer_keys, agent.me, partial(tell, agent))


def tell(agent: "Agent", event_id: str, revision: str) -> PeerState:
    """What a peer is told."""
    events = agent.recorder.events
    event = events.get(event_id)
    ready = event is not None and event.revision == revision and is_ready(event, agent.world())
    return PeerState(ready, is_in_service(events))


def status(agent: "Agent") -> dict[str, Any]:
    """What `/status` says."""
    now = wall()
    events, unrecorded = agent.shown()
    return {
        "vm": agent.me,
        "now": now.isoformat(),
        "policy": agent.config.approval.policy,
        "heard": agent.document is not None,
        "seconds_unread": round(agent.seconds_unread),
        "incarnation": agent.document.incarnation if agent.document else None,
        "drained": READINESS.is_drained,
        "problems": [problem._asdict() for problem in agent.problems()],
        "events": events_json(events, now, unrecorded),
    }


def _metrics(agent: "Agent") -> str:
    facts = AgentFacts(*agent.shown(), kinds_of(agent.problems()), READINESS.is_drained, agent.heard_at)
    return metrics(facts, agent.recorder.counters, agent.recorder.times_lost, wall())


def answers(switch: ReadinessState, agent: "Agent") -> Respond:
    """What each path says."""
    pages: dict[str, Callable[[], HttpAnswer]] = {
        "/readyz": lambda: _state(switch, 503 if switch.is_drained else 200),
        "/drainz": lambda: _state(switch, 200 if switch.is_drained else 503),
        "/livez": lambda: _alive(agent.is_polling),
        "/status": lambda: HttpAnswer(200, json.dumps(status(agent)).encode()),
        "/metrics": lambda: HttpAnswer(200, _metrics(agent).encode(), {"content-type": METRICS_TYPE}),
    }

    def respond(request: Request) -> HttpAnswer:
        page = pages.get(request.target.partition("?")[0])
        known = " ".join(pages)
        return page() if page else HttpAnswer(404, json.dumps({"error": f"There are {known}."}).encode())

    return respond


def _state(switch: ReadinessState, status: int) -> HttpAnswer:
    body = {"drained": switch.is_drained, "reasons": switch.reasons}
    return HttpAnswer(status, json.dumps(body).encode(), {"cache-control": "no-store"})


def _alive(is_polling: bool) -> HttpAnswer:
    """Starting the agent again helps when it does not ask; it does not help when the service does not answer."""
    return HttpAnswer(200 if is_polling else 503, json.dumps({"alive": is_polling}).encode())


def events_json(events: Events, now: datetime, unrecorded: Set[str] = frozenset()) -> list[dict[str, Any]]:
    """Every event, the oldest first; `unrecorded` are those that the ledger does not have as they are."""
    return [_event_json(event, now, event_id not in unrecorded) for event_id, event in events.items()]


def _event_json(event: TrackedEvent, now: datetime, recorded: bool) -> dict[str, Any]:
    waits = not event.seen.started and not event.seen.is_advice and not event.recovering
    coming = event.not_before is not None and waits
    left = (event.not_before - now).total_seconds() if coming and event.not_before else None
    return {
        "event_id": event.seen.event_id,
        "type": event.seen.type,
        "status": event.seen.status,
        "state": state_of(event) if recorded else "unrecorded",
        "drill": event.drill,
        "not_before": _time(event.not_before),
        "coming": coming,
        "seconds_left": None if left is None else max(0, round(left)),
        "resources": list(event.seen.resources),
        "source": event.seen.source,
        "description": event.seen.description,
        "duration": event.seen.duration,
        "first_seen": _time(event.first_seen),
        "approved_at": _time(event.approved_at),
        "returning": event.recovering,
        "unprepared": event.unprepared,
        "handlers": [_run_json(name, run) for name, run in event.runs.items()],
    }


def _run_json(name: str, run: HandlerRun) -> dict[str, Any]:
    state = "stuck" if run.is_stuck else "skipped" if run.skipped else run.state
    return {
        "handler": name,
        "state": state,
        "at": _time(run.at),
        "tries": run.tries,
        "reason": run.reason,
        "output": run.output,
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


PREFIX = "duenotice_agent_"


class AgentMetric(NamedTuple):
    """One metric; `wake` says when somebody should look at it."""

    kind: str
    text: str
    labels: tuple[str, ...] = ()
    wake: str = ""


METRICS = {
    "info": AgentMetric("gauge", "The agent's version.", ("version",)),
    "events": AgentMetric("gauge", "Events that hit this VM, by what the agent is doing about them.", ("state",)),
    "handler_runs_total": AgentMetric(
        "counter", "Handlers that ended, by outcome.", ("handler", "outcome"), "failed or stuck grows"
    ),
    "approvals_total": AgentMetric("counter", "Events approved."),
    "problem": AgentMetric(
        "gauge", "Whether there is a problem of this kind; `agent status` says which.", ("kind",), "any is 1"
    ),
    "unprepared_total": AgentMetric(
        "counter", "Events for which not all was prepared when they began, or their notice was over.", wake="it grows"
    ),
    "ledger_lost_total": AgentMetric(
        "counter", "How often the ledger was gone or changed, and was written again.", wake="it grows"
    ),
    "documents_total": AgentMetric("counter", "Documents that were different from the one before."),
    "poll_errors_total": AgentMetric("counter", "Polls that gave no document.", wake="20 in ten minutes"),
    "drained": AgentMetric("gauge", "Whether the readiness switch says drained."),
    "last_document_timestamp_seconds": AgentMetric("gauge", "When the document last changed."),
    "notice_left_seconds": AgentMetric("gauge", "Seconds until the next event may start; -1 for none."),
}
STATES = ("seen", "preparing", "prepared", "failed", "approved", "started", "recovering", "stuck", "unrecorded", "over")
LABELS: dict[str, tuple[str, ...]] = {"state": STATES[:-1], "outcome": OUTCOMES, "kind": tuple(KINDS)}
"""The words of each label; a handler is named as in the configuration."""

Sample = tuple[tuple[str, ...], float]


class AgentFacts(NamedTuple):
    """What is so now: the events, those of them that are not recorded, the kinds of problems there are."""

    events: Events
    unrecorded: Set[str] = frozenset()
    problems: Set[str] = frozenset()
    drained: bool = False
    heard_at: datetime | None = None


def metrics(facts: AgentFacts, counters: Counters, times_lost: int, now: datetime) -> str:
    """The text that Prometheus reads."""
    samples = _samples(facts, counters, times_lost, now)
    return "".join(f"{line}\n" for name, row in METRICS.items() for line in _lines(name, row, samples[name]))


def _samples(facts: AgentFacts, counters: Counters, times_lost: int, now: datetime) -> dict[str, list[Sample]]:
    real = [event for event in facts.events.values() if not event.drill and not event.is_closed]
    states = Counter("unrecorded" if event.seen.event_id in facts.unrecorded else state_of(event) for event in real)
    runs = {(handler, what): number for (what, handler), number in sorted(counters.records.items()) if handler}
    return {
        "info": [((__version__,), 1)],
        "events": [((state,), number) for state, number in sorted(states.items())],
        "handler_runs_total": list(runs.items()),
        "approvals_total": [((), counters.records["approved", ""])],
        "problem": [((kind,), int(kind in facts.problems)) for kind in KINDS],
        "unprepared_total": [((), counters.records["unprepared", ""])],
        "ledger_lost_total": [((), times_lost)],
        "documents_total": [((), counters.documents)],
        "poll_errors_total": [((), counters.poll_errors)],
        "drained": [((), int(facts.drained))],
        "last_document_timestamp_seconds": [((), facts.heard_at.timestamp() if facts.heard_at else 0.0)],
        "notice_left_seconds": [((), _least(real, now))],
    }


def _lines(name: str, row: AgentMetric, samples: list[Sample]) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {row.text}"
    yield f"# TYPE {PREFIX}{name} {row.kind}"
    for words, value in samples:
        labels = ",".join(f'{label}="{word}"' for label, word in zip(row.labels, words, strict=True))
        yield f"{PREFIX}{name}{{{labels}}} {value}" if labels else f"{PREFIX}{name} {value}"


def state_of(event: TrackedEvent) -> str:
    """The event in one word."""
    states = {run.state for run in event.runs.values()}
    if event.is_closed:
        return "over"
    if event.recovering:
        return "stuck" if any(run.is_stuck for run in event.runs.values()) else "recovering"
    if event.seen.started:
        return "started"
    if event.approved:
        return "approved"
    return next((state for state in ("failed", "preparing", "prepared") if state in states), "seen")


def _least(events: list[TrackedEvent], now: datetime) -> float:
    waiting = [event for event in events if not (event.seen.started or event.seen.is_advice or event.recovering)]
    coming = [event.not_before for event in waiting if event.not_before]
    return max(0.0, (min(coming) - now).total_seconds()) if coming else -1.0
