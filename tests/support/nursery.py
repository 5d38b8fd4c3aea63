"""Processes of `duenotice` that begin with everything imported: real ones, without the cost of a new Python."""

import multiprocessing
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from duenotice import cli

READ_BY_PYTHON = ("LANG", "LC_", "PYTHON")
"""The environment that a Python reads when it begins; a forked one has begun already."""

Output = Path | Connection
"""Where a process writes: a file, or the end of a pipe."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "duenotice.agent.runtime",
        "duenotice.bootstrap.node",
        "duenotice.store.postgres",
        "http.client",
        "rich.live",
        "tests.agent.dying",
        *(module.name for module in pkgutil.iter_modules(cli.__path__, "duenotice.cli.")),
    ]
)
"""What every child has imported when it begins."""


def _read_by_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_BY_PYTHON)}


_BEGUN_WITH = _read_by_python(os.environ)


def may_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether a new Python would begin in this environment as the forked ones have; not with another hash seed."""
    return _read_by_python(environment) == _BEGUN_WITH


class Forked:
    """A child as `subprocess.Popen` shows one; `run` must be a function that can be imported."""

    def __init__(
        self, run: Callable[[], object], arguments: list[str], env: dict[str, str], cwd: Path, out: Output, err: Output
    ) -> None:
        """What it says goes to `out` and `err`, which may be the same."""
        for file in (out, err):
            if isinstance(file, Path):
                file.touch()
        _forget_main()
        self._process = _CONTEXT.Process(target=_begin, args=(run, arguments, env, cwd, out, err), daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """How it ended, once it has."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout)
        return self._process.exitcode

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    def send_signal(self, number: int) -> None:
        """Any signal."""
        os.kill(self.pid, number)


def _forget_main() -> None:
    """Else each child first runs again what this process began with: a third of a second for pytest."""
    main = sys.modules["__main__"]
    main.__spec__ = None
    main.__dict__.pop("__file__", None)


def _begin(
    run: Callable[[], object], arguments: list[str], env: dict[str, str], cwd: Path, out: Output, err: Output
) -> None:
    """Become what a new process would be: its environment, folder, output and arguments."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for file, number in ((out, 1), (err, 2)):
        if isinstance(file, Path):
            os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND), number)
        else:
            with file:  # a program that it starts would inherit this one too
                os.dup2(file.fileno(), number)
    sys.argv = ["duenotice", *arguments]
    run()
