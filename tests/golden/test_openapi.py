"""`/openapi.json`, byte for byte. docs/rest.md is made from it; it leaves out ids, tags, headers, schemas of pages."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from duenotice import __version__
from tests.golden.compare import assert_golden
from tests.support.node import Answer, Node

FILE = "openapi.txt"
WIDTH = 160


@pytest.fixture(scope="module")
def answer() -> Iterator[Answer]:
    with Node() as node:
        yield node.operator("GET", "/openapi.json")


class Lines:
    """JSON whose short parts are one line each, in the order of its bytes; a problem that comes again is told once."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def of(self, value: Any, key: str = "", depth: int = 0) -> Iterator[str]:
        text, before = json.dumps(value, ensure_ascii=False), f"{'  ' * depth}{key and json.dumps(key) + ': '}"
        if key >= "400" and key.isdigit() and (key, text) in self._told:
            yield f"{before}as above"
            return
        self._told.add((key, text))
        if len(before) + len(text) <= WIDTH or not isinstance(value, dict | list):
            yield before + text
        else:
            begin, end = "{}" if isinstance(value, dict) else "[]"
            yield before + begin
            for name, inner in value.items() if isinstance(value, dict) else (("", each) for each in value):
                yield from self.of(inner, name, depth + 1)
            yield "  " * depth + end


def test_the_description_of_the_operators_api_is_what_it_was(answer: Answer) -> None:
    """With the order of its keys; the version is that of this build."""
    described = json.loads(answer.body)
    assert described["info"]["version"] == __version__
    described["info"]["version"] = "<version>"
    assert_golden(FILE, "\n".join(Lines().of(described)))


def test_its_bytes_are_json_without_blanks(answer: Answer) -> None:
    """So the lines of the golden file say all about them."""
    assert json.dumps(json.loads(answer.body), separators=(",", ":"), ensure_ascii=False).encode() == answer.body
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
