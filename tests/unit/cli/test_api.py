"""Paths, queries and wrappings of the operator's API."""

import pytest

from duenotice.cli.api import items_of, target


@pytest.mark.parametrize("answer", [[1], {"items": [1], "next": None}, {"events": [1]}])
def test_lists_come_in_several_wrappings(answer: object) -> None:
    assert items_of(answer) == [1]


def test_paths_are_quoted_and_queries_hold_what_is_given() -> None:
    assert target("vms", "a/b ?", "x") == "/v1/vms/a%2Fb%20%3F/x"
    assert target("vms", group="set/web", host=None) == "/v1/vms?group=set%2Fweb"
    assert target("x", api_version="1") == "/v1/x?api-version=1"
