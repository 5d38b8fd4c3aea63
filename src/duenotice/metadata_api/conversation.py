"""What a connection does: requests in, answers out, in order and within limits.

One table, `MOVES`, says what is done about each thing that can happen, in each state of the connection. It knows no
paths and no rules.
"""

import asyncio
from functools import partial
from typing import TypeVar

from duenotice.errors import Malformed
from duenotice.metadata_api import connection_states as states
from duenotice.metadata_api.answers import THROTTLED, Broken, Hold, Outcome
from duenotice.metadata_api.connection_states import ConnectionState, Moves
from duenotice.metadata_api.door import Door
from duenotice.metadata_api.held_polls import Held
from duenotice.metadata_api.memo import MAX_REQUEST
from duenotice.metadata_api.questions import VmRequest
from duenotice.metadata_api.request_body import BodyTooLarge
from duenotice.metadata_api.request_head import RequestHead
from duenotice.metadata_api.request_reader import RequestReader
from duenotice.metadata_api.responses import CLOSE, CONTINUE, Answer, blamed, error

REQUESTS_PER_TURN = 16
"""Pipelined requests answered before others get their turn."""

MAX_WAITING_BYTES = 64 * 1024
"""What may pile up behind a pending answer before we stop reading."""

LEAST_WEIGHT, MAX_WEIGHT = 256, 128 * 1024
"""What is read counts as 256 bytes at least, because to read one byte costs as much; a request may have 128 KiB."""

LEAST_REST, MAX_REST = 4096, 1024 * 1024
"""The same of what is read and thrown away after the last answer; what comes then stays in the kernel."""

_FOREVER = float("inf")
_TOO_SLOW = error(408, "The request took too long to arrive. Send it again, faster.")
_TOO_MANY_PIECES = blamed(BodyTooLarge("The request comes in too many small pieces.", hint="Send it in fewer packets."))

_EMPTY = RequestReader()
"""The reader of all connections that wait for an answer and have sent nothing since, or have had their last one.

Nothing is ever fed to it.
"""

AnyOutcome = TypeVar("AnyOutcome")


def warm_news(door: Door, address: str, held: Held) -> bytes | None:
    """The new document for one of many who wait for it, in as few steps as possible; None for the first of them."""
    if (lane := door.lanes.get(address)) is None or not (page := lane.page).enabled:
        return None
    poll = held.poll
    if (tail := page.rendered[poll.version.index]) is None or poll.has(page.document.incarnation):
        return None
    return door.pulse.heading.ok(held.ask.connection, tail)


