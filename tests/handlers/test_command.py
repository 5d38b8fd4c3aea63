"""`command` against real programs."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from duenotice.agent.handlers import processes, supervisor
from duenotice.agent.handlers.base import KEPT, HandlerFailed, TryAgain
from duenotice.agent.handlers.loading import load, problems
from duenotice.agent.handlers.runs import Run, Runs
from duenotice.wire.seen_documents import event_to_json
from tests.handlers.contexts import (
    EVENT,
    NOTES,
    cancelled_when,
    context,
    prepare,
    prepare_killed,
    recover,
    script,
    undone,
    wait_until,
)

TELLS = f"""#!{sys.executable}
import json, os, sys
told = {{key: value for key, value in os.environ.items() if key.startswith("DUENOTICE_")}}
with open(sys.argv[1], "w") as file:
    json.dump({{"argv": sys.argv[2:], "stdin": json.load(sys.stdin), "environment": told}}, file)
"""


def test_it_tells_the_program_everything(tmp_path, monkeypatch):
    """A hook gets the event as JSON on standard input and as plain values, and none of the agent's own settings."""
    monkeypatch.setenv("DUENOTICE_AGENT_KEY", "secret")
    program, said = script(tmp_path / "hook", TELLS), tmp_path / "said"
    prepare("command", {}, prepare=[program, str(said), "x y"])
    told = json.loads(said.read_text())
    assert told["argv"] == ["x y"]
    assert told["stdin"] == event_to_json(EVENT)
    run = told["environment"].pop("DUENOTICE_RUN")
    assert re.fullmatch("[0-9a-f]{16}", run)
    assert told["environment"] == {
        "DUENOTICE_EVENT_ID": EVENT.event_id,
        "DUENOTICE_EVENT_TYPE": "Reboot",
        "DUENOTICE_EVENT_STATUS": "Scheduled",
        "DUENOTICE_EVENT_NOT_BEFORE": "Sun, 15 Nov 2026 12:00:00 GMT",
        "DUENOTICE_EVENT_RESOURCES": "web-0,web-1",
        "DUENOTICE_EVENT_SOURCE": "User",
        "DUENOTICE_EVENT_DESCRIPTION": EVENT.description,
        "DUENOTICE_EVENT_DURATION": "600",
        "DUENOTICE_EVENT_PHASE": "prepare",
        "DUENOTICE_VM": "web-0",
        "DUENOTICE_DRILL": "",
    }


def test_names_with_shell_characters_arrive_unharmed(tmp_path):
    """Whatever a name holds, it is a value: nothing expands, nothing runs."""
    odd = "a; touch $HOME `id` $(id) 'q' \"d\" \n\\ * é"
    program, said = script(tmp_path / "hook", TELLS), tmp_path / "said"
    handler = load("it", "command", {"prepare": [program, str(said)]})
    asyncio.run(handler.prepare(context({}, event=replace(EVENT, resources=(odd,), description=odd))))
    told = json.loads(said.read_text())
    assert told["stdin"]["Resources"] == [odd]
    assert told["environment"]["DUENOTICE_EVENT_RESOURCES"] == odd
    assert told["environment"]["DUENOTICE_EVENT_DESCRIPTION"] == odd


def test_what_an_environment_cannot_hold_is_still_on_stdin(tmp_path):
    """A NUL, half a character or a value of a megabyte stops no hook; standard input has it whole."""
    odd = "nul\0 half\ud800 " + "x" * 1_000_000
    program, said = script(tmp_path / "hook", TELLS), tmp_path / "said"
    handler = load("it", "command", {"prepare": [program, str(said)]})
    asyncio.run(handler.prepare(context({}, event=replace(EVENT, description=odd))))
    told = json.loads(said.read_text())
    assert told["stdin"]["Description"] == odd
    assert told["environment"]["DUENOTICE_EVENT_DESCRIPTION"].startswith("nul half? xxx")


@pytest.mark.parametrize(("code", "error"), [(1, HandlerFailed), (75, TryAgain), (2, HandlerFailed)])
def test_the_exit_code_decides(tmp_path, code, error):
    """75 asks for another try; any other but 0 is failure, with the end of what the hook complained of."""
    program = script(tmp_path / "hook", f"#!/bin/sh\nseq 100000 >&2\necho the last word >&2\nexit {code}\n")
    with pytest.raises(HandlerFailed) as caught:
        prepare("command", {}, prepare=[program])
    assert type(caught.value) is error
    assert caught.value.message.endswith("the last word")
    assert len(caught.value.message) < KEPT + 200


