"""Processes that a measurement starts: their words go to a file, and they never outlive it."""

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from benchmarks.support.machine import CannotMeasure

_PATIENCE = 120.0


class Child:
    """A process that is stopped at the end of the `with` block, or killed with all it started if that failed."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            # A session of its own, so that its whole group can be killed; Ctrl-C reaches us alone.
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()

    @property
    def output(self) -> IO[bytes]:
        """What it prints."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """End it politely."""
        self._process.terminate()
        try:
            code = self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            raise self.failed("did not stop on SIGTERM") from None
        finally:
            self.kill()
        if code != 0:
            raise self.failed(f"ended with {code}")

    def kill(self) -> None:
        """End it at once, and whatever it has started."""
        if not self.has_ended:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        self.output.close()

    def failed(self, how: str) -> CannotMeasure:
        """An error with the last of what it said."""
        said = self._log.read_text(errors="replace").splitlines()[-10:]
        return CannotMeasure("\n".join([f"{self._process.args!r} {how}. It said:", *said]))