class VmConversation(asyncio.Protocol):
    """A connection's talk with its client; `ended` when the client sends nothing more, but may still read.

    At rest there is no reader, so that bytes which arrive then are the beginning of a request. `weight` is what was
    read of the request that is under way.
    """

    __slots__ = ("address", "deadline", "door", "ended", "reader", "state", "transport", "weight")

    address: str
    deadline: float
    transport: asyncio.Transport

    def __init__(self, door: Door) -> None:
        self.door = door
        self.reader: RequestReader | None = None
        self.state: ConnectionState = states.IDLE
        self.ended = False
        self.weight = 0

    def nothing(self, *_: object) -> None:
        """This changes nothing, or cannot happen in this state."""

    def begin(self, data: bytes) -> None:
        """The first bytes of a request, most often all of it. Who asks comes before what is asked (A08, S29)."""
        if self._is_admitted(data):
            self.begin_admitted(data)
        else:
            self._throttle(self.door.known.get(data))

    def begin_admitted(self, data: bytes) -> None:
        """The same of a request that may cost something."""
        ask = self.door.known.get(data) or self.door.memo.learn(data)
        if ask is not None:
            self._answer(ask, b"")
            return
        self.state = states.READING
        self._expect_request()
        self._collect().is_admitted = True
        self.read_on(data)

    def read_on(self, data: bytes) -> None:
        """More of a request."""
        self.weight += max(len(data), LEAST_WEIGHT)
        self._collect().feed(data)
        self.advance()

    def pile_up(self, data: bytes) -> None:
        """Keep it for later; with too much of it, stop reading and wait for nothing."""
        self.weight += max(len(data), LEAST_WEIGHT)
        self._collect().feed(data)
        if self._is_overfull():
            self.transport.pause_reading()
            self.wake()

    def advance(self) -> None:
        """Answer whole requests that have arrived, in order, and only a few in one turn of the loop."""
        for _ in range(REQUESTS_PER_TURN):
            if self.state is not states.READING or self.reader is None:
                return
            if self.reader.is_at_begin and self._is_dealt_with(self.reader):
                continue
            try:
                received = self.reader.next()
            except Malformed as problem:
                self.say_goodbye(blamed(problem))
                return
            if received is None:
                self._await_more(self.reader)
                return
            self._expect_request()
            self._answer(self.door.router.ask(received.head), received.body)
        self.transport.pause_reading()
        self.door.loop.call_soon(self.advance)

    def _is_dealt_with(self, reader: RequestReader) -> bool:
        """Whether the next request needs no further reading: it is refused, or it is known by its bytes."""
        raw = reader.head_alone(MAX_REQUEST)
        ask = self.door.known.get(raw)
        is_admitted = reader.is_admitted or self._is_admitted(reader.begin_of_next())
        if is_admitted and (ask := ask or self.door.memo.learn(raw)) is None:
            reader.is_admitted = True
            return False
        self._expect_request()
        if ask is not None:
            reader.skip(len(raw))
        if is_admitted and ask is not None:
            self._answer(ask, b"")
        else:
            self._throttle(ask)
        return True

    def _is_admitted(self, data: bytes) -> bool:
        return self.door.callers.admit(self.address, data, self.door.pulse.now)

    def _throttle(self, ask: VmRequest | None) -> None:
        """It asks too often (A08). Where a request ends that is not known, nobody has looked: so that is the last."""
        if ask is not None and self.door.callers.is_patient_with(self.address, self.door.pulse.now):
            self._send(ask, THROTTLED)
        else:
            self.say_goodbye(THROTTLED)

    def wake(self) -> None:
        """There may be news for a held poll, or its time is up."""
        MOVES[self.state].news(self)

    def take(self, ask: VmRequest, outcome: Outcome | Broken) -> None:
        """The pending answer is there, unless it says that there is none yet."""
        if isinstance(outcome, Hold):
            # The loop has gone on since this was decided, so it is checked again.
            outcome = self._held_only_if_useful(self.door.answers.still(self.address, outcome.poll))
        if isinstance(outcome, Hold):
            self._hold(ask, outcome)
        elif isinstance(outcome, Broken):
            self._send_broken(outcome)
        else:
            self._finish(ask, outcome)

    def show_news(self) -> None:
        """Answer the held poll."""
        door = self.door
        held = door.waiting.let_go(self)
        if held is None:
            return
        if self.state is not states.HELD or self.reader is not _EMPTY or self.ended:
            self._finish(held.ask, door.answers.again(self.address, held.poll))
            return
        # The usual case: nothing else was sent. Ten thousand may be woken at once.
        self.state, self.reader = states.IDLE, None
        if held.ask.closes or door.draining or (news := warm_news(door, self.address, held)) is None:
            self._send(held.ask, door.answers.again(self.address, held.poll))
        else:
            self.deadline = door.pulse.idle_until
            self.transport.write(news)

    def block(self) -> None:
        """Take no more requests until the client reads its answers; this wait has a limit (S24)."""
        self.state = states.WHEN_PAUSED[self.state]
        self._collect()
        self._expect_request()
        self.transport.pause_reading()

    def unblock(self) -> None:
        """Go on with what has arrived meanwhile."""
        self.state = states.WHEN_RESUMED[self.state]
        self._expect_request()
        self.advance()

    def wait_on(self) -> None:
        """What was pending still is."""
        self.state = states.WHEN_RESUMED[self.state]
        self._wait()

    def refuse_slow(self) -> None:
        """A request that does not become whole."""
        self.transport.write(self.door.pulse.heading.render(_TOO_SLOW, CLOSE))
        self.close()

    def abort(self) -> None:
        """Nobody reads what is left to send."""
        self.transport.abort()

    def close_at_rest(self) -> None:
        """If nothing has come that would have to be answered."""
        if self.reader is not None and self.reader.untouched:
            self.close()

    def close(self) -> None:
        """Send what is left, and end."""
        self._mark_last()
        self.transport.close()

    def say_goodbye(self, answer: Answer) -> None:
        """Send a last answer to a client that may still be sending.

        Closing at once would reset the connection and could lose the answer, so we only stop writing, and go on reading
        for a short time.
        """
        self.transport.write(self.door.pulse.heading.render(answer, CLOSE))
        if self.ended:
            self.close()
            return
        self._mark_last()
        self.transport.write_eof()
        self.transport.resume_reading()

    def throw_away(self, data: bytes) -> None:
        """It comes after the last answer; with too much of it, stop reading, and the deadline ends the connection."""
        self.weight += max(len(data), LEAST_REST)
        if self.weight > MAX_REST:
            self.transport.pause_reading()

    def _collect(self) -> RequestReader:
        """From now on bytes are kept until it is their turn."""
        if self.reader is None or self.reader is _EMPTY:
            self.reader = RequestReader()
        return self.reader

    def _expect_request(self) -> None:
        self.deadline = self.door.pulse.request_until
        self.weight = 0

    def _await_more(self, reader: RequestReader) -> None:
        if reader.untouched:
            self._rest()
        elif self.weight > MAX_WEIGHT:
            self.say_goodbye(_TOO_MANY_PIECES)
        elif self.ended:
            self.say_goodbye(blamed(Malformed("The request is incomplete.", hint="Send all of it.")))
        elif reader.held_back is not None:
            self._invite_body(reader.held_back)
        self._resume_reading()

    def _resume_reading(self) -> None:
        # After the client has closed, every read only returns the end again.
        if not self.ended:
            self.transport.resume_reading()

    def _rest(self) -> None:
        """All that came is answered."""
        self.state, self.reader = states.IDLE, None
        self.deadline = self.door.pulse.idle_until
        if self.ended:
            self.close()

    def _invite_body(self, head: RequestHead) -> None:
        """A11: send 100 Continue, unless the request will be refused anyway."""
        ask = self.door.router.ask(head)
        if isinstance(ask.question, Answer):
            self.say_goodbye(ask.question)
        else:
            self.transport.write(CONTINUE)

    def _answer(self, ask: VmRequest, body: bytes) -> None:
        outcome = self._held_only_if_useful(self.door.answers.answer(self.address, ask.question, body))
        if isinstance(outcome, Answer):
            self._send(ask, outcome)
            return
        if isinstance(outcome, Broken):
            self._send_broken(outcome)
            return
        if isinstance(outcome, Hold):
            self._hold(ask, outcome)
        else:
            self.state = states.ANSWERING
            self.door.make(outcome, partial(self._made, ask))
        self._wait()

    def _hold(self, ask: VmRequest, hold: Hold) -> None:
        self.state = states.WHEN_HELD[self.state]
        self.door.waiting.hold(self, ask, hold.poll, hold.lane, self.wake, self.address)

    def _wait(self) -> None:
        """Something is pending, and only we can be slow; read on meanwhile, but not without limit."""
        self.deadline = _FOREVER
        if self.reader is None:
            self.reader = _EMPTY
        if not self._is_overfull():
            self._resume_reading()

    def _held_only_if_useful(self, outcome: AnyOutcome) -> AnyOutcome | Answer:
        """Hold no poll if the client may be gone or has sent more requests, or if the service is about to stop."""
        if isinstance(outcome, Hold) and (self.ended or self.door.draining or self._is_overfull()):
            return self.door.answers.again(self.address, outcome.poll)
        return outcome

    def _is_overfull(self) -> bool:
        much = self.weight > MAX_WEIGHT
        return self.reader is not None and (much or len(self.reader) > MAX_WAITING_BYTES)

    def _send(self, ask: VmRequest, answer: Answer) -> None:
        closes = ask.closes or self.door.draining
        if self.reader is None:
            self.deadline = self.door.pulse.idle_until
        self.transport.write(self.door.pulse.heading.render(answer, CLOSE if closes else ask.connection))
        if closes:
            self.close()

    def _send_broken(self, broken: Broken) -> None:
        self._mark_last()
        self.deadline = _FOREVER
        data = self.door.pulse.heading.render(broken.answer, CLOSE)
        broken.send(self.door.loop, self.transport, data)

    def _made(self, ask: VmRequest, outcome: Outcome | Broken) -> None:
        MOVES[self.state].answered(self, ask, outcome)

    def _finish(self, ask: VmRequest, answer: Answer) -> None:
        """Send it, and go on with what has arrived behind it."""
        self.state = states.WHEN_ANSWERED[self.state]
        self._expect_request()
        self._send(ask, answer)
        self.advance()

    def _mark_last(self) -> None:
        self.state, self.reader = states.LAST, _EMPTY
        self.deadline, self.weight = self.door.pulse.linger_until, 0


