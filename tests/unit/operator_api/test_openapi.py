"""The description of the API: made of the table and of types, so what is left to see is that nothing is missing."""

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.token import Role
from duenotice.operator_api.calls import ABOUT, Call, Parameter
from duenotice.operator_api.openapi import describe, refusals
from tests.support.node import Node
from tests.unit.operator_api.test_app import calls_of


async def nothing(_: Request) -> Response:
    return Response()


def call(method: str, path: str, role: Role | None = None, **more: Any) -> Call:
    return Call(method, path, role, nothing, "Something", **({"answers": {200: dict}} | more))


def operations(calls: list[Call]) -> list[Any]:
    described: Any = describe(calls)
    return [operation for path in described["paths"].values() for operation in path.values()]


def test_every_call_says_what_it_answers_and_every_parameter_what_it_is() -> None:
    """A call that is added without its answers would be described as answering anything."""
    with Node() as node:
        calls = calls_of(node)
    assert [call.path for call in calls if dict in call.answers.values()] == ["/openapi.json"]
    for operation in operations(calls):
        names = {parameter["name"] for parameter in operation["parameters"]}
        assert names <= set(ABOUT) | {"Idempotency-Key", "type", "phase", "kind"}, operation["operationId"]
        assert operation["responses"], operation["operationId"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (call("GET", "/x"), []),
        (call("GET", "/x", Role.VIEWER), [401, 403]),
        (call("GET", "/x", query=("limit",)), [400]),
        (call("GET", "/x/{name}"), [404]),
        (call("GET", "/x/{id}", refusals=(503,)), [404, 409, 503]),
        (call("PUT", "/x"), [400, 413, 503]),
        (call("POST", "/x", Role.ADMIN), [400, 401, 403, 409, 413, 422, 503]),
    ],
)
def test_how_a_call_can_be_refused_follows_from_what_it_is(row: Call, expected: list[int]) -> None:
    assert refusals(row) == expected
    (operation,) = operations([row])
    assert set(operation["responses"]) == {"200", *map(str, expected)}


def test_an_answer_may_be_json_something_else_or_nothing() -> None:
    (operation,) = operations([call("GET", "/x", answers={200: dict[str, int], 202: "text/plain", 204: None})])
    contents = [answer.get("content") for answer in operation["responses"].values()]
    assert contents == [
        {"application/json": {"schema": {"type": "object", "additionalProperties": {"type": "integer"}}}},
        {"text/plain": {"schema": {"type": "string"}}},
        None,
    ]


def test_a_parameter_may_have_a_schema_of_its_own() -> None:
    (operation,) = operations([call("GET", "/x", query=("cursor", Parameter("limit", {"type": "boolean"})))])
    assert [parameter["schema"] for parameter in operation["parameters"]] == [{"type": "string"}, {"type": "boolean"}]
