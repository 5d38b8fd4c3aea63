"""What others may ask the agent: its own port for load balancers and people, and the one for its peers."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from duenotice.agent.config import Config
from duenotice.agent.http import Answer, Request, serve
from duenotice.agent.peers import State, answer_peer
from duenotice.agent.plan import View, is_in_service, is_ready
from duenotice.agent.readiness import SWITCH
from duenotice.agent.recorder import Recorder
from duenotice.agent.status import cases_json, metrics
from duenotice.agent.status_port import answers
from duenotice.clock import wall
from duenotice.settings import parse_listen
from duenotice.wire.seen_document import SeenDocument


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

    def view(self) -> View: ...


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


def _answer_peer(agent: Told, asked: Request) -> Answer:
    return answer_peer(asked, agent.config.peer_key, agent.me, lambda event_id, content: tell(agent, event_id, content))


def tell(agent: Told, event_id: str, content: str) -> State:
    """What a peer is told."""
    cases = agent.recorder.cases
    case = cases.get(event_id)
    ready = case is not None and case.content == content and is_ready(case, agent.view())
    return State(ready, is_in_service(cases))


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
