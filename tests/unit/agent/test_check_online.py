"""What the metadata service says of us, held against the configuration and our own clock."""

from datetime import UTC, datetime, timedelta

import pytest

from duenotice.agent.check import Online, ask_service, online_findings
from duenotice.agent.config import read_config
from duenotice.wire.spans import format_rfc1123
from tests.support.evil import EvilServer, json_answer


@pytest.mark.parametrize(("seconds", "least", "most"), [(90, 85, 90), (0, -5, 0), (-90, -95, -90)])
def test_the_clocks_are_compared_with_the_date_of_the_answer(seconds: int, least: int, most: int) -> None:
    """It tells whole seconds, so one second does not count as a difference; a busy machine may take some more."""
    date = f"Date: {format_rfc1123(datetime.now(UTC) + timedelta(seconds=seconds))}"
    with EvilServer(json_answer({"compute": {"name": "web-0"}}, date)) as server:
        answer = ask_service(read_config(f'[metadata]\nendpoint = "{server.endpoint}"\n'))
    assert answer.ahead is not None and least <= answer.ahead <= most


def test_a_service_that_does_not_tell_the_time_is_not_compared() -> None:
    with EvilServer(json_answer({"compute": {"name": "web-0"}})) as server:
        answer = ask_service(read_config(f'[metadata]\nendpoint = "{server.endpoint}"\n'))
    assert answer == Online("web-0", None)


@pytest.mark.parametrize(
    ("name", "ahead", "found"),
    [
        ("", 0.0, []),
        ("web-0", None, []),
        ("web-1", 1.9, ["metadata.name"]),
        ("", 2.1, ["clock"]),
        ("", -90.0, ["clock"]),
    ],
)
def test_what_would_go_wrong_is_found(name: str, ahead: float | None, found: list[str]) -> None:
    config = read_config(f'[metadata]\nname = "{name}"\n')
    problems = online_findings(config, Online("web-0", ahead))
    assert [problem.partition(":")[0] for problem in problems] == found


def test_which_clock_is_behind_is_said() -> None:
    config = read_config("")
    said = [online_findings(config, Online("web-0", ahead))[0] for ahead in (90.0, -90.0)]
    assert [" ".join(words.split()[1:8]) for words in said] == [
        "this machine is 1m 30s behind the",
        "this machine is 1m 30s ahead of",
    ]
