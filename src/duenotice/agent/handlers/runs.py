"""Which programs run for this agent, so that nothing of the last agent's is alive when this one puts back (S15).

Each run has a file in the state directory while it lasts. After kill -9 the supervisors end what is left; the next
agent finds by these files what it must wait for, and ends what has lost its supervisor, too. A run is known by its
control group, and by a variable that its processes have in their environment.
"""

import asyncio
import os
import re
import secrets
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from duenotice.agent.handlers import supervisor
from duenotice.agent.handlers.base import HandlerFailed, TryAgain
from duenotice.agent.handlers.trust import require_trusted_files
from duenotice.clock import monotonic
from duenotice.system import read_whole

MARK = "DUENOTICE_RUN"
PREFIX = "run-"
"""Of the files' names."""
PAUSE = 0.05
AT_START = 10.0
"""Seconds that a start waits for the last agent's programs; kill -9 takes milliseconds, and a hung disk for ever."""
_SHOWN = 5
_LONGEST = 4096
_NAME = re.compile(r"[\w.-]*", re.ASCII)


class Run(NamedTuple):
    """One run of a program."""

    name: str
    handler: str
    group: str
    """The control group of its own, or nothing."""


class Runs:
    """The runs of this process; `left` are those of an earlier one, and those that did not die."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self.left: dict[str, Run] = {}

    def keep_in(self, folder: Path) -> None:
        """Note runs there from now on; what is noted there already was left by an earlier agent."""
        self._folder = folder
        self.left = {run.name: run for run in map(_read, folder.glob(f"{PREFIX}*"))}

    def require_trusted(self) -> None:
        """Refuse to run anything when others could change the ledger, or a drill (S33)."""
        if self._folder is not None:
            require_trusted_files(self._folder, *self._folder.iterdir())

    def begin(self, handler: str) -> Run:
        """Note it before it starts."""
        name = secrets.token_hex(8)
        own = divisible_group()
        run = Run(name, handler, f"{own}/hook-{name}" if own else "")
        if self._folder is not None:
            try:
                self._file(name).write_text(f"{handler}\n{run.group}\n")
            except OSError as error:
                raise HandlerFailed(
                    f"Cannot note in {self._folder} what is about to run: {error.strerror}.",
                    hint="Make room on the disk; the agent runs nothing that it could lose.",
                ) from None
        return run

    def end(self, run: Run) -> None:
        """Nothing of it is left that must end."""
        self.left.pop(run.name, None)
        if self._folder is not None:
            with suppress(OSError):  # a disk that is read-only now: the next agent finds that nothing of it is alive
                self._file(run.name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{PREFIX}{name}"

    def leave(self, run: Run) -> None:
        """It was killed and does not die: no program of its handler starts before it is gone."""
        self.left[run.name] = run

    async def end_left(self, timeout: float, handler: str | None = None) -> None:
        """Kill what is left of earlier runs (of one handler, or nobody knows of which), and wait until it is gone."""
        end = monotonic() + timeout
        while runs := [run for run in self.left.values() if handler is None or run.handler in (handler, "")]:
            alive = await asyncio.to_thread(_end, runs)
            for run in runs:
                if not alive[run.name]:
                    self.end(run)
            names = [name for run in runs for name in alive[run.name]]
            if names and monotonic() >= end:
                raise TryAgain(
                    f"{', '.join(names[:_SHOWN])} of an earlier run cannot be ended, and could still change something.",
                    hint="A process that kill -9 does not end waits for a disk or a network file system: look there.",
                )
            if names:
                await asyncio.sleep(PAUSE)


RUNS = Runs()
"""Those of this process."""


def divisible_group() -> str:
    """This process's control group, if systemd (`Delegate=yes`) or a container's manager lets us divide it."""
    with suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line[3:] for line in lines if line.startswith("0::"))
        mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        root, place = next((fields[3], fields[4]) for fields in mounts if "cgroup2" in fields[fields.index("-") :])
        group = place + (own.removeprefix(root) if root != "/" else own)
        if os.getxattr(group, "user.delegate") == b"1" and os.access(group, os.W_OK):
            return group
    return ""


def _read(path: Path) -> Run:
    """A file that holds nonsense, or that a full disk has left empty, still has its name."""
    name, said = path.name.removeprefix(PREFIX), b""
    with suppress(OSError):
        said = read_whole(path, _LONGEST)
    handler, group, *_ = [*said.decode(errors="replace").split("\n"), "", ""]
    if Path(group).name != f"hook-{name}":  # all in it would be killed
        group = ""
    return Run(name, handler if _NAME.fullmatch(handler) else "", group)


def _end(runs: list[Run]) -> dict[str, list[str]]:
    """Kill their processes once; gives the names of those that were alive. A supervisor ends by itself, as the last."""
    alive: dict[str, list[str]] = {run.name: [] for run in runs}
    for run in runs:
        if run.group:
            alive[run.name] += map(_named, _end_group(Path(run.group)))
    for name in os.listdir("/proc"):  # noqa: PTH208 # a thousand names, and no need for a thousand paths
        if name.isdigit() and (run_name := _mark_of(int(name))) in alive:
            pid = int(name)
            alive[run_name].append(_named(pid))
            is_supervisor = _comm(pid) == supervisor.NAME
            with suppress(OSError):
                os.kill(pid, signal.SIGCONT if is_supervisor else signal.SIGKILL)
    return alive


def _end_group(group: Path) -> list[int]:
    """All in it are killed at once; a kernel before 5.14 cannot, and they are found by their environment."""
    alive: list[int] = []
    with suppress(OSError):
        alive = [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
        (group / "cgroup.kill").write_text("1")
        group.rmdir()
    return alive


def _mark_of(pid: int) -> str:
    """The run in its environment; nothing for a process that we may not look into."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            key, _, value = entry.partition(b"=")
            if key == MARK.encode():
                return value.decode(errors="replace")
    return ""


def _comm(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    return "?"


def _named(pid: int) -> str:
    return f"{_comm(pid)} ({pid})"