FAMILY = """#!/bin/sh
trap '' TERM
sh -c 'sleep 60 & echo $! >>"{pids}.new"; exec sleep 60' &
echo $$ $! >>{pids}.new
setsid sh -c 'trap "" TERM HUP; echo $$ >>"{pids}.new"; (setsid sleep 60 & echo $! >>"{pids}.new"); sleep 60' &
while [ "$(cat {pids}.new | wc -w)" -lt 5 ]; do sleep 0.01; done
echo nearly there
echo but not quite >&2
mv {pids}.new {pids}
{end}
"""
"""A hook with children and grandchildren, some in sessions of their own, some deaf to SIGTERM."""


def _family(folder: Path, end: str = "wait\nwait\nsleep 60") -> tuple[str, Path]:
    pids = folder / "pids"
    return script(folder / "hook", FAMILY.format(pids=pids, end=end)), pids


def _none_lives(pids: Path) -> bool:
    assert len(pids.read_text().split()) == 5
    return not any(map(_alive, pids.read_text().split()))


def test_a_late_program_is_ended_with_all_that_came_of_it(tmp_path):
    """Asked first, then killed, when the handler is over: grandchildren too, and those in a session of their own."""
    program, pids = _family(tmp_path)
    handler = load("it", "command", {"prepare": [program]})
    with pytest.raises(HandlerFailed, match="did not end in time") as caught:
        asyncio.run(handler.prepare(context({}, seconds=1.5)))
    assert _none_lives(pids)
    assert re.search(r"Still running: hook \(\d+\), .*sleep \(\d+\)", caught.value.message)
    assert caught.value.message.endswith("It printed: nearly there\nbut not quite")


def test_a_cancelled_program_is_ended(tmp_path):
    """Nothing that the handler started outlives a cancel."""
    program, pids = _family(tmp_path)
    handler = load("it", "command", {"prepare": [program]})
    asyncio.run(cancelled_when(handler.prepare(context({})), pids.exists))
    assert _none_lives(pids)


@pytest.mark.parametrize("word", [b"", b"end\n"])
def test_a_program_that_is_no_longer_wanted_before_it_has_started_does_not_start(tmp_path, word):
    """A new process takes a while until it runs; the agent may be gone by then, or have changed its mind (S15)."""
    said = tmp_path / "said"
    hook = script(tmp_path / "hook", f"#!/bin/sh\necho ran >>{said}\n")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(word)
        ours.shutdown(socket.SHUT_WR)
        argv = [sys.executable, "-I", "-S", "-c", processes._BEGIN, processes._HOME, str(theirs.fileno()), "", hook]
        subprocess.run(argv, pass_fds=(theirs.fileno(),), check=True, timeout=60)
        assert ours.recv(64).startswith(b"failed ")
    assert not said.exists()


def test_a_program_that_fails_leaves_nothing(tmp_path):
    """It is tried again, and what the first try has left must not run beside the second."""
    program, pids = _family(tmp_path, "exit 75")
    with pytest.raises(TryAgain, match="exited with 75: nearly there\nbut not quite"):
        prepare("command", {}, prepare=[program])
    assert _none_lives(pids)


def _kill_its_parent(pids: Path) -> None:
    wait_until(pids.exists)
    parent = Path(f"/proc/{pids.read_text().split()[0]}/stat").read_text().rpartition(")")[2].split()[1]
    assert "supervisor" in Path(f"/proc/{parent}/cmdline").read_text()
    os.kill(int(parent), 9)


def test_a_program_whose_supervisor_is_killed_ends_and_is_not_done(tmp_path):
    """As the kernel may do when memory is short; the next program of the handler waits for what is left."""
    program, pids = _family(tmp_path)
    handler, notes = load("it", "command", {"prepare": [program], "recover": ["/bin/true"]}), NOTES()

    killer = threading.Thread(target=_kill_its_parent, args=(pids,))
    killer.start()
    with pytest.raises(HandlerFailed, match="was ended by SIGKILL"):
        asyncio.run(handler.prepare(context(notes)))
    killer.join()
    asyncio.run(handler.recover(context(notes)))
    assert _none_lives(pids)


