"""`checkpoint` against real processes."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from duenotice.agent.handlers.base import HandlerFailed
from duenotice.agent.handlers.loading import load
from tests.handlers.contexts import (
    NOTES,
    cancelled_when,
    context,
    prepare,
    prepare_killed,
    recover,
    script,
    wait_until,
)
from tests.handlers.private_systemd import private_systemd

SAVES = """
import os, signal, sys, time
def save(*_):
    with open(sys.argv[1], "w") as file:
        for part in range(10):
            file.write("state\\n")
            file.flush()
            time.sleep(0.05)
signal.signal(signal.SIGUSR1, save)
with open(sys.argv[2] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[2] + ".new", sys.argv[2])
while True:
    signal.pause()
"""


@pytest.fixture
def program(tmp_path):
    """A program that saves its state, slowly, when it is told to."""
    state, pidfile = tmp_path / "state", tmp_path / "pid"
    process = subprocess.Popen([sys.executable, "-c", SAVES, str(state), str(pidfile)])
    try:
        wait_until(pidfile.exists)
        yield state, pidfile
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("before", [None, "state\n" * 10])
def test_it_waits_until_the_state_is_whole(program, before):
    """Prepare returns when the file has stopped changing, whether it is new or of the same size as before."""
    state, pidfile = program
    if before:
        state.write_text(before)
    prepare("checkpoint", {}, file=str(state), pidfile=str(pidfile), settle="200ms")
    assert state.read_text() == "state\n" * 10


def test_a_command_does_as_well_and_recover_restores(tmp_path):
    """Save by a program, restore by another, once."""
    state, said = tmp_path / "state", tmp_path / "said"
    save = script(tmp_path / "save", f"#!/bin/sh\necho saved >{state}\n")
    restore = script(tmp_path / "restore", f"#!/bin/sh\ncat {state} >>{said}\n")
    keys, notes = {"file": str(state), "command": [save], "recover": [restore], "settle": "50ms"}, NOTES()
    prepare("checkpoint", notes, **keys)
    recover("checkpoint", notes, **keys)
    recover("checkpoint", notes, **keys)
    assert said.read_text() == "saved\n"


@pytest.mark.parametrize(("written", "restored"), [(False, False), (True, True)])
def test_recover_restores_only_what_had_begun(tmp_path, written, restored):
    """Killed before the note was durable, nothing had been asked of the program (S15)."""
    said, notes = tmp_path / "said", NOTES()
    save, restore = script(tmp_path / "save", "#!/bin/sh\n"), script(tmp_path / "restore", f"#!/bin/sh\ntouch {said}\n")
    keys = {"file": str(tmp_path / "state"), "command": [save], "recover": [restore]}
    assert asyncio.run(prepare_killed("checkpoint", notes, 1, written, **keys))
    recover("checkpoint", notes, **keys)
    assert said.exists() is restored


def test_a_file_that_is_never_written_is_a_failure(tmp_path):
    """An old file is no proof."""
    state = tmp_path / "state"
    state.write_text("old")
    keys = {"file": str(state), "command": [script(tmp_path / "save", "#!/bin/sh\n")], "settle": "0s"}
    with pytest.raises(HandlerFailed, match="to be written"):
        asyncio.run(load("it", "checkpoint", keys).prepare(context({}, seconds=0.3)))


def test_a_cut_try_can_be_made_again(program):
    """Cancelled halfway through the write, the next prepare saves once more, whole."""
    state, pidfile = program
    keys, notes = {"file": str(state), "pidfile": str(pidfile), "settle": "200ms"}, NOTES()
    asyncio.run(cancelled_when(load("it", "checkpoint", keys).prepare(context(notes)), state.exists))
    prepare("checkpoint", notes, **keys)
    assert state.read_text() == "state\n" * 10


@pytest.mark.parametrize("pid", ["", "x", "0", "1", "-1", "999999999", "99999999999999999999"])
def test_a_pidfile_that_names_nobody_is_told(tmp_path, pid):
    """And above all nobody else is signalled: 0 and -1 would be many."""
    pidfile = tmp_path / "pid"
    pidfile.write_text(pid)
    with pytest.raises(HandlerFailed, match=r"does not name|is gone|no process"):
        prepare("checkpoint", {}, file=str(tmp_path / "state"), pidfile=str(pidfile))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_user_cannot_make_root_signal_another(tmp_path):
    """A pidfile of user nobody may name a process of nobody only."""
    pidfile, bystander = tmp_path / "pid", subprocess.Popen(["sleep", "60"])
    try:
        pidfile.write_text(str(bystander.pid))
        os.chown(pidfile, 65534, -1)
        with pytest.raises(HandlerFailed, match="belongs to user 65534"):
            prepare("checkpoint", {}, file=str(tmp_path / "state"), pidfile=str(pidfile), signal="SIGTERM")
        assert bystander.poll() is None
    finally:
        bystander.kill()
        assert bystander.wait() == -signal.SIGKILL


@pytest.mark.machine
def test_a_unit_is_signalled_at_its_main_process(tmp_path_factory):
    """systemd says which process that is."""
    folder = tmp_path_factory.mktemp("saver")
    state, pidfile, text = folder / "state", folder / "pid", folder / "saves.py"
    text.write_text(SAVES)
    python = Path(sys.executable).resolve()
    units = {"saver.service": f"[Service]\nExecStart={python} {text} {state} {pidfile}\n"}
    # In there: the process numbers that this systemd tells are not those of our namespace.
    prepares = "import sys; from tests.handlers.contexts import prepare; prepare('checkpoint', {}, file=sys.argv[1], "
    prepares += "unit='saver.service', systemctl=sys.argv[2:], settle='200ms')"
    with private_systemd(folder, units) as systemd:
        systemd.run("StartUnit", "saver.service", "active")
        wait_until(pidfile.exists)
        path = f"PYTHONPATH={os.pathsep.join(map(str, sys.path))}:{Path.cwd()}"
        systemd.inside("env", path, sys.executable, "-B", "-c", prepares, str(state), *systemd.systemctl)
    assert state.read_text() == "state\n" * 10
