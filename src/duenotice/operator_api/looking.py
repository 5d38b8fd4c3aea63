"""Answers that may need to look at the whole fleet: made off the loop that answers VMs (S26)."""

from collections.abc import Callable, Mapping

import msgspec
from starlette.responses import Response

from duenotice.domain.state import State
from duenotice.engine.engine import Engine


async def written(engine: Engine, write: Callable[[], Mapping[str, object]]) -> Response:
    """Answer with something made from values that never change."""
    body = await engine.aside(lambda: msgspec.json.encode(write()))
    return Response(body, media_type="application/json")


async def looked(engine: Engine, look: Callable[[State], Mapping[str, object]]) -> Response:
    """Answer with the result of a query on the durable state."""
    body = await engine.look(lambda state: msgspec.json.encode(look(state)))
    return Response(body, media_type="application/json")