def test_a_program_that_is_late_is_over_when_its_handler_is(tmp_path):
    """The program's deadline and the handler's are the same moment: the second must not cut the ending short (S13)."""
    text = f"#!/bin/sh\ntrap '' TERM\necho $$ >{tmp_path}/pid\nwhile :; do sleep 0.05; done\n"
    handler = load("it", "command", {"prepare": [script(tmp_path / "hook", text)]})

    async def cut_off_while_it_ends() -> None:
        task = asyncio.ensure_future(handler.prepare(context({}, seconds=0.3)))
        await asyncio.wait([task], timeout=0.4)
        task.cancel()
        await asyncio.wait([task])
        assert not _alive((tmp_path / "pid").read_text().strip())

    asyncio.run(cut_off_while_it_ends())


def test_a_child_left_behind_holds_up_nothing(tmp_path):
    """A hook may leave a daemon that keeps its pipes open: the hook has ended with 0, and is done at once."""
    pid = tmp_path / "pid"
    began = time.monotonic()
    prepare("command", {}, prepare=[script(tmp_path / "hook", f"#!/bin/sh\nsleep 60 & echo $! >{pid}\n")])
    assert time.monotonic() - began < supervisor.GRACE
    assert _alive(pid.read_text().strip())
    os.kill(int(pid.read_text()), 9)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.chmod(0o775), "written by others"),
        (lambda path: path.chmod(0o757), "written by others"),
        (lambda path: path.chmod(0o644), "not an executable"),
        (lambda path: os.chown(path, 65534, 0), "belongs to user 65534"),
        (lambda path: path.parent.chmod(0o777), "written by others"),
        (lambda path: path.unlink(), "No such file"),
    ],
)
def test_a_program_others_could_change_is_not_run(tmp_path, spoil, why):
    """Checked when the configuration is, and again at every run."""
    folder = tmp_path / "hooks"
    folder.mkdir()
    said = tmp_path / "said"
    program = script(folder / "hook", f"#!/bin/sh\ntouch {said}\n")
    handler = load("it", "command", {"prepare": [program]})
    assert problems(handler) == []
    if os.geteuid() != 0 and why.startswith("belongs"):
        pytest.skip("only root can give a file away")
    spoil(Path(program))
    assert why in problems(handler)[0]
    with pytest.raises(HandlerFailed, match=why):
        asyncio.run(handler.prepare(context({})))
    assert not said.exists()


def test_a_link_is_trusted_no_more_than_the_folder_it_lies_in(tmp_path):
    """Who may write there could point it at any program of root's; on a link's way every folder counts."""
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.mkdir()
    outer.mkdir()
    program = script(tmp_path / "program", "#!/bin/sh\n")
    (inner / "hook").symlink_to(program)
    (outer / "hook").symlink_to("../inner/hook")
    handler = load("it", "command", {"prepare": [str(outer / "hook")]})
    assert problems(handler) == []
    for folder in (inner, outer):
        folder.chmod(0o777)
        assert f"{folder.name} can be written by others" in problems(handler)[0]
        folder.chmod(0o755)
    (inner / "hook").unlink()
    (inner / "hook").symlink_to(outer / "hook")
    assert "cannot be checked" in problems(handler)[0]


def _hooks(folder: Path, said: Path, *names: str) -> str:
    folder.mkdir(exist_ok=True)
    for name in names:
        script(folder / name, f'#!/bin/sh\necho "$1 $(basename "$0")" >>{said}\n')
    return str(folder)


def test_a_folder_runs_in_order_and_back_in_reverse(tmp_path):
    """`NN-name` files run by name to prepare and the other way to recover; others are not hooks."""
    said = tmp_path / "said"
    folder = _hooks(tmp_path / "hooks", said, "20-b", "10-a", "README", "30-c~", "9-x")
    notes = NOTES()
    prepare("command", notes, hooks=folder)
    recover("command", notes, hooks=folder)
    recover("command", notes, hooks=folder)
    assert said.read_text().splitlines() == ["prepare 10-a", "prepare 20-b", "recover 20-b", "recover 10-a"]


