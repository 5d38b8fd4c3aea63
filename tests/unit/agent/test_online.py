"""What the metadata service says of us, held against the configuration and our own clock."""

import pytest

from duenotice.agent import online
from duenotice.agent.config import read_config


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
    problems = online.findings(config, online.Online("web-0", ahead))
    assert [problem.partition(":")[0] for problem in problems] == found


def test_which_clock_is_behind_is_said() -> None:
    config = read_config("")
    said = [online.findings(config, online.Online("web-0", ahead))[0] for ahead in (90.0, -90.0)]
    assert [" ".join(words.split()[1:8]) for words in said] == [
        "this machine is 1m 30s behind the",
        "this machine is 1m 30s ahead of",
    ]
