"""`duenotice serve` as a person starts it: what it prints, and what it says when it cannot start."""

import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from duenotice.settings import listen_hint
from tests.support.cli import duenotice
from tests.support.node import Node

ANYWHERE = ("--metadata-listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0")


def served(*arguments: str, **environment: str) -> tuple[int, str, str]:
    """Start it, stop it when it has said where it listens; the exit code and both outputs."""
    command = [sys.executable, "-m", "duenotice", "serve", *ANYWHERE, *arguments]
    env = os.environ | environment
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    return process.returncode, said + out, err


@pytest.mark.parametrize(("log_format", "is_silent"), [("none", True), ("json", False), ("console", False)])
def test_every_log_format_serves_and_none_logs_nothing(tmp_path: Path, log_format: str, is_silent: bool) -> None:
    """Where it listens is printed all the same: that is not a log. systemd hears when it is ready, lives and stops."""
    arguments = ("--data-dir", str(tmp_path), "--default-vm", "me", "--log-format", log_format)
    notify = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(notify))
        code, out, err = served(*arguments, NOTIFY_SOCKET=str(notify), WATCHDOG_USEC="20000000")
        systemd.settimeout(0)
        heard = [systemd.recv(100) for _ in range(3)]
    assert (code, out.splitlines()[0], err == "") == (0, "duenotice serves 1 VM", is_silent), err
    assert (set(heard), heard[-1]) == ({b"READY=1", b"WATCHDOG=1", b"STOPPING=1"}, b"STOPPING=1")


@pytest.fixture
def taken() -> Iterator[str]:
    """A port that somebody else has."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield f"127.0.0.1:{other.getsockname()[1]}"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("which", ["--metadata-listen", "--operator-listen"])
@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_port_that_is_taken_is_found_before_anything_is_written(
    tmp_path: Path, taken: str, command: str, which: str
) -> None:
    """No data directory is left behind, and one that is there is not touched."""
    folder = tmp_path / "data"
    arguments = [command, *ANYWHERE, which, taken, "--data-dir", str(folder)]
    arguments += ["--watch"] if command == "demo" else ["--default-vm", "me"]
    done = duenotice(None, *arguments)
    assert (done.code, folder.exists()) == (6, False), done
    assert done.err == (
        f"error: Cannot listen on {taken}: Address already in use.\n"
        " hint: Is another duenotice running there? Stop it, or choose another HOST:PORT.\n"
    )
    with Node('[[vms]]\nname = "me"\naddress = "127.0.0.1"\n', data_dir=str(folder)):
        pass
    before = contents(folder)
    assert duenotice(None, *arguments).code == 6
    assert contents(folder) == before


def test_a_start_that_fails_later_gives_its_ports_back(tmp_path: Path) -> None:
    """In one process: the next one may have them."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (tmp_path / "journal.db").write_bytes(b"this is not a database" * 100)
    listen = f"127.0.0.1:{port}"
    with pytest.raises(Exception, match=r"journal\.db"), Node(data_dir=str(tmp_path), metadata_listen=listen):
        pass
    with Node(metadata_listen=listen) as node:
        assert node.metadata_address == ("127.0.0.1", port)


def test_an_address_that_this_machine_does_not_have_is_told_with_the_way_to_get_it(tmp_path: Path) -> None:
    """For example the address that clients know."""
    done = duenotice(None, "serve", "--data-dir", str(tmp_path / "data"), "--metadata-listen", "192.0.2.1:16925")
    assert done.err == (
        "error: Cannot listen on 192.0.2.1:16925: Cannot assign requested address.\n"
        " hint: This machine does not have that address. Give it one with 'ip addr add 192.0.2.1/32 dev lo', as root.\n"
    )


@pytest.mark.parametrize(
    ("address", "number", "words"),
    [
        (("169.254.169.254", 80), errno.EADDRNOTAVAIL, "'ip addr add 169.254.169.254/32 dev lo'"),
        (("fd00::1", 80), errno.EADDRNOTAVAIL, "'ip -6 addr add fd00::1/128 dev lo'"),
        (("127.0.0.1", 80), errno.EACCES, "CAP_NET_BIND_SERVICE"),
        (("127.0.0.1", 80), errno.EACCES, f"'setcap cap_net_bind_service=+ep {Path(sys.executable).resolve()}'"),
        (("127.0.0.1", 16925), errno.EADDRINUSE, "Is another duenotice running there?"),
        (
            ("169.254.169.254", 80),
            errno.EADDRINUSE,
            "Another metadata service has it; 'ss -ltnp sport = :80' shows which.",
        ),
        (("nowhere.invalid", 80), None, "Name an address of this machine"),
    ],
)
def test_what_to_do_about_a_port_that_cannot_be_had(address: tuple[str, int], number: int | None, words: str) -> None:
    """One line that can be copied."""
    error = OSError(number, os.strerror(number)) if number else socket.gaierror(-2, "Name or service not known")
    assert words in listen_hint(address, error)
