"""What a connection does about everything that can happen, in each of its states."""

import asyncio
import re
from collections.abc import Callable, Coroutine

import pytest

from duenotice.clock import ManualClock
from duenotice.engine.publisher import Publisher
from duenotice.metadata_api.connection import (
    ANSWERING,
    ANSWERING_BLOCKED,
    BLOCKED,
    HELD,
    HELD_BLOCKED,
    IDLE,
    LAST,
    LEAST_REST,
    LEAST_WEIGHT,
    MAX_REST,
    MAX_WAITING_BYTES,
    MAX_WEIGHT,
    MOST_UNSENT,
    READING,
    REQUESTS_PER_TURN,
    TRANSITIONS,
    Handlers,
    State,
)
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.sessions import Bucket, Rate
from tests.support.far_end import FarEnds
from tests.unit.domain.build import listening
from tests.unit.engine.rig import in_loop

HEAD = b"Host: x\r\nMetadata: true\r\n"
POLL = b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n%b\r\n" % HEAD
WAIT = b'GET /metadata/scheduledevents?api-version=2020-07-01&wait=30s HTTP/1.1\r\nIf-None-Match: "0"\r\n%b\r\n' % HEAD
BODY = b'{"StartRequests":[{"EventId":"602D9444-D2CD-49C7-8624-8643E7171297"}]}'
APPROVAL = b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n%b" % (
    HEAD,
    len(BODY),
    BODY,
)
BEGUN = 20
"""Bytes of a request that has not come whole."""


class Stage:
    """One connection of the VM `alone`, whose approvals are stored when we say so."""

    def __init__(self) -> None:
        world = listening("alone")
        publisher = Publisher(asyncio.get_running_loop().call_soon)
        publisher.open(world, 0)
        self.stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.context = ServerContext(self._submit, publisher, ManualClock(), MetadataOptions(throttle=0), asyncio.sleep)
        self.ends = FarEnds(self.context)
        self.connection, self.wire = self.ends.connect(world.fleet.vms["alone"].address)

    async def _submit(self, command: object, actor: str) -> None:
        await self.stored

    def send(self, data: bytes) -> None:
        """It is read, whether or not the connection wants that."""
        self.connection.received(data)

    def block(self) -> None:
        """The client does not read: more waits for it than may."""
        self.ends.block(self.connection, self.wire, MOST_UNSENT + 1)

    def unblock(self) -> None:
        self.ends.unblock(self.connection, self.wire)

    async def store(self) -> None:
        self.stored.set_result(None)
        for _ in range(4):
            await asyncio.sleep(0)

    def begin(self, start: str) -> None:
        """Bring it to a state, and forget what was sent on the way."""
        for step in STARTS[start]:
            step(self)
        self.wire.sent.clear()
        self.wire.ends.clear()

    def seen(self) -> str:
        """What came of it: statuses sent, how it was ended, the deadline, whether it is read from, whether it waits."""
        time, deadline = self.context.time, self.connection.deadline
        until = {time.request_until: "soon", time.idle_until: "idle", time.linger_until: "linger"}
        written = b"".join(self.wire.sent) + bytes(self.connection.unsent)
        said = [status.decode() for status in re.findall(rb"HTTP/1.1 (\d+)", written)]
        ends = [*self.wire.ends, *{"": [], "half": ["half"], "whole": ["close"]}[self.connection.closes]]
        held = ["held"] if self.connection in self.context.long_polls.held else []
        reads = ["deaf"] if self.connection.is_paused else []
        return " ".join([*said, *ends, until.get(deadline, "never"), *reads, *held])


def idle(stage: Stage) -> None:
    stage.send(POLL)


def reading(stage: Stage) -> None:
    stage.send(POLL[:BEGUN])


def held(stage: Stage) -> None:
    stage.send(WAIT)


def answering(stage: Stage) -> None:
    stage.send(APPROVAL)


def last(stage: Stage) -> None:
    stage.send(b"\n\n")


STARTS: dict[str, tuple[Callable[[Stage], None], ...]] = {
    "idle": (idle,),
    "reading": (reading,),
    "held": (held,),
    "answering": (answering,),
    "blocked": (idle, Stage.block),
    "blocked midway": (reading, Stage.block),
    "held blocked": (held, Stage.block),
    "answering blocked": (answering, Stage.block),
    "last": (last,),
}


async def comes(stage: Stage) -> None:
    stage.send(POLL)


async def rest_comes(stage: Stage) -> None:
    stage.send(POLL[BEGUN:])


async def ends(stage: Stage) -> None:
    stage.connection.received(b"")


async def news(stage: Stage) -> None:
    stage.connection.wake()


