"""The watch: every change, no hammering, and waiting only where the service truly waits (D06)."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from duenotice.client import MetadataError, Rejected, ServerFailed, Throttled
from duenotice.client.watch import OnError, Watch
from tests.unit.client.stage import Enough, Request, Stage, answer, numbered

EVENT = {"EventId": "A", "EventStatus": "Scheduled", "EventType": "Freeze", "Resources": ["web-0"]}
NOT_MODIFIED = b"HTTP/1.1 304 Not Modified\r\n\r\n"


@dataclass
class World:
    """A service whose document changes at given moments; it may know entity tags, and it may wait."""

    changes: list[tuple[float, dict[str, Any]]]
    tags: bool = True
    waits: bool = False
    latency: float = 0.01
    late: float = 0.0
    stage: Stage = field(init=False)

    def __post_init__(self) -> None:
        self.changes = [(1000 + at, content) for at, content in self.changes]
        self.stage = Stage(self.serve)

    def at(self, moment: float) -> dict[str, Any]:
        return [content for at, content in self.changes if at <= moment][-1]

    def serve(self, request: Request) -> tuple[float, bytes]:
        document = self.at(request.at)
        if not request.tag or request.tag != self.tag(document):
            return self.latency, self.shown(document)
        if not (self.waits and request.waits):
            return self.latency, NOT_MODIFIED
        until = request.at + 10 + self.late
        news = [(at, content) for at, content in self.changes if request.at < at < until]
        if news:
            return news[0][0] - request.at, self.shown(news[0][1])
        return until - request.at, NOT_MODIFIED

    def tag(self, document: dict[str, Any]) -> str:
        return f'"{document["DocumentIncarnation"]}"' if self.tags else ""

    def shown(self, document: dict[str, Any]) -> bytes:
        return answer(200, document, *([f"ETag: {self.tag(document)}"] if self.tags else []))

    def watch(self, seconds: float, on_error: OnError | None = None) -> list[tuple[float, int]]:
        """What was shown, and when; each is an incarnation."""
        with pytest.raises(Enough):
            self.stage.play(Watch(self.stage.flows(), on_error).run(), seconds)
        return [(round(at - 1000, 2), document.incarnation) for at, document in self.stage.shown]

    def gaps(self) -> list[float]:
        moments = [request.at for request in self.stage.requests]
        return [round(later - earlier, 2) for earlier, later in pairwise(moments)]


def test_the_first_document_is_shown_and_then_only_changes() -> None:
    world = World([(0, numbered(1)), (5.5, numbered(2, EVENT)), (8.5, numbered(3))])
    assert world.watch(20) == [(0.01, 1), (6.01, 2), (9.01, 3)]


@pytest.mark.parametrize("tags", [True, False])
def test_a_service_that_does_not_wait_is_polled_once_a_second_and_never_more(tags: bool) -> None:
    """Azure's: it ignores the unknown parameter. Only one poll a minute asks whether that has changed."""
    world = World([(0, numbered(1))], tags=tags)
    world.watch(300)
    assert set(world.gaps()) == {1.0}
    assert len([request for request in world.stage.requests if request.waits]) == (5 if tags else 0)


def test_a_service_that_does_not_wait_is_read_plainly() -> None:
    """An entity tag that came back with other content would hide the change."""
    world = World([(0, numbered(5)), (3.5, numbered(5, EVENT)), (6.5, numbered(4)), (7.5, numbered(5))])
    assert world.watch(20) == [(0.01, 5), (4.01, 5), (7.01, 4), (8.01, 5)]


def test_a_service_that_waits_is_asked_once_in_ten_seconds() -> None:
    world = World([(0, numbered(1))], waits=True)
    world.watch(300)
    assert world.gaps()[0] == 1.0
    assert set(world.gaps()[1:]) == {10.0}


def test_a_service_that_waits_tells_at_once() -> None:
    """Also of changes that follow each other closely."""
    world = World([(0, numbered(1)), (15, numbered(2)), (15.2, numbered(3)), (15.3, numbered(4))], waits=True)
    assert world.watch(30) == [(0.01, 1), (15.0, 2), (15.2, 3), (15.3, 4)]


@pytest.mark.parametrize("waits", [True, False])
def test_documents_that_change_all_the_time_do_not_make_it_hammer(waits: bool) -> None:
    """The service allows five a second (A08)."""
    changes = [(0.0, numbered(1)), *((20 + number / 100, numbered(number)) for number in range(2, 2000))]
    world = World(changes, waits=waits)
    world.watch(40)
    assert min(world.gaps()[5:]) >= (0.25 if waits else 1.0)


