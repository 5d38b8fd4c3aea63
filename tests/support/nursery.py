"""Processes of `duenotice` that begin with everything imported: real ones, without the cost of a new Python."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.agent.dying", "duenotice.agent.agent", "duenotice.cli.agent"])
"""What every child has imported when it begins."""


class Forked:
    """A child as `subprocess.Popen` shows one; `run` must be a function that can be imported."""

    def __init__(
        self, run: Callable[[], None], arguments: list[str], env: dict[str, str], cwd: Path, log: Path
    ) -> None:
        self._process = _CONTEXT.Process(target=_begin, args=(run, arguments, env, cwd, log), daemon=True)
        log.touch()
        self._process.start()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def send_signal(self, number: int) -> None:
        """Any signal."""
        os.kill(self.pid, number)

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """How it ended, once it has."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked agent", timeout)
        return self._process.exitcode

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()


def _begin(run: Callable[[], None], arguments: list[str], env: dict[str, str], cwd: Path, log: Path) -> None:
    """Become what a new process would be: its environment, folder, output and arguments."""
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for ours, theirs in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(ours, theirs)
    sys.argv = ["duenotice", *arguments]
    run()
