"""The description of this API, made from the same table that routes requests and the types that answers have."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from inspect import cleandoc

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from duenotice import __version__
from duenotice.operator_api.answers import JSON
from duenotice.operator_api.calls import KEY_HEADER, Call, Json, Schema, in_path, in_query
from duenotice.wire.operator import Problem

Schemas = Mapping[object, Schema]

_PLACE = re.compile(r"\{(\w+)\}")
_REF = "#/components/schemas/{name}"
_MEANINGS = {
    400: "The request cannot be understood",
    401: "There is no token, or it is unknown",
    403: "The token's role is not enough",
    404: "There is no such thing",
    409: "It conflicts with what is there",
    422: "The rules forbid it",
    429: "Too many requests of one token; Retry-After says when to try again",
    503: "Not possible now; Retry-After says when to try again",
}
_ABOUT = """Raise, follow and end Scheduled Events for a fleet of VMs.

Errors are problems (RFC 9457) with a `hint` at what to do; a refused request changes nothing.
Each call names the role it needs in `x-role`: viewer, operator or admin; each may do what those before it may."""


def openapi_call(calls: Sequence[Call]) -> Call:
    """The call that shows the description of all calls, including itself."""

    @cache  # made once: it takes a while, and VMs would wait
    def body() -> bytes:
        return msgspec.json.encode(describe((*calls, call)))

    async def show(_: Request) -> Response:
        return Response(body(), media_type=JSON)

    call = Call("GET", "/openapi.json", None, show, "This description", {200: dict})
    return call


def describe(calls: Sequence[Call]) -> Schema:
    """An OpenAPI 3.1 document."""
    kinds = list(dict.fromkeys(kind for call in calls for kind in _kinds(call)))
    shown, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    schemas = dict(zip(kinds, shown, strict=True))
    for schema in components.values():
        if "description" in schema:  # a docstring, which has its indentation before Python 3.13
            schema["description"] = cleandoc(schema["description"])
    paths: dict[str, dict[str, Json]] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "duenotice operator API", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def refusals(call: Call) -> list[int]:
    """Every status of failure that a call can have."""
    found = set(call.refusals)
    if call.role is not None:
        found |= {401, 403}
    if call.query:
        found.add(400)
    places = _PLACE.findall(call.path)
    found |= {404} if places else set()
    found |= {409} if "id" in places else set()  # the beginning of more than one id
    if call.method != "GET":
        found |= {400, 413, 503}
    if call.method == "POST":
        found |= {409, 422}  # at least for the Idempotency-Key
    return sorted(found)


def _kinds(call: Call) -> list[object]:
    """The types that stand in the description of a call."""
    bodies = [] if call.body is None or isinstance(call.body, tuple) else [call.body]
    answers = [kind for answer in call.answers.values() for kind in _forms(answer) if not isinstance(kind, str)]
    return [Problem, *bodies, *answers]


def _forms(answer: object) -> tuple[object, ...]:
    """The forms that an answer may have: one, several, or none."""
    return answer if isinstance(answer, tuple) else () if answer is None else (answer,)


def _operation(call: Call, schemas: Schemas) -> Schema:
    parameters = [in_path(name) for name in _PLACE.findall(call.path)] + [in_query(asked) for asked in call.query]
    answers = {str(status): _answer(call, status, kind, schemas) for status, kind in call.answers.items()}
    problems = {str(status): _problem(call, status, schemas) for status in refusals(call)}
    operation: dict[str, Json] = {
        "operationId": _id(call),
        "summary": call.summary,
        "tags": [call.path.removeprefix("/v1/").strip("/").split("/")[0]],
        "parameters": [*parameters, KEY_HEADER] if call.method == "POST" else parameters,
        "responses": dict(sorted((answers | problems).items())),
    }
    if call.role is not None:
        operation |= {"security": [{"token": []}], "x-role": call.role.value}
    if call.body is not None:
        operation["requestBody"] = _body(call.body, schemas)
    return operation


def _body(body: type[msgspec.Struct] | tuple[str, ...], schemas: Schemas) -> Schema:
    if isinstance(body, tuple):
        return {"required": True, "content": {media: {"schema": {"type": "string"}} for media in body}}
    needed = any(field.required for field in msgspec.structs.fields(body))
    return {"required": needed, "content": {JSON: {"schema": schemas[body]}}}


def _answer(call: Call, status: int, kind: object, schemas: Schemas) -> Schema:
    answer: dict[str, Json] = {"description": HTTPStatus(status).phrase}
    if forms := _forms(kind):
        answer["content"] = dict(_content(form, schemas) for form in forms)
    headers = {"Location": "Where it is, if it is one thing"} if status == 201 else {}
    if call.method == "POST":
        headers["Idempotent-Replayed"] = "`true` when the request was done before, under the same key"
    if headers:
        answer["headers"] = {
            name: {"description": about, "schema": {"type": "string"}} for name, about in headers.items()
        }
    return answer


def _content(form: object, schemas: Schemas) -> tuple[str, Schema]:
    if isinstance(form, str):
        return form, {"schema": {"type": "string"}}
    return JSON, {"schema": schemas[form]}


def _problem(call: Call, status: int, schemas: Schemas) -> Schema:
    content = {"application/problem+json": {"schema": schemas[Problem]}}
    meaning = f"The body is larger than {call.bounds.body} bytes" if status == 413 else _MEANINGS[status]
    problem: dict[str, Json] = {"description": meaning, "content": content}
    if status in (429, 503):
        problem["headers"] = {"Retry-After": {"description": "In seconds", "schema": {"type": "integer"}}}
    if status == 401:
        problem["headers"] = {"WWW-Authenticate": {"description": "Always `Bearer`", "schema": {"type": "string"}}}
    return problem


def _id(call: Call) -> str:
    words = re.findall(r"[a-z]+", call.path.removeprefix("/v1").lower())
    return "_".join([call.method.lower(), *words])
