"""What others may ask the agent: its own port for load balancers, people and Prometheus, and the one for its peers.

Everything here tells; it changes nothing.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from duenotice.agent.cases import Case, Cases, Work
from duenotice.agent.config import Config
from duenotice.agent.handlers.readiness import SWITCH, Switch
from duenotice.agent.http import Request, Respond, serve
from duenotice.agent.metrics import metrics, state_of
from duenotice.agent.peers import PeerState, answer_peer
from duenotice.agent.plan import PlanView, is_in_service, is_ready
from duenotice.agent.recorder import Recorder
from duenotice.clock import wall
from duenotice.http_call import HttpAnswer
from duenotice.settings import parse_listen
from duenotice.wire.seen_document import SeenDocument

METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Told(Protocol):
    """What an agent can tell others."""

    config: Config
    recorder: Recorder
    directory: Path
    me: str
    document: SeenDocument | None
    heard_at: datetime | None

    @property
    def unfinished(self) -> set[str]: ...

    def view(self) -> PlanView: ...


async def open_ports(agent: Told) -> list[asyncio.Server]:
    """The ports that the configuration names."""
    SWITCH.keep_in(agent.directory / "drained.json")
    if not agent.unfinished:  # nothing would ever put it back
        SWITCH.clear()
    servers = []
    if agent.config.status_listen:
        pages = answers(SWITCH, lambda: status(agent), lambda: _metrics(agent))
        servers.append(await serve(agent.config.status_listen, pages))
    if agent.config.peers:
        address = parse_listen("listen", agent.config.peers.listen)
        servers.append(await serve(address, lambda asked: _answer_peer(agent, asked)))
    return servers


def _answer_peer(agent: Told, asked: Request) -> HttpAnswer:
    return answer_peer(asked, agent.config.peer_key, agent.me, lambda event_id, content: tell(agent, event_id, content))


def tell(agent: Told, event_id: str, content: str) -> PeerState:
    """What a peer is told."""
    cases = agent.recorder.cases
    case = cases.get(event_id)
    ready = case is not None and case.content == content and is_ready(case, agent.view())
    return PeerState(ready, is_in_service(cases))


def status(agent: Told) -> dict[str, Any]:
    """What `/status` says."""
    now = wall()
    return {
        "vm": agent.me,
        "now": now.isoformat(),
        "policy": agent.config.approval.policy,
        "heard": agent.document is not None,
        "incarnation": agent.document.incarnation if agent.document else None,
        "drained": SWITCH.is_drained,
        "events": cases_json(agent.recorder.cases, now),
    }


def _metrics(agent: Told) -> str:
    return metrics(agent.recorder.cases, agent.recorder.counters, wall(), SWITCH.is_drained, agent.heard_at)


def answers(switch: Switch, status: Callable[[], dict[str, Any]], metrics: Callable[[], str]) -> Respond:
    """What each path says."""
    pages: dict[str, Callable[[], HttpAnswer]] = {
        "/readyz": lambda: _state(switch, 503 if switch.is_drained else 200),
        "/drainz": lambda: _state(switch, 200 if switch.is_drained else 503),
        "/livez": lambda: HttpAnswer(200, b'{"alive":true}'),
        "/status": lambda: HttpAnswer(200, json.dumps(status()).encode()),
        "/metrics": lambda: HttpAnswer(200, metrics().encode(), {"content-type": METRICS}),
    }

    def respond(request: Request) -> HttpAnswer:
        page = pages.get(request.target.partition("?")[0])
        known = " ".join(pages)
        return page() if page else HttpAnswer(404, json.dumps({"error": f"There are {known}."}).encode())

    return respond


def _state(switch: Switch, status: int) -> HttpAnswer:
    body = {"drained": switch.is_drained, "reasons": switch.reasons}
    return HttpAnswer(status, json.dumps(body).encode(), {"cache-control": "no-store"})


def cases_json(cases: Cases, now: datetime) -> list[dict[str, Any]]:
    """Every case, the oldest first."""
    return [_case_json(case, now) for case in cases.values()]


def _case_json(case: Case, now: datetime) -> dict[str, Any]:
    coming = case.not_before is not None and not case.event.started and not case.returning
    left = (case.not_before - now).total_seconds() if coming and case.not_before else None
    return {
        "event_id": case.event.event_id,
        "type": case.event.type,
        "status": case.event.status,
        "state": state_of(case),
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
        "handlers": [_work_json(name, work) for name, work in case.works.items()],
    }


def _work_json(name: str, work: Work) -> dict[str, Any]:
    state = "stuck" if work.is_stuck else work.state
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
