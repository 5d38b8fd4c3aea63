"""The agent's own port: `/readyz` and `/drainz` for load balancers, `/metrics`, `/status`. It changes nothing."""

import json
from collections.abc import Callable
from typing import Any

from duenotice.agent.http import JSON, Answer, Request, Respond
from duenotice.agent.readiness import Switch

METRICS = "text/plain; version=0.0.4; charset=utf-8"


def answers(switch: Switch, status: Callable[[], dict[str, Any]], metrics: Callable[[], str]) -> Respond:
    """What each path says."""
    pages: dict[str, Callable[[], Answer]] = {
        "/readyz": lambda: _state(switch, 503 if switch.is_drained else 200),
        "/drainz": lambda: _state(switch, 200 if switch.is_drained else 503),
        "/livez": lambda: Answer(200, b'{"alive":true}'),
        "/status": lambda: Answer(200, json.dumps(status()).encode(), {"content-type": JSON}),
        "/metrics": lambda: Answer(200, metrics().encode(), {"content-type": METRICS}),
    }

    def respond(request: Request) -> Answer:
        page = pages.get(request.target.partition("?")[0])
        known = " ".join(pages)
        return page() if page else Answer(404, json.dumps({"error": f"There are {known}."}).encode())

    return respond


def _state(switch: Switch, status: int) -> Answer:
    body = {"drained": switch.is_drained, "reasons": switch.reasons}
    return Answer(status, json.dumps(body).encode(), {"content-type": JSON, "cache-control": "no-store"})
