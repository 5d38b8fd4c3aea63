"""docs/azure.md: its program runs as it stands there, and it names every call that there is."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import duenotice
from tests.support.node import Node

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "azure.md").read_text()
SHORT = (
    (r"^/subscriptions/\{subscription\}(/resourceGroups/\{group\})?/providers/Microsoft\.Compute", ""),
    (r"^/virtualMachineScaleSets/\{name\}/virtualMachines/\{instance\}", "INSTANCE"),
    (r"^/virtualMachineScaleSets/\{name\}", "SET"),
    (r"^/availabilitySets/\{name\}", "AVSET"),
    (r"^/virtualMachines/\{name\}", "VM"),
)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node with the fleet of the tests, of which nobody listens."""
    with Node(ROOT / "tests" / "support" / "fleet.toml", azure_listen="127.0.0.1:0") as running:
        yield running


def test_the_program_runs_as_it_stands_there(node: Node) -> None:
    """Behind what the profile prints."""
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    begin = duenotice(node, "azure", "profile", "python").out
    environment = {**os.environ, "DUENOTICE_TOKEN": node.token}
    done = subprocess.run(
        [sys.executable, "-c", f"{begin}\n{program}"], capture_output=True, text=True, env=environment, check=False
    )
    *vms, status = done.stdout.splitlines()
    assert (done.stderr, len(vms), status) == ("", 12, "Succeeded")


def test_every_call_is_in_the_table(node: Node) -> None:
    """By the last word of its path, in a row of its method."""
    rows = [line for line in TEXT.splitlines() if line.startswith("| `")]
    assert node.service.azure is not None
    for call in node.service.azure._api.calls:
        last = next(part for part in reversed(call.path.split("/")) if part and "{" not in part)
        assert any(call.method in row and last in row for row in rows) or _short(call.path) in TEXT, call[:2]


def _short(path: str) -> str:
    for pattern, name in SHORT:
        path = re.sub(pattern, name, path)
    return path
