"""What the wrapper of an impact's command leaves in its spool, and how the service reads it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from duenotice.impact import wrapper
from duenotice.impact.command import CommandEnded, Lost, NotBegun, Running, RunRecords
from duenotice.impact.wrapper import boot_id, start_time
from tests.golden.compare import assert_golden, golden

FILE = "spool.txt"
EVENT_ID, SECONDS = "805C2F53-88EE-4045-95F8-788FD1634F66", 30.0
SCRIPT = "import os, signal, sys, time; data = sys.stdin.read(); "
COMMANDS = {
    1: ("it is done", (sys.executable, "-I", "-S", "-c", SCRIPT + "print(data, 'é')"), SECONDS),
    2: (
        "it failed",
        (sys.executable, "-I", "-S", "-c", SCRIPT + "print('no disk', file=sys.stderr); sys.exit(3)"),
        SECONDS,
    ),
    3: (
        "it was killed",
        (sys.executable, "-I", "-S", "-c", SCRIPT + f"os.kill(os.getpid(), {signal.SIGKILL})"),
        SECONDS,
    ),
    4: ("it took too long", (sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)"), 0.05),
    5: ("it cannot be run", ("/nowhere/command",), SECONDS),
}
ENDS = {
    1: CommandEnded(0, False, "the event é\n"),
    2: CommandEnded(3, False, "no disk\n"),
    3: CommandEnded(-signal.SIGKILL, False, ""),
    4: CommandEnded(-signal.SIGTERM, True, ""),
    5: CommandEnded(127, False, "Cannot run /nowhere/command: [Errno 2] No such file or directory: '/nowhere/command'"),
}


def run(spool: RunRecords, attempt: int, command: tuple[str, ...], timeout: float) -> Iterator[tuple[str, str]]:
    """The notes that a wrapper leaves, by the names of their files."""
    place = spool.place(EVENT_ID, attempt)
    task = {"place": str(place), "command": command, "input": "the event", "timeout": timeout, "output_kept": 1000}
    environment = {"PATH": os.environ["PATH"], "PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(
        [sys.executable, "-I", "-S", wrapper.__file__], stdin=subprocess.PIPE, text=True, env=environment
    ) as process:
        process.communicate(json.dumps(task), SECONDS)
    assert process.returncode == 0
    for file in sorted(spool.directory.iterdir()):
        if file.name.startswith(f"{EVENT_ID}.{attempt}."):
            yield file.name, _plain(file.read_text(), process.pid)


def _plain(note: str, pid: int) -> str:
    """Without what differs from run to run, if that is what it has to be."""
    begun = json.loads(note)
    if "boot" not in begun:
        return note
    assert (begun["boot"], begun["pid"], type(begun["started"])) == (boot_id(), pid, int)
    known = {boot_id(): "<boot>", f": {pid}": ": <pid>", f": {begun['started']}": ": <ticks>"}
    return re.sub("|".join(known), lambda found: known[found[0]], note)


def test_the_notes_of_a_command_are_those_that_were(tmp_path: Path) -> None:
    """That it has begun, and each way in which it can end."""
    spool = RunRecords(tmp_path)
    parts = ["Notes of commands in the spool, by the names of their files."]
    for attempt, (title, command, timeout) in COMMANDS.items():
        found = dict(run(spool, attempt, command, timeout))
        parts.append("\n".join([f"== {title}", *(f"{name} {text}" for name, text in found.items())]))
    assert_golden(FILE, "\n\n".join(parts))


def test_notes_that_were_left_are_read_as_they_were(tmp_path: Path) -> None:
    """Of a command that ended, of one that runs, of one whose wrapper or machine has gone, and of none."""
    spool = RunRecords(tmp_path)
    assert isinstance(spool.look(spool.place(EVENT_ID, 1)), NotBegun)
    pid, ticks = os.getpid(), start_time(os.getpid())
    for line in golden(FILE).splitlines():
        name, _, note = line.partition(" ")
        if name.startswith(EVENT_ID):
            filled = note.replace("<boot>", boot_id()).replace("<pid>", str(pid)).replace("<ticks>", str(ticks))
            (tmp_path / name).write_text(filled)
    places = {attempt: spool.place(EVENT_ID, attempt) for attempt in ENDS}
    assert {attempt: spool.look(place) for attempt, place in places.items()} == ENDS
    begun = tmp_path / f"{EVENT_ID}.1.begun"
    (tmp_path / f"{EVENT_ID}.1.exit").unlink()
    assert spool.look(places[1]) == Running(pid)
    text = begun.read_text()
    for changed in (text.replace(boot_id(), "another"), text.replace(f": {ticks}", ": 1")):
        begun.write_text(changed)
        assert isinstance(spool.look(places[1]), Lost)
