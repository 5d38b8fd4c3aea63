"""What systemd is told, and how often: a datagram for each state, if it asks for that."""

import socket
from pathlib import Path

import pytest

from duenotice.sd_notify import sd_notify, watchdog_seconds


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