async def answer(stage: Stage) -> None:
    await stage.store()


async def paused(stage: Stage) -> None:
    stage.block()


async def resumed(stage: Stage) -> None:
    stage.unblock()


async def expired(stage: Stage) -> None:
    stage.connection.expire()


async def drained(stage: Stage) -> None:
    stage.context.draining = True
    stage.connection.drain()


async def lost(stage: Stage) -> None:
    stage.connection.drop()


Happening = Callable[[Stage], Coroutine[None, None, None]]
HAPPENINGS: tuple[Happening, ...] = (comes, rest_comes, ends, news, answer, paused, resumed, expired, drained, lost)

# What comes of it: the state, statuses that were sent, how the connection was ended, its deadline (`soon` is that of a
# request), `deaf` if nothing is read, `held` if a poll waits.
EXPECTED: dict[str, dict[Happening, tuple[State, str]]] = {
    "idle": {
        comes: (IDLE, "200 idle"),
        rest_comes: (LAST, "400 half linger"),
        ends: (LAST, "close idle"),
        news: (IDLE, "idle"),
        answer: (IDLE, "idle"),
        paused: (BLOCKED, "soon deaf"),
        resumed: (IDLE, "idle"),
        expired: (LAST, "close linger"),
        drained: (LAST, "close linger"),
        lost: (LAST, "close idle"),
    },
    "reading": {
        comes: (LAST, "400 half linger"),
        rest_comes: (IDLE, "200 idle"),
        ends: (LAST, "400 close linger"),
        news: (READING, "soon"),
        answer: (READING, "soon"),
        paused: (BLOCKED, "soon deaf"),
        resumed: (READING, "soon"),
        expired: (LAST, "408 close linger"),
        drained: (READING, "soon"),
        lost: (LAST, "close soon"),
    },
    "held": {
        comes: (HELD, "never held"),
        rest_comes: (HELD, "never held"),
        ends: (LAST, "304 close linger"),
        news: (IDLE, "304 idle"),
        answer: (HELD, "never held"),
        paused: (HELD_BLOCKED, "soon deaf held"),
        resumed: (HELD, "never held"),
        expired: (HELD, "never held"),
        drained: (LAST, "304 close linger"),
        lost: (LAST, "close never"),
    },
    "answering": {
        comes: (ANSWERING, "never"),
        rest_comes: (ANSWERING, "never"),
        ends: (ANSWERING, "never"),
        news: (ANSWERING, "never"),
        answer: (IDLE, "200 idle"),
        paused: (ANSWERING_BLOCKED, "soon deaf"),
        resumed: (ANSWERING, "never"),
        expired: (ANSWERING, "never"),
        drained: (ANSWERING, "never"),
        lost: (LAST, "close never"),
    },
    "blocked": {
        comes: (BLOCKED, "soon deaf"),
        rest_comes: (BLOCKED, "soon deaf"),
        ends: (BLOCKED, "soon deaf"),
        news: (BLOCKED, "soon deaf"),
        answer: (BLOCKED, "soon deaf"),
        paused: (BLOCKED, "soon deaf"),
        resumed: (IDLE, "idle"),
        expired: (LAST, "close soon deaf"),
        drained: (LAST, "close linger deaf"),
        lost: (LAST, "close soon deaf"),
    },
    "blocked midway": {
        comes: (BLOCKED, "soon deaf"),
        rest_comes: (BLOCKED, "soon deaf"),
        ends: (BLOCKED, "soon deaf"),
        news: (BLOCKED, "soon deaf"),
        answer: (BLOCKED, "soon deaf"),
        paused: (BLOCKED, "soon deaf"),
        resumed: (READING, "soon"),
        expired: (LAST, "close soon deaf"),
        drained: (BLOCKED, "soon deaf"),
        lost: (LAST, "close soon deaf"),
    },
    "held blocked": {
        comes: (HELD_BLOCKED, "soon deaf held"),
        rest_comes: (HELD_BLOCKED, "soon deaf held"),
        ends: (BLOCKED, "304 soon deaf"),
        news: (BLOCKED, "304 soon deaf"),
        answer: (HELD_BLOCKED, "soon deaf held"),
        paused: (HELD_BLOCKED, "soon deaf held"),
        resumed: (HELD, "never held"),
        expired: (LAST, "close soon deaf"),
        drained: (LAST, "304 close linger deaf"),
        lost: (LAST, "close soon deaf"),
    },
    "answering blocked": {
        comes: (ANSWERING_BLOCKED, "soon deaf"),
        rest_comes: (ANSWERING_BLOCKED, "soon deaf"),
        ends: (ANSWERING_BLOCKED, "soon deaf"),
        news: (ANSWERING_BLOCKED, "soon deaf"),
        answer: (BLOCKED, "200 soon deaf"),
        paused: (ANSWERING_BLOCKED, "soon deaf"),
        resumed: (ANSWERING, "never"),
        expired: (LAST, "close soon deaf"),
        drained: (ANSWERING_BLOCKED, "soon deaf"),
        lost: (LAST, "close soon deaf"),
    },
    "last": {
        comes: (LAST, "linger"),
        rest_comes: (LAST, "linger"),
        ends: (LAST, "close linger"),
        news: (LAST, "linger"),
        answer: (LAST, "linger"),
        paused: (LAST, "linger"),
        resumed: (LAST, "linger"),
        expired: (LAST, "close linger"),
        drained: (LAST, "linger"),
        lost: (LAST, "close linger"),
    },
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("happening", HAPPENINGS, ids=lambda happening: happening.__name__)
@in_loop
async def test_every_pair_of_state_and_happening(start: str, happening: Happening) -> None:
    stage = Stage()
    stage.begin(start)
    await happening(stage)
    assert (stage.connection.state, stage.seen()) == EXPECTED[start][happening]


@in_loop
async def test_the_starts_are_all_states_there_are() -> None:
    reached = []
    for start in STARTS:
        stage = Stage()
        stage.begin(start)
        reached.append(stage.connection.state)
    assert list(dict.fromkeys(reached)) == list(State)
    assert len(TRANSITIONS) == len(State)


def test_the_happenings_are_all_columns_of_the_table_and_the_loss_that_is_the_same_in_each_state() -> None:
    """Bytes come in two ways: a whole request, and the rest of one."""
    assert len(HAPPENINGS) == len(Handlers._fields) + 2


@pytest.mark.parametrize("start", ["answering", "answering blocked", "blocked", "blocked midway", "held blocked"])
@in_loop
async def test_who_has_ended_gets_what_is_pending_and_then_the_end(start: str) -> None:
    stage = Stage()
    stage.begin(start)
    stage.connection.received(b"")
    if start.startswith("answering"):
        await stage.store()
    stage.unblock()
    status = {"answering": ["200"], "held": ["304"], "blocked midway": ["400"]}
    expected = status.get(start) or status.get(start.split()[0]) or []
    assert stage.seen().split()[: len(expected) + 2] == [*expected, "close", "linger"]
    assert stage.connection.state is LAST


@in_loop
async def test_a_held_poll_that_was_blocked_for_a_while_waits_for_its_news_and_not_for_a_deadline() -> None:
    """It was refused as too slow, although the client had sent all of it."""
    stage = Stage()
    stage.begin("held blocked")
    stage.unblock()
    stage.context.time.now = stage.context.time.request_until + 1
    stage.context.sweep()
    stage.connection.wake()
    assert stage.seen() == "304 idle"


@in_loop
async def test_very_many_that_are_overdue_together_end_in_several_turns_of_the_loop() -> None:
    """18,000 took 0.3 s, and polls waited (S26). Who goes or asks meanwhile is left alone."""
    stage = Stage()
    crowd = [stage.ends.connect(f"10.0.0.{number}") for number in range(200)]
    stage.context.time.now = stage.context.time.request_until + 1
    stage.context.sweep()
    crowd[198][0].drop()
    crowd[199][0].deadline = stage.context.time.now + 1
    ended = []
    for _ in range(4):
        ended.append(sum(bool(client.ends) for _, client in crowd))
        await asyncio.sleep(0)
    assert ended == [64, 128, 192, 199]  # one of them has gone by itself


@in_loop
async def test_what_came_while_the_client_did_not_read_is_answered_when_it_does() -> None:
    stage = Stage()
    stage.begin("blocked")
    stage.send(POLL + POLL)
    assert stage.seen() == "soon deaf"
    stage.unblock()
    assert (stage.connection.state, stage.seen()) == (IDLE, "200 200 idle")


@in_loop
async def test_an_answer_waits_behind_the_rest_of_the_one_before_it() -> None:
    """A little may wait while the client is answered; it gets all in order, and then nothing is left of it."""
    stage = Stage()
    stage.begin("idle")
    stage.wire.takes = False
    stage.ends.come(stage.connection, stage.wire, POLL)
    stage.ends.come(stage.connection, stage.wire, POLL.replace(b"2020-07-01", b"1999-01-01"))
    assert (stage.wire.sent, stage.seen(), stage.connection.reader is None) == ([], "200 400 idle", False)
    stage.unblock()
    assert (stage.seen(), stage.connection.reader) == ("200 400 idle", None)


@pytest.mark.parametrize("start", ["held", "held blocked"])
@in_loop
async def test_a_held_poll_is_answered_when_too_much_comes_behind_it(start: str) -> None:
    stage = Stage()
    stage.begin(start)
    stage.send(POLL * (MAX_WAITING_BYTES // len(POLL) + 1))
    assert stage.seen().startswith("304 ")
    assert stage.connection not in stage.context.long_polls.held


@pytest.mark.parametrize("start", ["held", "held blocked"])
@in_loop
async def test_a_held_poll_is_answered_when_too_many_pieces_come_behind_it(start: str) -> None:
    """To read one byte costs as much as to read a whole request (S24)."""
    stage = Stage()
    stage.begin(start)
    for _ in range(MAX_WEIGHT // LEAST_WEIGHT + 1):
        assert not stage.wire.sent
        stage.send(b"G")
    assert stage.seen().startswith("304 ")


@in_loop
async def test_a_request_in_too_many_pieces_is_refused_and_the_next_one_may_have_as_many() -> None:
    stage = Stage()
    stage.begin("idle")
    pieces = MAX_WEIGHT // LEAST_WEIGHT - 1
    long = POLL.replace(b"Host: x", b"Host: x\r\nX: " + b"y" * (pieces + 100))
    for _ in range(2):
        stage.send(long[:100])
        for begin in range(100, 100 + pieces):
            stage.send(long[begin : begin + 1])
        stage.send(long[100 + pieces :])
    assert stage.seen() == "200 200 idle"
    for _ in range(MAX_WEIGHT // LEAST_WEIGHT + 1):
        assert stage.connection.state is not LAST
        stage.send(b"G")
    assert (stage.connection.state, stage.seen()) == (LAST, "200 200 413 half linger")


@in_loop
async def test_after_the_last_answer_only_so_much_is_read_and_then_nothing() -> None:
    """What comes is thrown away, so that the answer is not lost; but that has an end (S29)."""
    stage = Stage()
    stage.begin("last")
    for _ in range(MAX_REST // LEAST_REST):
        stage.send(b"x")
    assert stage.seen() == "linger"
    stage.send(b"x")
    assert stage.seen() == "linger deaf"


@in_loop
async def test_pipelined_requests_beyond_the_rate_are_refused_and_only_known_ones_may_be_followed_by_others() -> None:
    """Of others nobody has looked where they end."""
    stage = Stage()
    stage.begin("idle")
    session = stage.context.sessions.find(stage.connection.address)
    assert session is not None
    session.polls = Bucket(Rate(2))
    stage.send(POLL * 3 + POLL.replace(b"Host: x", b"Host: y") + POLL)
    assert (stage.connection.state, stage.seen()) == (LAST, "200 200 429 429 half linger")


@in_loop
async def test_who_is_refused_after_its_last_request_and_has_ended_is_over() -> None:
    """Nothing is left of it that could be left alone (A08)."""
    stage = Stage()
    stage.begin("idle")
    session = stage.context.sessions.find(stage.connection.address)
    assert session is not None
    session.polls = Bucket(Rate(1))
    session.refusals = Bucket(Rate(1))
    stage.wire.takes = False
    stage.block()
    stage.connection.received(POLL * 4)
    stage.connection.received(b"")
    stage.unblock()
    assert (stage.connection.fd, stage.connection.state, stage.context.limits.by_address) == (-1, LAST, {})


@in_loop
async def test_too_much_behind_an_answer_that_is_being_made_is_not_read() -> None:
    stage = Stage()
    stage.begin("answering")
    stage.send(POLL * (MAX_WAITING_BYTES // len(POLL) + 1))
    assert (stage.connection.state, stage.seen()) == (ANSWERING, "never deaf")


@in_loop
async def test_many_requests_at_once_are_answered_in_turns() -> None:
    stage = Stage()
    stage.begin("idle")
    stage.send(POLL * (REQUESTS_PER_TURN + 2))
    assert (stage.connection.state, len(stage.wire.sent)) == (READING, REQUESTS_PER_TURN)
    await asyncio.sleep(0)
    assert (stage.connection.state, len(stage.wire.sent)) == (IDLE, REQUESTS_PER_TURN + 2)


@in_loop
async def test_the_second_turn_waits_while_the_client_does_not_read() -> None:
    stage = Stage()
    stage.begin("idle")
    stage.send(POLL * (REQUESTS_PER_TURN + 2))
    stage.block()
    await asyncio.sleep(0)
    assert (stage.connection.state, len(stage.wire.sent)) == (BLOCKED, REQUESTS_PER_TURN)