_c, _no = VmConversation, VmConversation.nothing
_ROWS = {
    # bytes_came, client_ended, news, answered, writing_paused, writing_resumed, deadline_passed, server_stops
    states.IDLE: Moves(_c.begin, _no, _no, _no, _c.block, _no, _c.close, _c.close),
    states.READING: Moves(_c.read_on, _c.advance, _no, _no, _c.block, _no, _c.refuse_slow, _no),
    states.HELD: Moves(_c.pile_up, _c.show_news, _c.show_news, _no, _c.block, _no, _no, _c.show_news),
    states.ANSWERING: Moves(_c.pile_up, _no, _no, _c.take, _c.block, _no, _no, _no),
    states.BLOCKED: Moves(_c.pile_up, _no, _no, _no, _no, _c.unblock, _c.abort, _c.close_at_rest),
    states.HELD_BLOCKED: Moves(_c.pile_up, _c.show_news, _c.show_news, _no, _no, _c.wait_on, _c.abort, _c.show_news),
    states.ANSWERING_BLOCKED: Moves(_c.pile_up, _no, _no, _c.take, _no, _c.wait_on, _c.abort, _no),
    states.LAST: Moves(_c.throw_away, _no, _no, _no, _no, _no, _c.abort, _no),
}
MOVES = tuple(_ROWS[state] for state in ConnectionState)
"""What is done, by state. A connection that is lost is over in every state, so that is not in here."""