def test_a_service_that_no_longer_waits_is_polled_again() -> None:
    """304 before its time is no waiting."""
    world = World([(0, numbered(1))], waits=True)
    waiting = world.serve
    world.stage.service = lambda request: (
        (0.01, NOT_MODIFIED) if request.at > 1030 and request.tag else waiting(request)
    )
    world.watch(80)
    assert world.gaps() == [1.0, 10.0, 10.0, 10.0, *[1.0] * 48]


def test_a_slow_service_is_not_taken_for_one_that_waits() -> None:
    world = World([(0, numbered(1))], latency=2.0)
    world.watch(60)
    assert len([request for request in world.stage.requests if request.waits]) == 1


def test_the_same_document_again_however_late_is_no_proof_that_the_service_waits() -> None:
    """Only a 304 is: it says that the service has compared (D06)."""
    whole = answer(200, numbered(1), 'ETag: "1"')
    stage = Stage(lambda request: (9.7 if request.waits else 0.01, whole))
    with pytest.raises(Enough):
        stage.play(Watch(stage.flows()).run(), 60)
    assert len([request for request in stage.requests if request.waits]) == 1


@pytest.mark.parametrize("tag", ["", "1", '"a\tb"', '"' + "x" * 200 + '"', '"\xff"'])
def test_an_odd_tag_is_not_sent_back(tag: str) -> None:
    stage = Stage(lambda _: (0.0, answer(200, numbered(1), f"ETag: {tag}")))
    with pytest.raises(Enough):
        stage.play(Watch(stage.flows()).run(), 5)
    assert [request.tag for request in stage.requests] == [""] * len(stage.requests)


def test_a_failed_poll_is_retried_as_for_a_document_and_then_raised() -> None:
    world = World([(0, numbered(1))])
    failing = Stage(lambda request: (0.0, answer(500)) if request.at > 1003 else world.serve(request))
    with pytest.raises(ServerFailed):
        failing.play(Watch(failing.flows()).run())
    assert failing.now - 1003 < 15


def test_what_cannot_pass_is_raised_at_once() -> None:
    stage = Stage(lambda _: (0.0, answer(400)))
    with pytest.raises(Rejected):
        stage.play(Watch(stage.flows()).run())
    assert len(stage.requests) == 1


def test_with_on_error_the_watch_goes_on_and_misses_nothing() -> None:
    """A service away for half a minute: two errors, and then the change that happened meanwhile (H06)."""
    world = World([(0, numbered(1)), (20, numbered(2, EVENT))])
    away = world.serve
    world.stage.service = lambda request: (0.0, b"") if 1005 < request.at < 1035 else away(request)
    errors: list[MetadataError] = []
    shown = world.watch(60, errors.append)
    assert [incarnation for _, incarnation in shown] == [1, 2]
    assert shown[1][0] < 37
    assert 2 <= len(errors) <= 3
    assert min(world.gaps()) >= 0.2


def test_after_an_error_the_next_polls_are_plain_for_another_service_may_answer() -> None:
    """Its tags are others: with the old one it could take its own document for ours and hide it (H06)."""
    world = World([(0, numbered(1))], waits=True)
    first = world.serve
    other = World([(0, numbered(1, EVENT))], waits=True)
    world.stage.service = lambda request: (
        first(request) if request.at < 1020 else (0.0, b"") if request.at < 1022 else other.serve(request)
    )
    shown = world.watch(60)
    after = [request for request in world.stage.requests if request.at >= 1022]
    assert [(request.tag, request.waits) for request in after[:2]] == [("", False)] * 2
    assert len(shown) == 2


def test_a_wait_that_the_service_asks_for_is_kept_but_not_for_longer_than_a_notice_allows() -> None:
    stage = Stage(lambda _: (0.0, answer(429, b"", "Retry-After: 3600")))
    errors: list[MetadataError] = []
    with pytest.raises(Enough):
        stage.play(Watch(stage.flows(), errors.append).run(), 60)
    assert {type(error) for error in errors} == {Throttled}
    assert [request.at - 1000 for request in stage.requests] == [0, 10, 20, 30, 40, 50]


def test_a_service_that_dies_in_the_middle_of_a_wait_is_noticed_within_the_notice() -> None:
    """No RST, no FIN: the answer just never comes. The next document is there with time to spare."""
    world = World([(0, numbered(1)), (14, numbered(2, EVENT))], waits=True)
    alive = world.serve
    world.stage.service = lambda request: (999.0, b"") if 1010 < request.at < 1012 else alive(request)
    shown = world.watch(60)
    assert shown[1][1] == 2
    assert shown[1][0] - 14 < 15
