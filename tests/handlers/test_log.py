"""`log` against a real datagram socket, real files, and a real journald."""

import asyncio
import json
import os
import socket
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from duenotice.agent.handlers.base import HandlerFailed
from duenotice.agent.handlers.loading import load
from duenotice.wire.seen_documents import event_to_json
from tests.handlers.contexts import EVENT, NOTES, context, prepare, prepare_killed, recover
from tests.handlers.private_systemd import private_systemd

FORGED = "web-0\nPRIORITY=0\n_UID=1\x1b]0;owned\x07\u202e"
SHOWN = "web-0\\nPRIORITY=0\\n_UID=1\\u001b]0;owned\\u0007\\u202e"


def _fields(datagram: bytes) -> dict[str, str]:
    """The journal's native form, read by its description: NAME, newline, length, value, newline."""
    fields = {}
    while datagram:
        name, _, rest = datagram.partition(b"\n")
        (length,) = struct.unpack("<Q", rest[:8])
        fields[name.decode()] = rest[8 : 8 + length].decode()
        assert rest[8 + length : 9 + length] == b"\n"
        datagram = rest[9 + length :]
    return fields


def test_journald_gets_fields_that_nobody_can_forge(tmp_path):
    """One datagram a verb; a newline in a name begins no field, and nothing in it acts on a terminal (S28)."""
    path, notes = str(tmp_path / "socket"), NOTES()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(path)
        handler = load("it", "log", {"path": path})
        asyncio.run(handler.prepare(context(notes, event=replace(EVENT, resources=(FORGED,)))))
        recover("log", notes, path=path)
        recover("log", notes, path=path)
        journal.setblocking(False)
        before, after = _fields(journal.recv(65536)), _fields(journal.recv(65536))
        with pytest.raises(BlockingIOError):
            journal.recv(1)
    assert before["MESSAGE"] == f"Reboot {EVENT.event_id} of {SHOWN} is coming"
    assert (before["PRIORITY"], before["DUENOTICE_EVENT_RESOURCES"]) == ("5", SHOWN)
    assert (after["MESSAGE"], after["DUENOTICE_EVENT_PHASE"]) == (
        f"Reboot {EVENT.event_id} of web-0, web-1 is over",
        "recover",
    )
    assert "_UID" not in before


def test_a_huge_event_still_fits_a_datagram(tmp_path):
    """Values are cut, not lost."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(path)
        huge = replace(EVENT, description="d" * 1_000_000, resources=("r" * 1_000_000,))
        asyncio.run(load("it", "log", {"path": path}).prepare(context({}, event=huge)))
        assert set(_fields(journal.recv(1 << 20))["DUENOTICE_EVENT_DESCRIPTION"]) == {"d"}


def test_json_lines_are_appended(tmp_path):
    """One line a verb, whole, whatever is in a name."""
    path, notes = tmp_path / "events.jsonl", NOTES()
    path.write_text("{}\n")
    handler = load("it", "log", {"to": "file", "path": str(path)})
    event = replace(EVENT, resources=(FORGED,))
    asyncio.run(handler.prepare(context(notes, event=event, drill=True)))
    asyncio.run(handler.recover(context(notes, event=event)))
    first, before, after = map(json.loads, path.read_text().splitlines())
    assert (first, before["phase"], after["phase"], before["drill"], after["drill"]) == (
        {},
        "prepare",
        "recover",
        True,
        False,
    )
    assert before["event"] == event_to_json(event)


def test_a_new_file_is_not_for_everybody(tmp_path):
    """Others cannot read who goes down when."""
    prepare("log", {}, to="file", path=str(tmp_path / "new"))
    assert (tmp_path / "new").stat().st_mode & 0o007 == 0


def test_it_does_not_write_through_a_link(tmp_path):
    """The agent is root: a link left in its way must not choose the file."""
    (tmp_path / "target").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(HandlerFailed, match="Cannot write"):
        prepare("log", {}, to="file", path=str(tmp_path / "link"))
    assert (tmp_path / "target").read_text() == ""


def test_standard_error_gets_lines_too(capfdbinary):
    """For agents whose own output is collected."""
    prepare("log", {}, to="stderr")
    assert json.loads(capfdbinary.readouterr().err)["phase"] == "prepare"


@pytest.mark.parametrize("written", [False, True])
def test_the_end_is_logged_only_if_the_beginning_may_have_been(tmp_path, written):
    """Killed at its note (S15)."""
    path, notes = tmp_path / "log", NOTES()
    assert asyncio.run(prepare_killed("log", notes, 1, written, to="file", path=str(path)))
    recover("log", notes, to="file", path=str(path))
    assert path.exists() is written


def test_no_journal_is_told(tmp_path):
    """A failure that says where it wanted to write."""
    with pytest.raises(HandlerFailed, match=f"Cannot write to {tmp_path}/none: No such file"):
        prepare("log", {}, path=str(tmp_path / "none"))


@pytest.mark.machine
def test_a_real_journald_finds_it_again(tmp_path_factory):
    """`journalctl` shows the entry by our own fields, to the letter."""
    # Left out: the kernel's log and its audit, which are the whole machine's.
    settings = "[Journal]\\nStorage=volatile\\nReadKMsg=no\\nAudit=\\n"
    configure = f"mkdir -p /run/systemd/journald.conf.d; printf '{settings}' >/run/systemd/journald.conf.d/test.conf"
    program = "/usr/lib/systemd/systemd-journald"
    unit = f'[Service]\nType=notify\nExecStartPre=/bin/sh -c "{configure}"\nExecStart={program}\n'
    prepares = "from tests.handlers.contexts import prepare; prepare('log', {})"
    path = f"PYTHONPATH={os.pathsep.join(map(str, sys.path))}:{Path.cwd()}"
    with private_systemd(tmp_path_factory.mktemp("journald"), {"journald.service": unit}) as systemd:
        systemd.run("StartUnit", "journald.service", "active")
        systemd.inside("env", path, sys.executable, "-B", "-c", prepares)
        systemd.inside("journalctl", "--sync")
        shown = systemd.inside("journalctl", "-o", "json", f"DUENOTICE_EVENT_ID={EVENT.event_id}")
    entry = json.loads(shown)
    assert entry["MESSAGE"] == f"Reboot {EVENT.event_id} of web-0, web-1 is coming"
    assert (entry["SYSLOG_IDENTIFIER"], entry["DUENOTICE_EVENT_RESOURCES"]) == ("duenotice-agent", "web-0,web-1")
