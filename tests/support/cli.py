"""The command line as a real process, talking to a node over real HTTP."""

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

from tests.support.node import Node


class Done(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line of a table."""
        assert self.code == 0, self
        return [line.split() for line in self.out.splitlines()]


def duenotice(node: Node | None, *arguments: str, **environment: str) -> Done:
    """Run a command to its end, as the operator of a node."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("DUENOTICE_")}
    ours = {} if node is None else {"DUENOTICE_ENDPOINT": endpoint(node), "DUENOTICE_TOKEN": node.token}
    done = subprocess.run(
        [sys.executable, "-m", "duenotice", *arguments],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
        env=clean | ours | environment,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def endpoint(node: Node) -> str:
    """Where the operator of a node knocks."""
    return "http://{}:{}".format(*node.operator_address)
