"""A program on a terminal of its own: what it shows, what keys it is sent, how it ends."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType
from typing import Self

from tests.support.signals import heard

SECONDS = 30.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """`with Terminal("events", "watch") as terminal:`, 100 columns wide; ended with the block."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("DUENOTICE_")}
        with heard(signal.SIGINT):
            self._process = subprocess.Popen(
                [sys.executable, "-m", "duenotice", *arguments],
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=clean | {"TERM": "xterm-256color"} | environment,
                start_new_session=True,
            )
        os.close(theirs)
        self.shown = ""
        self.raw = b""
        """The same as it came, with what draws and colours."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)

    def wait_for(self, text: str) -> str:
        """All that was shown, once this is in it."""
        until = time.monotonic() + SECONDS
        while text not in self.shown:
            assert time.monotonic() < until, f"{text!r} is not in:\n{self.shown}"
            self._read(0.1)
        return self.shown

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Wait for its end; the exit code."""
        until = time.monotonic() + SECONDS
        while self._process.poll() is None:
            assert time.monotonic() < until, f"It does not end:\n{self.shown}"
            self._read(0.1)
        self._read(0.1)
        return self._process.returncode

    def _read(self, seconds: float) -> None:
        while select.select([self._ours], [], [], seconds)[0]:
            try:
                said = os.read(self._ours, 65536)
            except OSError:  # nobody holds the other side any more
                return
            self.raw += said
            self.shown += _CONTROL.sub("", said.decode(errors="replace"))
