"""Answers to whatever may raise events."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.engine.engine import Engine
from duenotice.operator_api.bodies import actor_of
from duenotice.wire import operator_json
from duenotice.wire import operator_shapes as shapes

RAISED = {201: shapes.Raised, 200: shapes.Raised}
"""The answers of what raises events, or none."""


async def raised(engine: Engine, request: Request, command: c.Command) -> Response:
    """Submit it and answer with the events that came of it; none when nobody listens (F03)."""
    records = await engine.submit(command, actor_of(request))
    events = [r.transition.event for r in records if isinstance(r.transition, t.EventRaised)]
    headers = {"Location": f"/v1/events/{events[0].id}"} if len(events) == 1 else None
    body: shapes.Raised = {"events": [operator_json.event_to_json(event) for event in events]}
    return JSONResponse(body, 201 if events else 200, headers)
