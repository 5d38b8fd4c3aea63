"""A client's connection on the VMs' port: its socket, and what it does about each thing that can happen.

One table, `TRANSITIONS`, says what is done, in each state of the connection. A connection at rest is a number of a
socket and a deadline: it has no reader and nothing that waits to be sent. It knows no paths and no rules.
"""

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from duenotice.errors import Malformed
from duenotice.metadata_api.answers import THROTTLED, FaultyResponse, Hold, Outcome
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.http1 import BodyTooLarge, RequestHead, RequestReader
from duenotice.metadata_api.long_polls import LongPoll
from duenotice.metadata_api.requests import MAX_REQUEST, ParsedRequest
from duenotice.metadata_api.responses import CLOSE, CONTINUE, Answer, blamed, document_tail, error
from duenotice.metadata_api.sockets import ENDED, LOST, READABLE, WRITABLE

if TYPE_CHECKING:
    from duenotice.metadata_api.listener import Listener

READ_SIZE = 65536
"""Bytes that are read at once of what is not a poll that is known."""

REQUESTS_PER_TURN = 16
"""Pipelined requests answered before others get their turn."""

MOST_UNSENT = 64 * 1024
"""Bytes that may wait until the client reads; with more, no request is answered before they are gone."""

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


class State(IntEnum):
    """What a connection is doing. That the client has ended is told beside it: it may still read."""

    IDLE = 0
    """All that came is answered; the only state without a reader."""

    READING = 1
    """Part of a request has come, or more requests than one turn of the loop answers."""

    HELD = 2
    """A poll waits for news."""

    ANSWERING = 3
    """An answer is being made."""

    BLOCKED = 4
    """The client does not read its answers; what it sends meanwhile is kept for later (S24)."""

    HELD_BLOCKED = 5
    """The same while a poll waits for news."""

    ANSWERING_BLOCKED = 6
    """The same while an answer is being made."""

    LAST = 7
    """The last answer is sent, or the connection is gone."""


IDLE, READING, HELD, ANSWERING, BLOCKED, HELD_BLOCKED, ANSWERING_BLOCKED, LAST = State

WHEN_PAUSED = {IDLE: BLOCKED, READING: BLOCKED, HELD: HELD_BLOCKED, ANSWERING: ANSWERING_BLOCKED}
"""The client does not read any more."""

WHEN_RESUMED = {BLOCKED: READING, HELD_BLOCKED: HELD, ANSWERING_BLOCKED: ANSWERING}
"""It reads again."""

WHEN_ANSWERED = {HELD: READING, ANSWERING: READING, HELD_BLOCKED: BLOCKED, ANSWERING_BLOCKED: BLOCKED}
"""What was pending is answered; more may have come behind it."""

WHEN_HELD = {IDLE: HELD, READING: HELD, ANSWERING: HELD, ANSWERING_BLOCKED: HELD_BLOCKED}
"""A poll is to wait."""


def warm_answer(context: ServerContext, address: str, request: ParsedRequest) -> bytes | None:
    """The answer to the one request that most VMs send once a second, in as few steps as possible; None for others.

    A refusal is as short: who asks too often must cost the others nothing (A08). After many of them it is left to the
    long way, which ends the connection.
    """
    if (version := request.plain) is None or (session := context.warm_sessions.get(address)) is None:
        return None
    if not (page := session.page).enabled:
        return None
    if not session.polls.take((time := context.time).now):
        return time.response_head.render(THROTTLED, request.connection) if session.refusals.take(time.now) else None
    try:
        tail = page.rendered[version.index] or document_tail(page, version)
    except Exception:
        return None  # the long way fails too, and reports it
    page.last_poll = time.steady
    return time.response_head.ok(request.connection, tail)


def fresh_answer(context: ServerContext, address: str, request: ParsedRequest) -> bytes | None:
    """The same for a VM that has not asked before, or whose document has changed since; it was admitted already."""
    if (version := request.plain) is None:
        return None
    try:
        if context.sessions.find(address) is None or (session := context.warm_sessions.get(address)) is None:
            return None
        if not (page := context.sessions.page_of(session)).enabled:
            return None
        tail = document_tail(page, version)
    except Exception:
        return None  # the long way fails too, and reports it
    page.last_poll = context.time.steady
    return context.time.response_head.ok(request.connection, tail)


