"""The description of this API, made from the same table that routes requests."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from duenotice import __version__
from duenotice.operator_api.table import Call

_PLACE = re.compile(r"\{(\w+)\}")
_PROBLEM = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "status": {"type": "integer"},
        "title": {"type": "string", "description": "What happened"},
        "hint": {"type": "string", "description": "What to do"},
    },
    "required": ["type", "status", "title", "hint"],
}


def openapi_call(calls: Sequence[Call]) -> Call:
    """The call that shows the description of all calls, itself included."""

    async def show(_: Request) -> Response:
        return JSONResponse(describe([*calls, call]))

    call = Call("GET", "/openapi.json", None, show, "This description")
    return call


def describe(calls: Sequence[Call]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    bodies = sorted({call.body for call in calls if call.body is not None}, key=lambda kind: str(kind.__name__))
    _, schemas = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {"title": "duenotice operator API", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(call: Call) -> dict[str, Any]:
    places = [_parameter(name, "path") for name in _PLACE.findall(call.path)]
    query = [_parameter(name, "query") for name in call.query]
    headers = [_parameter("Idempotency-Key", "header")] if call.method == "POST" else []
    operation: dict[str, Any] = {
        "operationId": _id(call),
        "summary": call.summary,
        "parameters": [*places, *query, *headers],
        "responses": {"2XX": {"description": "Done"}, "default": _problem()},
    }
    if call.role is not None:
        operation |= {"security": [{"token": []}], "x-role": call.role.value}
    if call.body is not None:
        schema = {"$ref": f"#/components/schemas/{call.body.__name__}"}
        needed = any(field.required for field in msgspec.structs.fields(call.body))
        operation["requestBody"] = {"required": needed, "content": {"application/json": {"schema": schema}}}
    return operation


def _problem() -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": "Refused, and why", "content": {"application/problem+json": {"schema": schema}}}


def _parameter(name: str, place: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}


def _id(call: Call) -> str:
    words = re.findall(r"[a-z]+", call.path.removeprefix("/v1").lower())
    return "_".join([call.method.lower(), *words])
