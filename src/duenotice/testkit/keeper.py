"""Runs a program for as long as somebody holds the other end of its leash; then ends it and all that it has started.

A process that is killed with -9 cannot clean up. The leash is a socket: when its holder is gone, for whatever reason,
the system closes it, and we notice. On Linux orphans of the program become our children, so a daemon with its own
session ends too; on other systems only the program's own group does. Standard library only, so that it starts quickly.
"""

import ctypes
import errno
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

CANNOT_RUN = 127

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LINUX = sys.platform == "linux"


def main(arguments: list[str]) -> NoReturn:
    """`FD PROGRAM ARGUMENT…`: the socket FD is the leash."""
    keep(socket.socket(fileno=int(arguments[0])), arguments[1:])


def keep(leash: socket.socket, program: list[str]) -> NoReturn:
    """Run a program until it ends or nobody holds the leash; end as it did. We pass a SIGTERM on to its group."""
    leash.set_inheritable(False)
    libc = ctypes.CDLL(None)
    if _LINUX:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if child == 0:
        _become(program, libc)
    signal.signal(signal.SIGTERM, lambda *_: _signal(child, signal.SIGTERM))
    threading.Thread(target=_end_when_let_go, args=(leash, child), daemon=True).start()
    status = _wait_for(child)
    _signal(child, signal.SIGKILL)
    _end_orphans()
    _end_as(os.waitstatus_to_exitcode(status))


def _become(program: list[str], libc: ctypes.CDLL) -> NoReturn:
    """The program, in a session of its own, where one signal reaches it and its children."""
    os.setsid()
    if _LINUX:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # also if somebody kills us
    try:
        os.execvp(program[0], program)
    except OSError as error:
        hint = "It needs a first line such as #!/bin/sh, or a machine of its own kind." * (error.errno == errno.ENOEXEC)
        sys.stderr.write(f"error: Cannot run {program[0]!r}: {error.strerror}.\n hint: {hint or 'Is it executable?'}\n")
        sys.stderr.flush()
    os._exit(CANNOT_RUN)


def _end_when_let_go(leash: socket.socket, child: int) -> None:
    with suppress(OSError):
        while leash.recv(16):
            pass
    _signal(child, signal.SIGKILL)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _wait_for(child: int) -> int:
    """How it ended; orphans that end before it are let go on the way."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


def _end_orphans() -> None:
    """End the processes that have become our children, then their orphans, until none is left."""
    with suppress(ChildProcessError):
        while True:
            for pid in _children():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                yield int(stat.parent.name)


def _end_as(code: int) -> NoReturn:
    """With its exit code, or by the signal that ended it."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])
