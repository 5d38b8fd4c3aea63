"""docs/operator-client.md is true: its programs print what it says, and its tables leave nothing out."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duenotice.client import OperatorClient
from duenotice.client.operator import errors
from duenotice.client.operator.errors import BY_STATUS
from tests.support.node import Node

FLEET = Path(__file__).parents[1] / "support" / "fleet.toml"
PAGE = (Path(__file__).parents[2] / "docs" / "operator-client.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
SECONDS = 120


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(FLEET) as running:
        yield running


def test_every_program_says_what_it_prints() -> None:
    """An example without its output proves nothing."""
    assert len(PROGRAMS) == PAGE.count("```python") >= 7


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_each_program_prints_what_the_page_says(node: Node, program: str, printed: str) -> None:
    """As it can be copied, with the place and the token from the environment."""
    where = {"DUENOTICE_ENDPOINT": "http://{}:{}".format(*node.operator_address), "DUENOTICE_TOKEN": node.token}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env=os.environ | where,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.stdout, done.stderr) == (printed, "")


def cells(heading: str, column: int) -> list[str]:
    """A column of the table under a heading."""
    table = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [line.split("|")[column] for line in table.splitlines() if line.startswith("| ")][1:]


def test_the_table_of_verbs_has_all_of_them_and_invents_none() -> None:
    """A verb that is not there cannot be found."""
    listed = re.findall(r"`(\w+)`", " ".join(cells("Verbs", 2)))
    public = {name for name in dir(OperatorClient) if not name.startswith("_")} - {"close", "in_process"}
    assert len(listed) == len(set(listed))
    assert set(listed) == public


def test_the_table_of_errors_has_all_of_them_with_their_statuses() -> None:
    """A caller has to know what to catch."""
    rows = dict(zip(cells("Errors", 1), cells("Errors", 2), strict=True))
    found = {
        name.strip(" `"): {int(number) for number in re.findall(r"\b\d{3}\b", when)} for name, when in rows.items()
    }
    by_name: dict[str, set[int]] = {}
    for status, kind in BY_STATUS.items():
        by_name.setdefault(kind.__name__, set()).add(status)
    ours = [name for name, kind in vars(errors).items() if getattr(kind, "__module__", "") == errors.__name__]
    for name in ours:
        if isinstance(getattr(errors, name), type):
            by_name.setdefault(name, set())
    assert found == by_name
