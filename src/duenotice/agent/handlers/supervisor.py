"""The parent of one program that the agent runs: it ends it and all its descendants when the agent asks, or is gone.

A process of its own (`python -I -S`, the standard library alone), because kill -9 takes the agent before it can clean
up. It is a child subreaper: a process whose parent ends becomes its child, also one in a session of its own. So nothing
of the program is left when `waitpid` finds no child. Where the agent has a control group that it may divide, the
program also gets one of its own, which the kernel can end at once.

The agent hears, a line each, `exited CODE` or `failed ERRNO`, and `alive NAME (PID), …` when it has said `end`. A
program that has exited with 0 is done, and may leave a daemon. What any other leaves is ended before this one ends.
"""

import ctypes
import errno
import os
import select
import signal
import sys
from contextlib import suppress

GRACE = 2.0
"""Seconds between asking what runs to end, and killing it."""
AGAIN = 0.02
"""Seconds between two rounds of killing: what loses its parent in one comes to us, and is found in the next."""
_SHOWN = 10
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
NAME = "duenotice-hook"
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)
_prctl = ctypes.CDLL(None).prctl


class Supervisor:
    """Runs one program and waits for its end, or for an agent that wants no more of it."""

    def __init__(self, control: int, group: str) -> None:
        self._control, self._group = control, group
        self._program = -1
        self._code: int | None = None
        self._is_ending = self._is_killing = False

    def run(self, argv: list[str]) -> None:
        """Return when nothing is left that must end."""
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_NAME, NAME.encode())
        for number in _IGNORED:  # systemd and terminals signal whole groups; what is to end is the agent's business
            signal.signal(number, signal.SIG_IGN)
        waking, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGALRM):  # each ends the wait below, also if it comes just before
            signal.signal(number, lambda *_: None)
        if self._group:
            self._group = _made(self._group)
        if not self._is_wanted():
            self._say(f"failed {errno.ECANCELED}")
        elif self._start(argv):
            while self._reap():
                if self._code == 0 and not self._is_ending:
                    break  # done; a daemon that it leaves is somebody's intention
                if self._code is not None:
                    self._ask_to_end()
                if self._is_killing:
                    self._kill()
                self._wait(waking)
        self._drop_group()

    def _is_wanted(self) -> bool:
        """Whether the agent is there, and has not changed its mind: it takes a while until a new process runs."""
        ready, _, _ = select.select([self._control], [], [], 0)
        return not ready

    def _start(self, argv: list[str]) -> bool:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        self._program = os.fork()
        if self._program == 0:
            self._become(argv, writing)
        os.close(writing)
        failed = os.read(reading, 16)
        os.close(reading)
        if failed:
            os.waitpid(self._program, 0)
            self._say(f"failed {failed.decode()}")
            return False
        return True

    def _become(self, argv: list[str], writing: int) -> None:
        """The program itself, in the child: a session, and the signals of an ordinary process."""
        try:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # if this process is killed, at least the program goes with it
            os.setsid()
            if self._group:
                with open(f"{self._group}/cgroup.procs", "w") as procs:
                    procs.write("0")
            for number in (*_IGNORED, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.execve(argv[0], argv, os.environ)
        except OSError as error:
            os.write(writing, str(error.errno or 0).encode())
        finally:
            os._exit(127)

    def _reap(self) -> bool:
        """Take note of all that have ended; whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._program:
                self._code = os.waitstatus_to_exitcode(status)
                self._say(f"exited {self._code}")

    def _wait(self, waking: int) -> None:
        """Until a child ends, the agent says something or is gone, or those that were asked to end had their time."""
        watched = [waking] if self._control < 0 else [waking, self._control]
        ready, _, _ = select.select(watched, [], [], AGAIN if self._is_killing else None)
        if waking in ready and signal.SIGALRM in os.read(waking, 4096):
            self._is_killing = True
        if self._control in ready:
            try:
                said = os.read(self._control, 64)
            except ConnectionError:
                said = b""
            if said:
                names = [f"{_name(pid)} ({pid})" for pid in descendants(os.getpid())]
                self._say(f"alive {', '.join(names[:_SHOWN])}")
                self._ask_to_end()
            else:  # the agent is gone, and the next one waits for this
                os.close(self._control)
                self._control, self._is_ending, self._is_killing = -1, True, True

    def _ask_to_end(self) -> None:
        """Once; those that do not listen are killed later."""
        if not self._is_ending:
            self._is_ending = True
            signal.setitimer(signal.ITIMER_REAL, GRACE)
            for pid in descendants(os.getpid()):
                _send(pid, signal.SIGTERM)
                _send(pid, signal.SIGCONT)

    def _kill(self) -> None:
        if self._group:
            _write(f"{self._group}/cgroup.kill", "1")
        for pid in descendants(os.getpid()):
            _send(pid, signal.SIGKILL)

    def _drop_group(self) -> None:
        """It stays while a daemon is in it."""
        if self._group:
            with suppress(OSError):
                os.rmdir(self._group)

    def _say(self, line: str) -> None:
        if self._control >= 0:
            with suppress(OSError):  # the agent is gone: the next wait notices
                os.write(self._control, f"{line}\n".encode())


def descendants(pid: int) -> list[int]:
    """Its children, and theirs, as they are now."""
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children") as children:
                    waiting += (each := [int(child) for child in children.read().split()])
                    found += each
        except OSError:  # it has just ended
            pass
    return found


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as comm:
            return "".join(letter if letter.isprintable() else "?" for letter in comm.read().rstrip("\n"))
    except OSError:
        return "?"


def _made(group: str) -> str:
    try:
        os.mkdir(group)
        return group
    except OSError:  # no right, or too many: the rest works without
        return ""


def _write(file: str, text: str) -> None:
    with suppress(OSError), open(file, "w") as opened:  # a kernel before 5.14 has no cgroup.kill
        opened.write(text)


def _send(pid: int, number: int) -> None:
    with suppress(OSError):  # it has just ended, or is another user's: `waitpid` says when it is gone
        os.kill(pid, number)


def main() -> None:
    """Arguments: the number of the control socket, the control group or nothing, the program with its arguments."""
    control, group, *argv = sys.argv[1:]
    os.set_inheritable(int(control), False)
    Supervisor(int(control), group).run(argv)