def test_a_second_try_goes_on_where_the_first_ended(tmp_path):
    """What succeeded does not run again (S13)."""
    said = tmp_path / "said"
    folder, notes = _hooks(tmp_path / "hooks", said, "10-a", "30-c"), NOTES()
    script(tmp_path / "hooks" / "20-b", f"#!/bin/sh\necho $1 20-b >>{said}\ntest -e {tmp_path}/now || exit 75\n")
    with pytest.raises(TryAgain):
        prepare("command", notes, hooks=folder)
    (tmp_path / "now").touch()
    prepare("command", notes, hooks=folder)
    assert said.read_text().splitlines() == ["prepare 10-a", "prepare 20-b", "prepare 20-b", "prepare 30-c"]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_recover_undoes_what_had_begun_wherever_it_was_cut(tmp_path, count, written):
    """Killed at any note: every hook that ran is undone once, and none that did not begin (S15)."""
    said, notes = tmp_path / "said", NOTES()
    folder = _hooks(tmp_path / "hooks", said, "10-a", "20-b")
    assert asyncio.run(prepare_killed("command", notes, count, written, hooks=folder)) is (count < 5)
    recover("command", notes, hooks=folder)
    recover("command", notes, hooks=folder)
    lines = said.read_text().splitlines() if said.exists() else []
    ran = {line.split()[1] for line in lines if line.startswith("prepare")}
    back = [line.split()[1] for line in lines if line.startswith("recover")]
    assert ran <= set(back) == set(notes)
    assert back == sorted(back, reverse=True)


def _alive(pid: str) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.parametrize(
    ("end", "said"),
    [("exit 0", ""), ("exit 1", "exited with 1: it is back"), ("exit 127", "exited with 127: it is back")],
)
def test_a_program_says_whether_all_is_still_prepared(tmp_path: Path, end: str, said: str):
    """Its exit code decides, and what it prints says why."""
    look = script(tmp_path / "look", f'#!/bin/sh\necho it is back\n[ "$DUENOTICE_EVENT_PHASE" = prepared ] && {end}\n')
    found = undone("command", {}, prepare=["/bin/true"], prepared=[look])
    assert found == (f"{look} {said}" if said else "")


@pytest.mark.parametrize(
    ("end", "error"), [("exit 75", TryAgain), ("kill -9 $$", TryAgain), ("chmod 666 $0; exec $0", HandlerFailed)]
)
def test_a_program_that_cannot_say_it_is_asked_again(tmp_path: Path, end: str, error: type[HandlerFailed]):
    """Nothing is prepared again for that reason: it is not known whether it was undone."""
    look = script(tmp_path / "look", f"#!/bin/sh\n{end}\n")
    if "chmod" in end:
        Path(look).chmod(0o666)
    with pytest.raises(error):
        undone("command", {}, prepare=["/bin/true"], prepared=[look])


def test_hooks_that_were_done_are_done_again_when_their_work_was_undone(tmp_path: Path):
    """And not otherwise, however often they are asked to (S13)."""
    hook = script(tmp_path / "hook", f"#!/bin/sh\necho x >>{tmp_path}/trace\n")
    handler, notes = load("it", "command", {"prepare": [hook]}), NOTES()
    for again, runs in ((0, 1), (0, 1), (1, 2), (1, 2), (2, 3)):
        asyncio.run(handler.prepare(context(notes, again=again)))
        assert (tmp_path / "trace").read_text().count("x") == runs


@pytest.mark.parametrize(
    ("noted", "handler", "group"),
    [
        (b"drain\n/sys/fs/cgroup/hook-1a\n", "drain", "/sys/fs/cgroup/hook-1a"),
        (b"drain\n/sys/fs/cgroup/system.slice\n", "drain", ""),
        (b"dr\xffin\n", "", ""),
        (b"", "", ""),
    ],
)
def test_a_note_of_a_run_is_believed_only_as_we_write_it(tmp_path: Path, noted: bytes, handler: str, group: str):
    """All in a control group would be killed."""
    (tmp_path / "run-1a").write_bytes(noted)
    runs = Runs()
    runs.keep_in(tmp_path)
    assert runs.left == {"1a": Run("1a", handler, group)}


def test_what_is_left_of_nobody_knows_whom_ends_before_any_handler_runs(tmp_path: Path):
    """Its note holds nonsense; it could still change something (S15)."""
    (tmp_path / "run-1a").write_bytes(b"\xff")
    runs = Runs()
    runs.keep_in(tmp_path)
    with subprocess.Popen(["/bin/sleep", "60"], env={"DUENOTICE_RUN": "1a"}) as left:
        asyncio.run(_ended_by(runs, left))
    assert left.returncode == -9 and list(tmp_path.iterdir()) == []


async def _ended_by(runs: Runs, left: "subprocess.Popen[bytes]") -> None:
    ending = asyncio.ensure_future(runs.end_left(20, "drain"))
    while not ending.done():
        left.poll()  # what is dead and not waited for has no environment any more, and is still in /proc
        await asyncio.sleep(0.01)
    ending.result()
