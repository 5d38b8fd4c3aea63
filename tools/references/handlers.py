"""docs/handlers.md: every kind of handler of the agent with its keys, from the classes that read them."""

import ast
import inspect
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from duenotice.agent.handlers.base import SpanSeconds
from duenotice.agent.handlers.loading import KINDS, handler_class
from tools.references.words import cell, code, head, table

INTRO = """
A handler is a table `[handlers.NAME]` in the [agent's file](agent.md#configuration). Its `kind` says what it does.
Every handler takes `required`, `timeout`, `holds` and `healthy` too. [Recipes](recipes.md) have examples, and say how
to write a handler of your own. A key that a kind does not have is an error that names the nearest one.
"""
NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", SpanSeconds: "span, such as `30s`"}

MANY = {str: "texts", int: "whole numbers"}


def page() -> str:
    """The whole page."""
    return head("Handlers of the agent", "`duenotice.agent.handlers`") + INTRO + "\n" + "\n".join(map(_section, KINDS))


def _section(kind: str) -> str:
    made = handler_class("x", kind)
    module = inspect.getmodule(made)
    assert module is not None and module.__doc__
    about = module.__doc__.splitlines()[0].partition(": ")[2]
    said = inspect.getdoc(made.options) or ""
    parts = [f"## {kind}\n", cell(about[0].upper() + about[1:]) + "\n", *([cell(said) + "\n"] if said else [])]
    rows = [_row(made.options, field) for field in msgspec.structs.fields(made.options)]
    return "\n".join([*parts, table(("key", "value", "default", "what"), rows) if rows else "It has no keys.\n"])


def _row(options: type, field: msgspec.structs.FieldInfo) -> tuple[str, ...]:
    default = "needed" if field.required else _default(field)
    return code(field.encode_name), kind_of(field.type), default, cell(_said(options).get(field.name, ""))


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default if field.default is not msgspec.NODEFAULT else None
    if value in (None, "", (), {}):
        return ""
    if isinstance(value, tuple):
        return " ".join(code(str(one)) for one in value)
    return code(
        f"{value:g}s"
        if isinstance(value, SpanSeconds)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def kind_of(kind: Any) -> str:
    """What a key holds, in words."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return kind_of(inner[0])
    if origin is Literal:
        return " or ".join(code(str(word)) for word in inner)
    if origin is tuple:
        return f"list of {MANY.get(inner[0]) or kind_of(inner[0])}"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return f"tables with {' '.join(code(field.encode_name) for field in msgspec.structs.fields(kind))}"
    if origin is dict:
        return "table of texts"
    if origin in (UnionType, Union):
        return " or ".join(kind_of(one) for one in inner if one is not type(None))
    return NAMES[kind]


@cache
def _said(options: type) -> dict[str, str]:
    """What the source says below each field, here and in the classes above."""
    found: dict[str, str] = {}
    for owner in reversed(options.__mro__):
        if msgspec.Struct in owner.__mro__[1:]:
            (node,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(owner))).body
            assert isinstance(node, ast.ClassDef)
            for line, after in zip(node.body, node.body[1:], strict=False):
                match line, after:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str() as text)),
                    ):
                        found[name] = text
    return found
