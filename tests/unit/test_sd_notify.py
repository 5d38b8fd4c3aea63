"""What systemd is told, and how often: a datagram for each state, if it asks for that."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from duenotice.system import sd_notify, watchdog_seconds


@pytest.mark.parametrize("abstract", [False, True])
def test_a_state_is_one_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    """On a path, or on an abstract name, which begins with @."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{path}" if abstract else path)
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{path}" if abstract else path)
        sd_notify("READY=1", "STATUS=waits")
        assert systemd.recv(100) == b"READY=1\nSTATUS=waits"


@pytest.mark.parametrize("address", ["", "relative", "/no/such/socket"])
def test_without_a_listener_nothing_happens(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """The agent also runs without systemd, and when systemd is gone."""
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert sd_notify("READY=1") is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(("text", "seconds"), [("30000000", 15.0), ("0", None), ("", None), ("soon", None)])
def test_the_watchdog_hears_of_us_twice_in_its_time(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float | None
) -> None:
    """Half of what it allows; None when there is no watchdog."""
    monkeypatch.setenv("WATCHDOG_USEC", text)
    assert watchdog_seconds() == seconds


GIVEN = """
import os, socket, sys
first, other = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
place = other.getsockname()
first.detach(), os.dup2(other.fileno(), 4), os.dup2(3, 3)
os.environ.update(LISTEN_PID=sys.argv[1] or str(os.getpid()), LISTEN_FDS="2")
from duenotice.bootstrap.ports import bound
other.detach()
try:
    found = bound(place)
    print(found.fileno(), found.getsockname() == place, found.get_inheritable())
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(("pid", "said"), [("", "4 True False"), ("1", "Unavailable")])
def test_a_socket_that_systemd_has_opened_is_taken_by_its_address(pid: str, said: str) -> None:
    """Those that were meant for another process are left alone, and the port is taken in the ordinary way."""
    done = subprocess.run([sys.executable, "-c", GIVEN, pid], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said
