"""The feed, for what is hard to provoke over HTTP: silence, slow readers, too many readers."""

import asyncio
import contextlib
import http.client
import time
from collections.abc import Iterator, MutableMapping

import pytest

from duenotice.operator_api import feed as module
from tests.support.node import SECONDS, Node

FLEET = """
[[vms]]
name = "db-0"
address = "127.0.1.10"
"""


@pytest.fixture
def node() -> Iterator[Node]:
    """A node of one's own."""
    with Node(FLEET) as running:
        yield running


@contextlib.contextmanager
def listen(node: Node, query: str = "") -> Iterator[http.client.HTTPResponse]:
    """The feed as it comes in."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", f"/v1/feed{query}", headers={"Authorization": f"Bearer {node.token}"})
        with connection.getresponse() as answer:
            yield answer


def test_a_silent_feed_still_says_that_it_is_there(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment, which no client takes for an event."""
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.05)
    with listen(node) as answer:
        lines = [answer.readline() for _ in range(7)]
    ready = [b"id: %d\n" % node.service._api.feed.position, b"retry: 2000\n", b"\n"]
    assert lines == [*ready, *[b": still here\n", b"\n"] * 2]


def test_a_reader_that_is_too_slow_is_let_go(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back with Last-Event-ID and misses nothing; we keep a bounded number of records for it."""
    monkeypatch.setattr(module, "QUEUE", 3)
    feed = node.service._api.feed
    with listen(node):
        (reader,) = feed.readers
        records = node.run(node.service.engine.history(0, 4))

        async def flood() -> None:
            reader.tell(records * 2)
            await asyncio.sleep(0.1)

        node.run(flood())
        assert reader.closed.is_set()
        assert feed.readers == set()


def test_a_reader_who_goes_is_forgotten(node: Node) -> None:
    """Nothing of it stays behind."""
    feed = node.service._api.feed
    with listen(node):
        assert len(feed.readers) == 1

    deadline = time.monotonic() + SECONDS
    while feed.readers and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not feed.readers


def test_too_many_readers_are_told_to_come_back(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with Retry-After."""
    monkeypatch.setattr(module, "MOST_READERS", 1)
    with listen(node), listen(node) as second:
        assert (second.status, second.headers["retry-after"]) == (503, "30")


def test_a_reader_from_another_journal_begins_now(node: Node) -> None:
    """A position that was never reached, after a backup was restored say, is no reason to keep silent."""
    with listen(node, "?after=1000000") as answer:
        node.operate("/v1/vms/db-0/restart")
        lines = [answer.readline() for _ in range(5)]
    assert lines[4].startswith(b"event: operation-performed")


def test_a_large_record_is_encoded_once_and_sent_in_pieces(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that readers who do not read cost a piece each, not a whole fleet each."""
    monkeypatch.setattr(module, "PIECE", 100)
    feed, sent = node.service._api.feed, list[bytes]()
    put = next(r for r in node.run(node.service.engine.history(0, 50)) if isinstance(r.transition, module.LARGE))

    async def keep(message: MutableMapping[str, object]) -> None:
        sent.append(bytes(message["body"]))  # type: ignore[call-overload]

    async def two_readers() -> bool:
        first, second = await asyncio.gather(feed.frame(put), feed.frame(put))
        await module.send_frame(keep, first)
        return first is second

    assert node.run(two_readers())
    assert (b"".join(sent).startswith(b"id: "), {len(piece) for piece in sent[:-1]}) == (True, {100})
