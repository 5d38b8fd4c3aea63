"""docs/rest.md: every call of the operator's API and every type, from the same description as /openapi.json."""

import re
from typing import Any

from duenotice.operator_api.app import OperatorApi
from duenotice.operator_api.openapi import describe
from duenotice.testkit.emulator import Emulator
from tools.references.words import cell, code, head, table

INTRO = """
Every call and every type, as `/openapi.json` of a running service describes them. [The operator's API](operator-api.md)
explains what is common to all: pages, ids, idempotency keys, errors, roles.

A role may do what those before it may: viewer, operator, admin. Errors are problems: a JSON object of the type
[Problem](#problem), with the media type `application/problem+json`. Each POST takes an `Idempotency-Key`.
"""
_REF = "#/components/schemas/"
_PAGE = re.compile(r"Page_(\w+)_")


def description() -> dict[str, Any]:
    """The OpenAPI document."""
    with Emulator(default_vm="me") as emulator:
        return dict(describe(OperatorApi(emulator.service.engine, emulator.service.ticker).calls))


def page(described: dict[str, Any] | None = None) -> str:
    """The whole page."""
    described = described or description()
    calls = [
        (operation["tags"][0] if path.startswith("/v1/") else "The service itself", _call(method, path, operation))
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]
    types = described["components"]["schemas"]
    parts = [head("REST reference", "`/openapi.json`") + INTRO]
    for tag in dict.fromkeys(tag for tag, _ in calls):
        parts += [f"## {tag}\n", *(text for mine, text in calls if mine == tag)]
    parts += [
        "## Types\n",
        *(_type(name, schema) for name, schema in sorted(types.items()) if not _PAGE.fullmatch(name)),
    ]
    return "\n".join(parts)


def _call(method: str, path: str, operation: dict[str, Any]) -> str:
    role = operation.get("x-role")
    lines = [f"### {method.upper()} {path}", "", f"{cell(operation['summary'])}. {_needs(role)}", ""]
    asked = [one for one in operation["parameters"] if one["in"] != "header"]
    if asked:
        rows = [
            (code(one["name"]), one["in"], kind_of(one["schema"]), cell(one.get("description", ""))) for one in asked
        ]
        lines += [table(("parameter", "in", "value", "what"), rows)]
    if "requestBody" in operation:
        lines += [f"Body: {_content(operation['requestBody'])}.", ""]
    lines += [f"Answers: {_answers(operation['responses'])}.", ""]
    return "\n".join(lines)


def _needs(role: str | None) -> str:
    return f"It needs the role {role}." if role else "It needs no token."


def _answers(responses: dict[str, Any]) -> str:
    good = [f"{status} {_content(answer)}".strip() for status, answer in responses.items() if status < "400"]
    bad = [status for status in responses if status >= "400"]
    return "; ".join(good) + (f"; problems: {', '.join(bad)}" if bad else "")


def _content(holder: dict[str, Any]) -> str:
    found = [
        kind_of(inner["schema"]) if media == "application/json" else code(media)
        for media, inner in holder.get("content", {}).items()
    ]
    return " or ".join(found)


def _type(name: str, schema: dict[str, Any]) -> str:
    lines = [f"### {name}", ""]
    lines += [cell(schema["description"]), ""] if schema.get("description") else []
    needed = set(schema.get("required", ()))
    rows = [
        (code(key), kind_of(inner), "needed" if key in needed else _default(inner))
        for key, inner in schema.get("properties", {}).items()
    ]
    lines += [table(("key", "value", "default"), rows)] if rows else [kind_of(schema), ""]
    return "\n".join(lines)


def _default(schema: dict[str, Any]) -> str:
    default = schema.get("default")
    return (
        ""
        if default in (None, [], {}, "")
        else code(str(default).lower() if isinstance(default, bool) else str(default))
    )


def kind_of(schema: dict[str, Any]) -> str:
    """What a value may be, in words, with links to types."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        if page := _PAGE.fullmatch(name):
            return f"page of [{page[1]}](#{page[1].lower()})"
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind_of(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return " ".join(code(str(word)) for word in schema["enum"] if word not in ("", None)) or "empty"
    if schema.get("type") == "array":
        return f"list of {kind_of(schema.get('items') or {})}"
    if schema.get("type") == "object":
        return "object"
    return _plain(schema)


def _plain(schema: dict[str, Any]) -> str:
    kind = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false", "null": "null"}
    if schema.get("format") == "date-time":
        return "time"
    low, high = schema.get("minimum"), schema.get("maximum")
    words = kind.get(schema.get("type", ""), "any value")
    if low is not None and high is not None and high < 2**53:
        return f"{words}, {low} to {high}"
    return words
