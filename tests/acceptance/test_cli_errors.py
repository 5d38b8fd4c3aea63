"""When a command cannot do what it should: the exit code, one line of what happened and one of what to do."""

import socket
import threading
from pathlib import Path

import pytest

from tests.support.cli import duenotice, endpoint
from tests.support.node import Node


def told(err: str) -> tuple[str, str]:
    what, hint = err.splitlines()
    return what.removeprefix("error: "), hint.removeprefix(" hint: ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("vm", "restart", "nix"), 3),
        (("events", "show", "nix"), 3),
        (("events", "approve", "nix"), 3),
        (("maintenance", "show", "nix"), 3),
        (("maintenance", "start", "--on", "set=nix", "--type", "Reboot"), 3),
        (("host", "fail", "nix", "--yes"), 3),
        (("vm", "evict", "web-0", "--yes"), 4),
        (("events", "schedule", "web-0", "web-1", "--type", "Reboot"), 4),
        (("maintenance", "start", "--on", "web", "--type", "Reboot"), 2),
        (("clock", "advance", "soon"), 2),
    ],
)
def test_a_refusal_has_its_code_and_two_lines(shared: Node, arguments: tuple[str, ...], code: int) -> None:
    """What the service says reaches the person."""
    done = duenotice(shared, *arguments)
    assert (done.code, done.out) == (code, ""), done
    assert all(told(done.err)), done


def test_a_wrong_token_is_5(shared: Node) -> None:
    """And one knows where to find the right one."""
    done = duenotice(shared, "events", "list", DUENOTICE_TOKEN="dn_nix")
    assert (done.code, told(done.err)[0]) == (5, "The service does not know this token.")
    assert "admin.token" in told(done.err)[1]


def test_the_token_may_come_from_a_file(shared: Node, tmp_path: Path) -> None:
    """DUENOTICE_TOKEN_FILE; one that is not there is 5 as well."""
    file = tmp_path / "t"
    file.write_text(shared.token + "\n")
    given = {"DUENOTICE_ENDPOINT": endpoint(shared), "DUENOTICE_TOKEN_FILE": str(file)}
    assert duenotice(None, "events", "list", "-o", "json", **given).json() == []
    assert duenotice(None, "events", "list", **given | {"DUENOTICE_TOKEN_FILE": "/nowhere"}).code == 5


def test_no_server_is_6() -> None:
    """Nobody answers there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = duenotice(None, "events", "list", "--endpoint", f"127.0.0.1:{port}", DUENOTICE_TOKEN="x")
    assert (done.code, told(done.err)[0]) == (
        6,
        f"Cannot reach duenotice at http://127.0.0.1:{port}: Connection refused.",
    )


def test_a_silent_server_is_7() -> None:
    """It listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"127.0.0.1:{server.getsockname()[1]}"
        done = duenotice(None, "events", "list", "--endpoint", where, "--request-timeout", "0.2", DUENOTICE_TOKEN="x")
    assert done.code == 7


@pytest.mark.parametrize("endpoint", ["ftp://x", "http://", "http://x:nix"])
def test_an_endpoint_that_is_none_is_2(endpoint: str) -> None:
    """Before anything is sent."""
    assert duenotice(None, "events", "list", "--endpoint", endpoint, DUENOTICE_TOKEN="x").code == 2


@pytest.mark.parametrize("token", ["gr\u00fcn", "two\nlines"])
def test_a_token_that_cannot_be_one_is_5(shared: Node, token: str) -> None:
    """A wrong file, say; it is not sent."""
    assert duenotice(shared, "events", "list", DUENOTICE_TOKEN=token).code == 5


def test_an_answer_that_makes_no_sense_is_told_without_a_traceback() -> None:
    """Somebody else answers at that port."""
    said = b'HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n["no"]'
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer_one, args=(server, said), daemon=True).start()
        where = f"127.0.0.1:{server.getsockname()[1]}"
        done = duenotice(None, "clock", "show", "-o", "name", "--endpoint", where, DUENOTICE_TOKEN="x")
    assert (done.code, told(done.err)[0].partition(":")[0]) == (1, "Cannot make sense of an answer")


def _answer_one(server: socket.socket, said: bytes) -> None:
    with server.accept()[0] as line:
        line.recv(65536)
        line.sendall(said)


def test_flags_have_environment_twins(shared: Node) -> None:
    """DUENOTICE_OUTPUT for all commands, DUENOTICE_NOUN_VERB_FLAG for one."""
    assert duenotice(shared, "clock", "show", DUENOTICE_OUTPUT="json").json()["clock"] == "manual"
    done = duenotice(shared, "events", "list", DUENOTICE_EVENTS_LIST_VM="web-0", DUENOTICE_OUTPUT="json")
    assert done.json() == []
