"""`duenotice run` that is killed: neither the program, nor what it has started, is left behind."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import require_program
from tests.support.cli import duenotice
from tests.support.served import wait_until
from tests.support.signals import heard

pytestmark = pytest.mark.machine

FAMILY = """
    import os, pathlib, signal, subprocess, sys, time, urllib.request
    names = ("plain", "deaf", "own_session", "daemon")
    here = pathlib.Path(sys.argv[1])
    me = sys.argv[2] if len(sys.argv) > 2 else "parent"
    if me == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if me == "daemon" and os.fork():
        os._exit(0)
    if me == "daemon":
        os.setsid()
    if me == "parent":
        for name in names:
            subprocess.Popen([sys.executable, __file__, str(here), name], start_new_session=name == "own_session")
    (here / me).with_suffix(".new").write_text(str(os.getpid()))
    (here / me).with_suffix(".new").rename(here / me)
    while me == "parent" and not all((here / name).exists() for name in names):
        time.sleep(0.01)
    if me == "parent" and "ASKS" in os.environ:
        url = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
        urllib.request.urlopen(urllib.request.Request(url, headers={"Metadata": "true"}))
    time.sleep(600)
"""
NAMES = ("parent", "plain", "deaf", "own_session", "daemon")


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Path]:
    """A program with children: plain ones, one that ignores SIGTERM, one with a session of its own, a daemon."""
    folder = tmp_path / "pids"
    folder.mkdir()
    (tmp_path / "family.py").write_text(textwrap.dedent(FAMILY))
    yield folder
    for pid in pids(folder):
        if is_there(pid):
            os.kill(pid, signal.SIGKILL)


def pids(folder: Path) -> list[int]:
    return [int((folder / name).read_text()) for name in NAMES if (folder / name).exists()]


def is_there(pid: int) -> bool:
    """Whether it runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def ours(folder: Path, *before: str, network: bool = False) -> list[str]:
    flags = ["--network"] if network else []
    command = [sys.executable, "-m", "duenotice", "run", *flags, "--patience", "60s", "--scenario", "own-events", "--"]
    return [*before, *command, sys.executable, str(folder.with_name("family.py")), str(folder)]


def no_namespaces() -> list[str]:
    """Where no network can be made, so that it goes by proxy."""
    script = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"'
    return [require_program("unshare", "util-linux"), "--user", "--map-root-user", "sh", "-c", script, "sh"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("way", ["network", "proxy"])
def test_nothing_is_left_of_a_run_that_is_killed(family: Path, way: str, how: signal.Signals):
    """Killed with -9 it can do nothing any more, so that somebody else must."""
    command = ours(family, *(no_namespaces() if way == "proxy" else []))
    with heard(how), subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        wait_until(lambda: len(pids(family)) == len(NAMES))
        assert all(map(is_there, pids(family)))
        run.send_signal(how)
        run.wait(30)
        wait_until(lambda: not any(map(is_there, pids(family))))


def test_the_way_outside_is_closed_too(family: Path):
    """slirp4netns goes with the run that it was for."""
    require_program("slirp4netns", "slirp4netns")
    command = ours(family, network=True)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        wait_until(lambda: len(pids(family)) == len(NAMES))
        (slirp,) = [pid for pid in descendants(run.pid) if "slirp4netns" in name_of(pid)]
        run.kill()
        run.wait(30)
        wait_until(lambda: not is_there(slirp))


def descendants(pid: int) -> list[int]:
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*children, *(each for child in children for each in descendants(child))]


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()


def test_nothing_is_left_of_a_run_that_ends(family: Path):
    """Also of a daemon, and of one that does not listen to SIGTERM."""
    program = (sys.executable, str(family.with_name("family.py")), str(family))
    done = duenotice(None, "run", "--patience", "1s", "--scenario", "own-events", "--", *program, ASKS="once")
    assert done.code == 1, done
    assert len(pids(family)) == len(NAMES)
    assert not any(map(is_there, pids(family)))


@pytest.mark.parametrize(("code", "ended"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGSEGV)", -11)])
def test_how_the_program_ended_is_told(code: str, ended: int):
    """Its exit code, or the signal, as if it were ours alone."""
    program = [sys.executable, "-c", f"import os, signal, sys; {code}"]
    done = duenotice(None, "run", "--patience", "2s", "--scenario", "own-events", "-o", "json", "--", *program)
    assert f'"exit_code": {ended}' in done.out, done


def test_the_program_has_a_session_of_its_own_and_no_descriptors_of_ours(tmp_path: Path):
    """It sees no difference to being started by hand."""
    seen = tmp_path / "seen"
    code = f"""
import os
with open({str(seen)!r}, "w") as file:
    file.write(f"{{os.getsid(0) == os.getpid()}} {{sorted(os.listdir('/proc/self/fd'))}}")
"""
    duenotice(None, "run", "--patience", "1s", "--scenario", "own-events", "--", sys.executable, "-c", code)
    assert seen.read_text() == "True ['0', '1', '2', '3', '4']"  # the file itself, and the folder that is listed
