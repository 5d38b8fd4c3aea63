"""What the service tells as time goes on: a feed over lost connections, events as its fold, and its clock."""

import socket
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import msgspec
import pytest

from duenotice.backoff import Backoff
from duenotice.cli.live import LOOK_AGAIN, Events, FeedReader, ServiceClock, fold, line_of
from duenotice.cli.session import connected
from duenotice.client import OperatorClient
from duenotice.client.operator import feed as module
from duenotice.client.operator.errors import Denied
from duenotice.errors import Unavailable
from duenotice.wire.operator import Clock
from tests.unit.cli.values import NOON, at, event, record

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
GONE = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
Serve = Callable[..., OperatorClient]


def frame(position: int) -> bytes:
    said = msgspec.structs.replace(record("x"), position=position)
    return b"id: %d\nevent: x\ndata: %b\n\n" % (position, msgspec.json.encode(said))


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Answers one connection after the other with the bytes given; what each asked is in `asked`."""
    server = socket.create_server(("127.0.0.1", 0))

    def run(answers: tuple[bytes, ...], asked: list[str]) -> None:
        for said in answers:
            with server.accept()[0] as line:
                asked.append(line.recv(65536).decode())
                line.sendall(said)

    def begin(*answers: bytes, asked: list[str]) -> OperatorClient:
        threading.Thread(target=run, args=(answers, asked), daemon=True).start()
        return connected(f"http://127.0.0.1:{server.getsockname()[1]}", "t", 5.0)

    yield begin
    server.close()


def heard(feed: FeedReader, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        found += [came.position for came in feed.next(5.0)]
    return found


def test_what_is_lost_is_found_again_where_it_was_lost(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Last-Event-ID, also when nothing but the position had come; and it is said once, not at each attempt."""
    monkeypatch.setattr(module, "AGAIN", Backoff(0.01, 0.01))
    asked: list[str] = []
    said: list[str] = []
    client = serve(HEAD + b"id: 4\nretry: 1\n\n", b"", HEAD + frame(5) + frame(6), HEAD + frame(7), asked=asked)
    with FeedReader(client, said.append) as feed:
        assert heard(feed, 3) == [5, 6, 7]
    assert ["Last-Event-ID: 4" in asked[1], "Last-Event-ID: 4" in asked[2], "Last-Event-ID: 6" in asked[3]] == [
        True
    ] * 3
    assert said[:3] == ["connection lost, trying again", "connected again", "connection lost, trying again"]


def test_who_is_no_longer_let_in_is_told(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A revoked token is no lost connection."""
    monkeypatch.setattr(module, "AGAIN", Backoff(0.01, 0.01))
    with FeedReader(serve(HEAD + frame(1), GONE, asked=[]), lambda text: None) as feed, pytest.raises(Denied):
        assert heard(feed, 2) == []


def test_what_cannot_be_reached_at_all_is_told_at_once() -> None:
    """Only a connection that there was can be lost."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(Unavailable), FeedReader(connected(f"http://127.0.0.1:{port}", "t", 5.0), lambda text: None):
        pass


SCHEDULED = event()
STARTED = event(phase="started")


def test_an_event_that_is_raised_and_starts_is_told_each_time() -> None:
    events: Events = {}
    assert fold(events, record("event-raised", SCHEDULED.id, event=SCHEDULED)) == SCHEDULED
    assert fold(events, record("event-started", SCHEDULED.id, event=STARTED)) == STARTED
    assert events == {SCHEDULED.id: STARTED}


@pytest.mark.parametrize("outcome", ["completed", "cancelled", "failed"])
def test_one_that_is_over_is_told_with_how_it_ended(outcome: str) -> None:
    events = {STARTED.id: STARTED}
    assert fold(events, record(f"event-{outcome}", STARTED.id)) == event(phase=outcome)
    assert events == {}


def test_an_approval_is_told_with_who_gave_it() -> None:
    events = {SCHEDULED.id: SCHEDULED}
    assert fold(events, record("event-approved", SCHEDULED.id, by="web-0")) == event(approved_by="web-0")


def test_what_we_know_already_is_not_told_again() -> None:
    """The feed is opened before the first look, so its first records may be older than that."""
    events = {STARTED.id: STARTED}
    assert fold(events, record("event-raised", STARTED.id, event=SCHEDULED)) is None
    assert fold(events, record("event-started", STARTED.id, event=STARTED)) is None
    assert events == {STARTED.id: STARTED}


@pytest.mark.parametrize("action", ["event-completed", "event-approved", "vms-put"])
def test_what_concerns_no_event_of_ours_is_not_told(action: str) -> None:
    events: Events = {}
    assert fold(events, record(action, "A", by="web-0")) is None
    assert events == {}


class Bench:
    """A service's clock that runs at a speed, and the steady time of this machine; both as we say."""

    def __init__(self, speed: float) -> None:
        self.steady, self.speed, self.ahead, self.looks = 0.0, speed, 0.0, 0
        self.clock = ServiceClock(self.look, lambda: self.steady)

    def look(self) -> Clock:
        self.looks += 1
        seconds = int(self.steady * self.speed + self.ahead)
        return Clock(clock="a clock", now=NOON + timedelta(seconds=seconds), speed=self.speed)


@pytest.mark.parametrize(("speed", "shown"), [(1, at(12, 0, 3)), (60, at(12, 3))])
def test_it_counts_on_at_the_speed_of_the_service(speed: float, shown: datetime) -> None:
    """Without asking again."""
    bench = Bench(speed)
    bench.clock.now()
    bench.steady = 3.0
    assert (bench.clock.now(), bench.looks) == (shown, 1)


def test_a_countdown_never_jumps_back_for_a_second_more_or_less() -> None:
    """The service tells whole seconds only."""
    bench = Bench(1)
    seen = []
    for step in range(100):
        bench.steady = step * 0.25
        seen.append(bench.clock.now())
    assert seen == sorted(seen)
    assert bench.looks > 2


def test_hands_that_were_set_are_followed() -> None:
    bench = Bench(1)
    bench.clock.now()
    bench.steady, bench.ahead = LOOK_AGAIN, 600.0
    assert bench.clock.now() == at(12, 10, 5)


def test_another_speed_is_followed() -> None:
    bench = Bench(1)
    bench.clock.now()
    bench.steady, bench.speed = LOOK_AGAIN, 10.0
    bench.clock.now()
    bench.steady += 1
    assert bench.clock.now() == at(12, 1)


def test_time_that_stands_still_is_looked_at_each_time() -> None:
    """It passes only when somebody says so, and nobody tells us."""
    bench = Bench(0)
    assert [bench.clock.now(), bench.clock.now()] == [NOON, NOON]
    bench.ahead = 900.0
    assert bench.clock.now() == at(12, 15)


def test_the_line_of_an_event_that_has_started_shows_no_not_before() -> None:
    """What it said before no longer counts."""
    assert line_of(event(phase="started")).split()[3] == "-"
    assert line_of(event()).split()[3] == "2026-01-01T12:15:00Z"
