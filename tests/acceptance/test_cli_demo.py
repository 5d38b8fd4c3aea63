"""`duenotice demo` as a person sees it: on a terminal, from its first line to Ctrl-C."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cli import duenotice
from tests.support.terminal import Terminal

LISTEN = ("--metadata-listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", "--azure-listen", "127.0.0.1:0")


@contextmanager
def demo(folder: Path, clock: str = "60x") -> Iterator[Terminal]:
    """A demo with ports of its own, once its view is drawn."""
    with Terminal("demo", "--data-dir", str(folder), "--clock", clock, *LISTEN) as terminal:
        terminal.wait_for("Reboot of set/web")
        yield terminal


def told(shown: str) -> dict[str, str]:
    """What a person would copy into another terminal."""
    return dict(re.findall(r"export (DUENOTICE_\w+)=(\S+)", shown))


def test_a_maintenance_rolls_through_before_ones_eyes(tmp_path: Path) -> None:
    """One update domain after the other is told, hit and over; here in a fifth of the usual time."""
    with demo(tmp_path / "demo", "300x") as terminal:
        assert "duenotice serves 60 VMs, clock 300x" in terminal.shown
        terminal.wait_for("started")
        terminal.wait_for("web-0 web-5: Reboot is over")
        terminal.wait_for("web-1 web-6: told of a Reboot")


def test_the_lines_it_prints_can_be_copied(tmp_path: Path) -> None:
    """With the two exports every command works as it stands."""
    with demo(tmp_path / "demo") as terminal:
        given = told(terminal.shown)
        shown = duenotice(None, "maintenance", "show", "-o", "json", **given).json()
        assert (shown["type"], sum(shown["progress"].values())) == ("Reboot", 5)
        with Terminal("maintenance", "show", "--watch", **given) as other:
            other.wait_for("starts in")
            other.interrupt()
            assert other.end() == 130


def test_ctrl_c_ends_it_in_peace_and_the_next_run_goes_on(tmp_path: Path) -> None:
    """Exit code 0 and a friendly line; the same maintenance is under way in the next run."""
    plans = []
    for _ in range(2):
        with demo(tmp_path / "demo") as terminal:
            plans.append(duenotice(None, "maintenance", "list", "-o", "name", **told(terminal.shown)).out.split())
            terminal.interrupt()
            assert terminal.end() == 0
            assert "The demo has ended. The next one goes on from here." in terminal.shown
            assert "Traceback" not in terminal.shown
    assert plans[0] == plans[1] != []


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    """And what to do about it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = duenotice(None, "demo", "--data-dir", str(tmp_path), "--operator-listen", where, "--no-watch")
    assert done.code == 6
    assert f"error: Cannot listen on {where}: Address already in use.\n hint: " in done.err


def test_two_demos_in_one_folder_are_one_too_many(tmp_path: Path) -> None:
    """The second says who is there."""
    with demo(tmp_path / "demo"):
        done = duenotice(None, "demo", "--data-dir", str(tmp_path / "demo"), *LISTEN, "--no-watch")
    assert done.code == 4
    assert "is in use by process" in done.err
