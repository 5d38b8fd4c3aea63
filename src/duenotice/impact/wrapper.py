"""Runs one command and writes down durably that it began and how it ended; outlives the service that started it.

The service starts this file with `python -I -S` and the task as JSON on standard input; it must import nothing of
ours. `NAME.begun` is there before the command is, `NAME.exit` after it, and both appear whole or not at all. If
neither is there, the command may begin. If only the first is there, this process must be looked for (see `command`).
"""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

BEGUN, EXIT = ".begun", ".exit"
CANNOT_RUN = 127
GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL for a command that takes too long."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
LOOK_AGAIN = 1.0
"""Seconds between tries to write on a full disk."""
LAST_WORDS = 1.0
"""Seconds to wait for the end of the output: a process left in the background may hold it open for ever."""


def boot_id() -> str:
    """Names this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """When a living process began, in ticks since boot; with its number it names a process. None: no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state == "Z" else int(fields[18])


def main() -> int:
    """0 when how it ended is written down, or when somebody else had begun it; else the number of the error."""
    task = json.load(sys.stdin)
    os.setsid()
    place = Path(task["place"])
    try:
        if _begin(place):
            _end(place, _run(task))
    except OSError as error:
        return error.errno or 1
    return 0


def _begin(place: Path) -> bool:
    """Whether we are the one who runs it: a link is made once, and its content is whole when it is seen."""
    note = {"boot": boot_id(), "pid": os.getpid(), "started": start_time(os.getpid())}
    draft = _draft(place, note)
    try:
        os.link(draft, f"{place}{BEGUN}")
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    _sync(place.parent)
    return True


def _end(place: Path, note: dict[str, Any]) -> None:
    """Write down how it ended. On a full disk wait for space: only this process knows it."""
    while True:
        try:
            _draft(place, note).rename(f"{place}{EXIT}")
            return _sync(place.parent)
        except OSError as error:
            if error.errno not in FULL:
                raise
            time.sleep(LOOK_AGAIN)


def _draft(place: Path, note: dict[str, Any]) -> Path:
    draft = Path(f"{place}.{os.getpid()}.draft")
    with draft.open("w") as file:
        json.dump(note, file)
        file.flush()
        os.fsync(file.fileno())
    return draft


def _sync(directory: Path) -> None:  # as files.sync_directory, which cannot be imported here
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _run(task: dict[str, Any]) -> dict[str, Any]:
    try:
        process = subprocess.Popen(
            task["command"],
            stdin=holding(task["input"].encode()),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return {"status": CANNOT_RUN, "timed_out": False, "output": f"Cannot run {task['command'][0]}: {error}"}
    tail = bytearray()
    assert process.stdout is not None
    reader = threading.Thread(target=_keep_tail, args=(process.stdout, tail, task["output_kept"]), daemon=True)
    reader.start()
    timed_out = _wait(process, task["timeout"])
    reader.join(LAST_WORDS)
    return {"status": process.returncode, "timed_out": timed_out, "output": bytes(tail).decode(errors="replace")}


def holding(content: bytes) -> int:
    """A file in memory: the command may read it at any speed, or not at all."""
    descriptor = os.memfd_create("event")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _keep_tail(pipe: BinaryIO, tail: bytearray, kept: int) -> None:
    while chunk := os.read(pipe.fileno(), 65536):
        tail += chunk
        del tail[:-kept]


def _wait(process: "subprocess.Popen[bytes]", timeout: float) -> bool:
    """Whether it took too long; then nothing of its process group is left."""
    try:
        process.wait(timeout)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return True


if __name__ == "__main__":
    sys.exit(main())
