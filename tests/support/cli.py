"""The command line as a real process, talking to a node over real HTTP."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from duenotice import cli
from tests.support.node import Node
from tests.support.nursery import Forked, may_be_forked

SECONDS = 60


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
    whole = clean | ours | environment
    done = (_forked if may_be_forked(whole) else _started)(list(arguments), whole)
    assert "Traceback" not in done.err, done.err
    return done


def _forked(arguments: list[str], environment: dict[str, str]) -> Done:
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        code = Forked(cli.main, arguments, environment, Path.cwd(), out, err).wait(SECONDS)
        return Done(code, out.read_text(), err.read_text())


def _started(arguments: list[str], environment: dict[str, str]) -> Done:
    command = [sys.executable, "-m", "duenotice", *arguments]
    none = subprocess.DEVNULL
    done = subprocess.run(
        command, capture_output=True, stdin=none, text=True, timeout=SECONDS, env=environment, check=False
    )
    return Done(done.returncode, done.stdout, done.stderr)


def endpoint(node: Node) -> str:
    """Where the operator of a node knocks."""
    return "http://{}:{}".format(*node.operator_address)
