"""What stands behind the question mark, and entity tags."""

import pytest

from duenotice.metadata_api.requests import is_newer, parse_query, parse_tags, parse_wait


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("", {}),
        ("a=1&B=2", {"a": ["1"], "b": ["2"]}),
        ("a=1&A=2&a", {"a": ["1", "2", ""]}),
        ("&&a=%7Blatest%7D&", {"a": ["{latest}"]}),
        ("api%2Dversion=x=y", {"api-version": ["x=y"]}),
        ("a=%zz%", {"a": ["%zz%"]}),
    ],
)
def test_a_query_is_read_by_name_in_any_case(query: str, parameters: dict[str, list[str]]) -> None:
    assert parse_query(query) == parameters


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("500ms", 0.5), ("2m", 120), ("7", 7), ("0", 0), ("10m", 300), ("999999999", 300)],
)
def test_a_wait_is_a_time_of_at_most_five_minutes(text: str, seconds: float) -> None:
    assert parse_wait(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1.5.5", "1y", "1 s", "٣", "9999999999"])
def test_anything_else_is_no_wait(text: str) -> None:
    assert parse_wait(text) is None


@pytest.mark.parametrize(
    ("values", "tags"),
    [
        ([], set()),
        (["2"], {"2"}),
        (['"2"'], {"2"}),
        (['W/"2"'], {"2"}),
        (['"1", W/"2" ,3', "*"], {"1", "2", "3", "*"}),
        (["", '""'], set()),
    ],
)
def test_tags_may_be_bare_quoted_or_weak(values: list[str], tags: set[str]) -> None:
    assert parse_tags(values) == tags


@pytest.mark.parametrize(
    ("version", "newer"),
    [("2021-01-01", True), ("2020-07-01", False), ("2016-01-01", False), ("latest", False), ("2021-1-1", False)],
)
def test_only_a_later_date_is_a_newer_version(version: str, newer: bool) -> None:
    assert is_newer(version, ("2019-01-01", "2020-07-01")) is newer
