"""Answers to requests that change something: made in the same commit as the change, and stored under their key."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain.kept_answers import KEPT
from duenotice.domain.state import State
from duenotice.domain.transitions import EventRaised, RequestAnswered
from duenotice.engine.engine import Engine, Receipt, Records
from duenotice.errors import InvariantBroken
from duenotice.operator_api.bodies import actor_of
from duenotice.operator_api.idempotency import Asked, response_of
from duenotice.wire import operator_json
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.stored_answer import StoredAnswer

RAISED = {201: shapes.Raised, 200: shapes.Raised}
"""The answers of what raises events, or none."""


class Answer(NamedTuple):
    """What is to be answered."""

    body: Mapping[str, object]
    status: int = 200
    location: str = ""


Build = Callable[[State, Records], Answer]


async def done(engine: Engine, request: Request, command: c.Command, build: Build) -> Response:
    """Submit a command; `build` sees the state as it is once the command and all that is due are applied."""
    asked: Asked = request.state.asked
    made: list[StoredAnswer] = []

    def write(state: State, records: Records, now: Instant) -> RequestAnswered | None:
        answer = build(state, records)
        stored = StoredAnswer(answer.status, msgspec.json.encode(answer.body).decode(), answer.location)
        made.append(stored)
        return RequestAnswered(asked.key, asked.fingerprint, now.at + KEPT, stored.packed()) if asked.key else None

    await engine.submit(command, actor_of(request), Receipt(asked.key, write))
    if not made:
        raise InvariantBroken("The request was done, but its answer is lost.", hint="Please report this.")
    return response_of(made[0])


async def raised(engine: Engine, request: Request, command: c.Command) -> Response:
    """Submit it and answer with the events that came of it; none when nobody listens (F03)."""

    def build(_: State, records: Records) -> Answer:
        events = events_in(records)
        body: shapes.Raised = {"events": events}
        return Answer(body, 201 if events else 200, f"/v1/events/{events[0]['id']}" if len(events) == 1 else "")

    return await done(engine, request, command, build)


def events_in(records: Records) -> list[shapes.Event]:
    """The events that were raised in these records."""
    events = [record.transition.event for record in records if isinstance(record.transition, EventRaised)]
    return [operator_json.event_to_json(event) for event in events]
