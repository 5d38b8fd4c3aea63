"""The feed over connections that are lost: a server of this file's own says what it likes."""

import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from duenotice.cli import feed as module
from duenotice.cli.api import Api
from duenotice.cli.errors import Denied
from duenotice.cli.feed import Feed, frames
from duenotice.errors import Unavailable

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
GONE = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
Serve = Callable[..., Api]


def frame(position: int) -> bytes:
    return b"id: %d\nevent: x\ndata: %b\n\n" % (position, json.dumps({"position": position}).encode())


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Answers one connection after the other with the bytes given; what each asked is in `asked`."""
    server = socket.create_server(("127.0.0.1", 0))

    def run(answers: tuple[bytes, ...], asked: list[str]) -> None:
        for said in answers:
            with server.accept()[0] as line:
                asked.append(line.recv(65536).decode())
                line.sendall(said)

    def begin(*answers: bytes, asked: list[str]) -> Api:
        threading.Thread(target=run, args=(answers, asked), daemon=True).start()
        return Api(f"http://127.0.0.1:{server.getsockname()[1]}", "t", 5.0)

    yield begin
    server.close()


def heard(feed: Feed, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        found += [record["position"] for record in feed.next(5.0)]
    return found


def test_what_is_lost_is_found_again_where_it_was_lost(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Last-Event-ID, also when nothing but the position had come; and it is said once, not at each attempt."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    asked: list[str] = []
    said: list[str] = []
    api = serve(HEAD + b"id: 4\nretry: 1\n\n", b"", HEAD + frame(5) + frame(6), HEAD + frame(7), asked=asked)
    with Feed(api, said.append) as feed:
        assert heard(feed, 3) == [5, 6, 7]
    assert ["Last-Event-ID: 4" in asked[1], "Last-Event-ID: 4" in asked[2], "Last-Event-ID: 6" in asked[3]] == [
        True
    ] * 3
    assert said[:3] == ["connection lost, trying again", "connected again", "connection lost, trying again"]


def test_who_is_no_longer_let_in_is_told(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A revoked token is no lost connection."""
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    with Feed(serve(HEAD + frame(1), GONE, asked=[]), lambda text: None) as feed, pytest.raises(Denied):
        assert heard(feed, 2) == []


def test_what_cannot_be_reached_at_all_is_told_at_once() -> None:
    """Only a connection that there was can be lost."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unavailable), Feed(Api(f"http://127.0.0.1:{port}", "t", 5.0), lambda text: None):
        pass


def test_frames_are_told_from_comments() -> None:
    """An id without data is a position; a comment is nothing."""
    lines = [
        b"id: 4\n",
        b"retry: 1\n",
        b"\n",
        b": still here\n",
        b"\n",
        b"id: 5\r\n",
        b"data: {}\r\n",
        b"\r\n",
        b"id: 6\n",
    ]
    assert list(frames(lines)) == [("4", b""), ("5", b"{}")]
