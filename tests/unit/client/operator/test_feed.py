"""The live feed: what is shown, and how it goes on after a loss."""

from typing import Any

import pytest

from duenotice.client.operator.errors import NotReached, UnknownToken
from duenotice.client.operator.feed import SILENCE_SECONDS, FeedFlow, FeedFrame, Frames
from duenotice.client.operator.request import OperatorRequest, get
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.http.flow import ConnectionClosed
from duenotice.http.http1 import Response
from duenotice.wire.operator import Health
from tests.unit.client.operator.operator_stage import Enough, OperatorStage, Service


def frame(position: int, status: str = "") -> bytes:
    data = b'event: x\ndata: {"status":"%b"}\n' % status.encode() if status else b"retry: 2000\n"
    return b"id: %d\n%b\n" % (position, data)


OPENED = frame(4)


def feed(stage: OperatorStage, **more: Any) -> FeedFlow[Health]:
    return FeedFlow(get(Health, "feed"), stage.settings(), **more)


def in_turn(*answers: Response | Exception | list[bytes | Exception]) -> Service:
    """One answer after the other; the last stays."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_frames_are_the_same_wherever_they_are_cut() -> None:
    """Also byte by byte; what has no id is a sign of life."""
    whole = OPENED + b": still here\n\n" + frame(5, "a") + b"id: 6\r\ndata: b\r\n\r\n" + b"data: no id\n\n"
    expected = [FeedFrame(4, b""), FeedFrame(5, b'{"status":"a"}'), FeedFrame(6, b"b")]
    assert list(Frames().feed(whole)) == expected
    frames = Frames()
    assert [found for byte in whole for found in frames.feed(bytes([byte]))] == expected


@pytest.mark.parametrize("position", [b"", b"x", b"-1", b"1\r\nX: y"])
def test_a_position_is_a_number_or_it_is_none(position: bytes) -> None:
    """It is sent back in a header."""
    assert [found.data for found in Frames().feed(b"id: %b\ndata: x\n\n" % position)] in ([], [b"x"])
    assert all(isinstance(found.position, int) for found in Frames().feed(b"id: %b\ndata: x\n\n" % position))


def test_it_says_when_it_is_open_and_then_shows_each_record() -> None:
    stage = OperatorStage(in_turn([OPENED, frame(5, "a") + frame(6, "b")]))
    flow = feed(stage)
    with pytest.raises(Enough):
        stage.play(flow.run(), most=3)
    assert stage.shown == [None, Health("a"), Health("b")]
    assert flow.position == 6


def test_a_lost_connection_is_tried_again_from_the_position_it_had() -> None:
    """And told once, however many tries it takes."""
    told: list[str] = []
    stage = OperatorStage(
        in_turn(
            [OPENED, frame(5, "a"), ConnectionClosed()],
            ConnectionRefusedError(),
            ConnectionRefusedError(),
            [frame(6, "b")],
        )
    )
    flow = feed(stage, on_lost=lambda error: told.append(type(error).__name__), on_found=lambda: told.append("found"))
    with pytest.raises(Enough):
        stage.play(flow.run(), most=3)
    assert stage.shown == [None, Health("a"), Health("b")]
    assert stage.headers("Last-Event-ID") == ["", "5", "5", "5"]
    assert told == ["NotReached", "found"]
    assert stage.times == [0.0, 0.25, 0.75, 1.75]


def test_pauses_grow_and_begin_anew_once_something_has_come() -> None:
    stage = OperatorStage(in_turn([OPENED], *[ConnectionClosed()] * 8, [frame(9), frame(10, "a")], ConnectionClosed()))
    flow = feed(stage)
    with pytest.raises(Enough):
        stage.play(flow.run(), seconds=70)
    pauses = [round(later - sooner, 6) for sooner, later in zip(stage.times, stage.times[1:], strict=False)]
    assert pauses[:9] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0]
    assert pauses[9:12] == [0.25, 0.5, 1.0]


def test_one_that_is_ended_at_once_again_and_again_is_not_tried_ever_faster() -> None:
    stage = OperatorStage(in_turn([OPENED]))
    with pytest.raises(Enough):
        stage.play(feed(stage).run(), seconds=8)
    assert stage.times == [0.0, 0.25, 0.75, 1.75, 3.75, 7.75]


def test_silence_is_a_loss() -> None:
    """The service sends a sign of life every 15 seconds."""
    told: list[DuenoticeError] = []
    stage = OperatorStage(in_turn([OPENED, TimeoutError()], ConnectionClosed()))
    with pytest.raises(Enough):
        stage.play(feed(stage, on_lost=told.append).run(), seconds=SILENCE_SECONDS + 1)
    assert [error.message for error in told] == ["http://h did not answer in 40 s."]


def test_an_end_by_the_service_is_a_loss_too() -> None:
    told: list[DuenoticeError] = []
    stage = OperatorStage(in_turn([OPENED], ConnectionClosed()))
    with pytest.raises(Enough):
        stage.play(feed(stage, on_lost=told.append).run(), seconds=1)
    assert [error.message for error in told] == ["The service ended the feed."]


def test_the_first_connection_has_to_succeed() -> None:
    """Tried as patiently as any other call."""
    stage = OperatorStage(in_turn(ConnectionRefusedError()))
    with pytest.raises(NotReached):
        stage.play(feed(stage).run())
    assert stage.times == [0.0, 0.2, 0.6, 1.4, 3.0, 5.0, 7.0, 9.0]


@pytest.mark.parametrize("answers", [[], [[OPENED]]], ids=["at once", "later"])
def test_a_refusal_ends_it(answers: list[Any]) -> None:
    """A token may be revoked; its hint is that of the service."""
    refusal = Response(401, {}, b'{"title":"This needs a token.","hint":"Send one."}')
    stage = OperatorStage(in_turn(*answers, refusal))
    with pytest.raises(UnknownToken, match="This needs a token") as caught:
        stage.play(feed(stage).run())
    assert caught.value.hint == "Send one."


def test_too_many_readers_are_asked_to_come_later() -> None:
    """At first as any call; later it is tried until it works."""
    full = Response(503, {"retry-after": "30"}, b"{}")
    stage = OperatorStage(in_turn(full))
    with pytest.raises(Unavailable):
        stage.play(feed(stage).run())
    assert stage.times == [0.0]
    stage = OperatorStage(in_turn([OPENED], full, full, [frame(5, "a")]))
    with pytest.raises(Enough):
        stage.play(feed(stage).run(), most=2)
    assert stage.shown == [None, Health("a")]


def test_whoever_wants_to_can_give_up() -> None:
    """What `on_lost` raises ends it."""

    def give_up(error: DuenoticeError) -> None:
        raise error

    stage = OperatorStage(in_turn([OPENED]))
    with pytest.raises(Unavailable, match="ended the feed"):
        stage.play(feed(stage, on_lost=give_up).run())


def test_it_begins_where_it_is_told_to() -> None:
    request: OperatorRequest[Health] = get(Health, "feed", after=7)
    stage = OperatorStage(in_turn([OPENED]))
    with pytest.raises(Enough):
        stage.play(FeedFlow(request, stage.settings()).run(), most=1)
    assert stage.sent[0][1].path == "/v1/feed?after=7"