def warm_news(context: ServerContext, address: str, held: LongPoll) -> bytes | None:
    """The new document for one of many who wait for it, in as few steps as possible; None for the first of them."""
    if (session := context.warm_sessions.get(address)) is None or not (page := session.page).enabled:
        return None
    poll = held.poll
    if (tail := page.rendered[poll.version.index]) is None or poll.has(page.document.incarnation):
        return None
    return context.time.response_head.ok(held.request.connection, tail)


class Connection:
    """A client. `ended` when it sends nothing more, but may still read; `fd` is -1 when it is gone.

    At rest there is no reader, and nothing that is unsent: so bytes which arrive then are the beginning of a request.
    `weight` is what was read of the request that is under way; `unsent` is what the kernel has not taken yet. `is_kept`
    when it has lasted longer than the turn of the loop that took it: then it has a place, and is told what comes.
    """

    __slots__ = (
        "address",
        "closes",
        "context",
        "deadline",
        "ended",
        "fd",
        "is_kept",
        "is_paused",
        "listener",
        "reader",
        "state",
        "unsent",
        "weight",
    )

    def __init__(self, listener: "Listener", fd: int, address: str, deadline: float) -> None:
        self.listener, self.context = listener, listener.context
        self.fd, self.address, self.deadline = fd, address, deadline
        self.reader: RequestReader | None = None
        self.state: State = IDLE
        self.unsent: bytes | memoryview = b""
        self.weight = 0
        self.ended = self.is_paused = self.is_kept = False
        self.closes = ""
        """How it ends when all is sent: `half`, so that the client can still send, or `whole`."""

    # --- the socket ---

    def ready(self, what: int) -> None:
        """The kernel has something, or takes something."""
        if what & WRITABLE and self.unsent:
            self._flush()
        if what & LOST and (self.is_paused or self.ended):
            self.drop()  # else reading tells
        elif what & (READABLE | ENDED | LOST):
            self.read(to_the_end=bool(what & (ENDED | LOST)))

    def read(self, to_the_end: bool = False) -> None:
        """All that is there: we are told of it only once. If the end came too, nobody tells us of that again."""
        while self.fd >= 0 and not (self.is_paused or self.ended):
            try:
                data = self.listener.sockets.read(self.fd, READ_SIZE)
            except BlockingIOError:
                return
            except OSError:
                self.drop()
                return
            self.received(data)
            if len(data) < READ_SIZE and not to_the_end:
                return

    def received(self, data: bytes) -> None:
        """Bytes of the client; none when it sends no more. If nothing is pending then, the connection ends."""
        if data:
            TRANSITIONS[self.state].bytes_came(self, data)
            return
        self.ended = True
        if self.state is not IDLE and self.state is not LAST:
            self._watch()  # each read would only return the end again
            TRANSITIONS[self.state].client_ended(self)
        elif self.unsent:
            self.closes = "whole"
            self._watch()
        else:
            self.drop()

    def write(self, data: bytes) -> None:
        """Send it. What the kernel does not take waits; with too much of that, nothing more is answered (S24)."""
        if self.fd >= 0:
            sent = 0 if self.unsent else self._send(data)
            if sent < len(data) and self.fd >= 0:
                self.left_unsent(memoryview(data)[sent:])

    def left_unsent(self, rest: bytes | memoryview) -> None:
        """The client does not read: so much of an answer waits for it."""
        self.unsent = bytes(self.unsent) + rest if self.unsent else rest
        if self.reader is None:
            self.reader = _EMPTY
        self._watch()
        if len(self.unsent) > MOST_UNSENT:
            TRANSITIONS[self.state].writing_paused(self)

    def _send(self, data: bytes | memoryview) -> int:
        try:
            return self.listener.sockets.write(self.fd, data)
        except BlockingIOError:
            return 0
        except OSError:
            self.drop()
            return 0

    def _flush(self) -> None:
        """The kernel takes more."""
        rest = memoryview(self.unsent)[self._send(self.unsent) :]
        if self.fd < 0:
            return
        self.unsent = rest if rest else b""
        if rest:
            return
        if self.closes == "whole":
            self.listener.sockets.throw_away(self.fd)
            self.drop()
            return
        self._watch()
        if self.state is IDLE:
            self.reader = None
        if self.closes == "half":
            self.listener.sockets.shut(self.fd)
        else:
            TRANSITIONS[self.state].writing_resumed(self)

    def send_all(self, answer: bytes, closes: bool) -> None:
        """An answer after which nothing is pending."""
        self.deadline = self.context.time.idle_until
        self.write(answer)
        if closes:
            self.close()

    def pause_reading(self) -> None:
        """What comes stays in the kernel."""
        if not self.is_paused:
            self.is_paused = True
            self._watch()

    def resume_reading(self) -> None:
        """We are told at once of what has come meanwhile."""
        if self.is_paused and not self.ended:
            self.is_paused = False
            self._watch()

    def _watch(self) -> None:
        if self.fd >= 0:
            self.listener.watch(self)

    def close(self) -> None:
        """Send what is left, and end."""
        self._mark_last()
        if self.unsent:
            self.closes = "whole"
        elif self.fd >= 0:
            self.listener.sockets.throw_away(self.fd)
            self.drop()

    def drop(self) -> None:
        """It is over, whatever is left to send or to answer."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            self.state, self.unsent = LAST, b""
            self.context.long_polls.let_go(self)
            self.listener.ended(self, fd)

    # --- what can happen ---

    def nothing(self, *_: object) -> None:
        """This changes nothing, or cannot happen in this state."""

    def begin(self, data: bytes) -> None:
        """The first bytes of a request, most often all of it. Who asks comes before what is asked (A08, S29)."""
        if self._is_admitted(data):
            self.begin_admitted(data)
        else:
            self._throttle(self.context.known.get(data))

    def begin_admitted(self, data: bytes) -> None:
        """The same of a request that may cost something."""
        request = self.context.known.get(data) or self.context.cache.add(data)
        if request is not None:
            answer = None if self.context.draining else fresh_answer(self.context, self.address, request)
            if answer is None:
                self._answer(request, b"")
            else:
                self.send_all(answer, request.closes)
            return
        self.state = READING
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
            self.pause_reading()
            self.wake()

    def advance(self) -> None:
        """Answer whole requests that have arrived, in order, and only a few in one turn of the loop."""
        for _ in range(REQUESTS_PER_TURN):
            if self.state is not READING or self.reader is None:
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
            self._answer(self.context.router.parse(received.head), received.body)
        self.pause_reading()
        self.context.loop.call_soon(self.advance)

    def _is_dealt_with(self, reader: RequestReader) -> bool:
        """Whether the next request needs no further reading: it is refused, or it is known by its bytes."""
        raw = reader.head_alone(MAX_REQUEST)
        request = self.context.known.get(raw)
        is_admitted = reader.is_admitted or self._is_admitted(reader.begin_of_next())
        if is_admitted and (request := request or self.context.cache.add(raw)) is None:
            reader.is_admitted = True
            return False
        self._expect_request()
        if request is not None:
            reader.skip(len(raw))
        if is_admitted and request is not None:
            self._answer(request, b"")
        else:
            self._throttle(request)
        return True

    def _is_admitted(self, data: bytes) -> bool:
        return self.context.sessions.admit(self.address, data, self.context.time.now)

    def _throttle(self, request: ParsedRequest | None) -> None:
        """It asks too often (A08). Where a request ends that is not known, nobody has looked: so that is the last.

        Who makes noise on many connections at once loses them without a word: to say it would cost as much as the rest.
        """
        context = self.context
        is_patient = context.sessions.is_patient_with(self.address, context.time.now)
        if request is not None and is_patient:
            self._send_answer(request, THROTTLED)
            return
        is_crowded = context.limits.is_half_full_of(self.address)
        if is_patient or not is_crowded:
            self.say_goodbye(THROTTLED)
        if is_crowded:
            self.drop()
        elif self.fd >= 0 and not self.unsent:  # it may have ended with its last answer
            self.listener.leave_alone(self)

    def wake(self) -> None:
        """There may be news for a held poll, or its time is up."""
        TRANSITIONS[self.state].news(self)

    def answered(self, request: ParsedRequest, outcome: Outcome | FaultyResponse) -> None:
        """The pending answer is there, unless it says that there is none yet."""
        if isinstance(outcome, Hold):
            # The loop has gone on since this was decided, so it is checked again.
            outcome = self._held_only_if_useful(self.context.answers.recheck(self.address, outcome.poll))
        if isinstance(outcome, Hold):
            self._hold(request, outcome)
        elif isinstance(outcome, FaultyResponse):
            self._send_broken(outcome)
        else:
            self._finish(request, outcome)

    def show_news(self) -> None:
        """Answer the held poll."""
        context = self.context
        held = context.long_polls.let_go(self)
        if held is None:
            return
        if self.state is not HELD or self.reader is not _EMPTY or self.ended:
            self._finish(held.request, context.answers.final_answer(self.address, held.poll))
            return
        # The usual case: nothing else was sent. Ten thousand may be woken at once.
        self.state, self.reader = IDLE, _EMPTY if self.unsent else None
        if held.request.closes or context.draining or (news := warm_news(context, self.address, held)) is None:
            self._send_answer(held.request, context.answers.final_answer(self.address, held.poll))
        else:
            self.deadline = context.time.idle_until
            self.write(news)

    def block(self) -> None:
        """Take no more requests until the client reads its answers; this wait has a limit (S24)."""
        self.state = WHEN_PAUSED[self.state]
        self._collect()
        self._expect_request()
        self.pause_reading()

    def unblock(self) -> None:
        """Go on with what has arrived meanwhile."""
        self.state = WHEN_RESUMED[self.state]
        self._expect_request()
        self.advance()

    def wait_on(self) -> None:
        """What was pending still is."""
        self.state = WHEN_RESUMED[self.state]
        self._wait()

    def refuse_slow(self) -> None:
        """A request that does not become whole."""
        self.write(self.context.time.response_head.render(_TOO_SLOW, CLOSE))
        self.close()

    def close_at_rest(self) -> None:
        """If nothing has come that would have to be answered."""
        if self.reader is not None and self.reader.untouched:
            self.close()

    def drop_if_left_alone(self) -> None:
        """It was refused, and nobody waits for what it may still send."""
        if not self.listener.watches(self):
            self.drop()

    def say_goodbye(self, answer: Answer) -> None:
        """Send a last answer to a client that may still be sending.

        Closing at once would reset the connection and could lose the answer, so we only stop writing, and go on reading
        for a short time.
        """
        self.write(self.context.time.response_head.render(answer, CLOSE))
        if self.ended:
            self.close()
            return
        self._mark_last()
        if self.unsent:
            self.closes = "half"
        elif self.fd >= 0:
            self.listener.sockets.shut(self.fd)
        self.resume_reading()

    def throw_away(self, data: bytes) -> None:
        """It comes after the last answer; with too much of it, stop reading, and the deadline ends the connection."""
        self.weight += max(len(data), LEAST_REST)
        if self.weight > MAX_REST:
            self.pause_reading()

    def expire(self) -> None:
        """The deadline has passed."""
        TRANSITIONS[self.state].deadline_passed(self)

    def drain(self) -> None:
        """The service is about to stop: answer who waits, close what is idle, let the rest finish."""
        TRANSITIONS[self.state].server_stops(self)

    # --- how it is done ---

    def _collect(self) -> RequestReader:
        """From now on bytes are kept until it is their turn."""
        if self.reader is None or self.reader is _EMPTY:
            self.reader = RequestReader()
        return self.reader

    def _expect_request(self) -> None:
        self.deadline = self.context.time.request_until
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
        self.resume_reading()

    def _rest(self) -> None:
        """All that came is answered."""
        self.state, self.reader = IDLE, _EMPTY if self.unsent else None
        self.deadline = self.context.time.idle_until
        if self.ended:
            self.close()

    def _invite_body(self, head: RequestHead) -> None:
        """A11: send 100 Continue, unless the request will be refused anyway."""
        request = self.context.router.parse(head)
        if isinstance(request.query, Answer):
            self.say_goodbye(request.query)
        else:
            self.write(CONTINUE)

    def _answer(self, request: ParsedRequest, body: bytes) -> None:
        outcome = self._held_only_if_useful(self.context.answers.answer(self.address, request.query, body))
        if isinstance(outcome, Answer):
            self._send_answer(request, outcome)
            return
        if isinstance(outcome, FaultyResponse):
            self._send_broken(outcome)
            return
        if isinstance(outcome, Hold):
            self._hold(request, outcome)
        else:
            self.state = ANSWERING
            self.context.make(outcome, partial(self._made, request))
        self._wait()

    def _hold(self, request: ParsedRequest, hold: Hold) -> None:
        self.state = WHEN_HELD[self.state]
        self.context.long_polls.hold(self, request, hold.poll, hold.session, self.wake, self.address)

    def _wait(self) -> None:
        """Something is pending, and only we can be slow; read on meanwhile, but not without limit."""
        self.deadline = _FOREVER
        if self.reader is None:
            self.reader = _EMPTY
        if not self._is_overfull():
            self.resume_reading()

    def _held_only_if_useful(self, outcome: AnyOutcome) -> AnyOutcome | Answer:
        """Hold no poll if the client may be gone or has sent more requests, or if the service is about to stop."""
        if isinstance(outcome, Hold) and (self.ended or self.context.draining or self._is_overfull()):
            return self.context.answers.final_answer(self.address, outcome.poll)
        return outcome

    def _is_overfull(self) -> bool:
        much = self.weight > MAX_WEIGHT
        return self.reader is not None and (much or len(self.reader) > MAX_WAITING_BYTES)

    def _send_answer(self, request: ParsedRequest, answer: Answer) -> None:
        closes = request.closes or self.context.draining
        if self.state is IDLE:
            self.deadline = self.context.time.idle_until
        self.write(self.context.time.response_head.render(answer, CLOSE if closes else request.connection))
        if closes:
            self.close()

    def _send_broken(self, broken: FaultyResponse) -> None:
        self._mark_last()
        self.deadline = _FOREVER
        data = self.context.time.response_head.render(broken.answer, CLOSE)
        broken.send(self.context.loop, self, data)

    def _made(self, request: ParsedRequest, outcome: Outcome | FaultyResponse) -> None:
        TRANSITIONS[self.state].answered(self, request, outcome)

    def _finish(self, request: ParsedRequest, answer: Answer) -> None:
        """Send it, and go on with what has arrived behind it."""
        self.state = WHEN_ANSWERED[self.state]
        self._expect_request()
        self._send_answer(request, answer)
        self.advance()

    def _mark_last(self) -> None:
        self.state, self.reader = LAST, _EMPTY
        self.deadline, self.weight = self.context.time.linger_until, 0


class Handlers(NamedTuple):
    """What a connection does in one state about each thing that can happen."""

    bytes_came: Callable[[Connection, bytes], None]
    client_ended: Callable[[Connection], None]
    news: Callable[[Connection], None]
    answered: Callable[[Connection, ParsedRequest, Outcome | FaultyResponse], None]
    writing_paused: Callable[[Connection], None]
    writing_resumed: Callable[[Connection], None]
    deadline_passed: Callable[[Connection], None]
    server_stops: Callable[[Connection], None]


_c, _no = Connection, Connection.nothing
_ROWS = {
    # bytes_came, client_ended, news, answered, writing_paused, writing_resumed, deadline_passed, server_stops
    IDLE: Handlers(_c.begin, _no, _no, _no, _c.block, _no, _c.close, _c.close),
    READING: Handlers(_c.read_on, _c.advance, _no, _no, _c.block, _no, _c.refuse_slow, _no),
    HELD: Handlers(_c.pile_up, _c.show_news, _c.show_news, _no, _c.block, _no, _no, _c.show_news),
    ANSWERING: Handlers(_c.pile_up, _no, _no, _c.answered, _c.block, _no, _no, _no),
    BLOCKED: Handlers(_c.pile_up, _no, _no, _no, _no, _c.unblock, _c.drop, _c.close_at_rest),
    HELD_BLOCKED: Handlers(_c.pile_up, _c.show_news, _c.show_news, _no, _no, _c.wait_on, _c.drop, _c.show_news),
    ANSWERING_BLOCKED: Handlers(_c.pile_up, _no, _no, _c.answered, _no, _c.wait_on, _c.drop, _no),
    LAST: Handlers(_c.throw_away, _no, _no, _no, _no, _no, _c.drop, _c.drop_if_left_alone),
}
TRANSITIONS = tuple(_ROWS[state] for state in State)
"""What is done, by state. A connection that is lost is over in every state, so that is not in here."""
