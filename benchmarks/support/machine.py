"""The machine: its cores and who gets which, its limits, the programs it must have, and how to describe it."""

import os
import platform
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

_ADMIN_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")  # left out of PATH for ordinary users
_FILES_WANTED = 65_536


class CannotMeasure(Exception):
    """Something that a measurement needs is missing or went wrong; the text says what to do."""


def require(name: str, package: str) -> str:
    """The path of a program, or an error that names the Debian package which has it."""
    folders = os.pathsep.join([os.environ.get("PATH", os.defpath), *_ADMIN_FOLDERS])
    found = shutil.which(name, path=folders)
    if found is None:
        raise CannotMeasure(f"The program {name} is missing. Install the Debian package {package}.")
    return found


_ALL = sorted(os.sched_getaffinity(0))  # before we are pinned ourselves


def _cores() -> list[int]:
    cores = _ALL
    if len(cores) < 2:
        raise CannotMeasure("Two cores are needed: one for the server and one for the load.")
    return cores


SERVER_CORE, LOAD_CORE = _cores()[:2]


ANY_CORE = -1


def pinned(core: int, command: list[str]) -> list[str]:
    """The command on one core, or on any; its process id stays that of the command."""
    cores = ",".join(map(str, _cores())) if core == ANY_CORE else str(core)
    return [require("taskset", "util-linux"), "-c", cores, *command]


def move(pid: int, core: int) -> None:
    """Keep another process, with all its threads, on one core."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Keep this process, and threads begun meanwhile, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def allow_many_files(least: int) -> None:
    """Raise the limit of open files for us and our children, or say that it cannot be raised far enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (_FILES_WANTED, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), max(hard, wanted)))
            break
        except (ValueError, OSError):
            continue
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed < least:
        raise CannotMeasure(f"Only {allowed} files may be open, {least} are needed. Raise it with ulimit -n.")


def describe() -> dict[str, str]:
    """What figures depend on."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores (server on {SERVER_CORE}, load on {LOAD_CORE})",
        "kernel": platform.release(),
        "Python": f"{platform.python_version()}, {Path(sys.executable).resolve()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
