"""One connection of a VM: reads requests, sends answers, keeps order, deadlines and limits.

It knows no paths and no rules. At rest a connection has no reader. It has one while a request is incomplete, while its
answer is pending, and after the last answer; bytes that arrive with no reader there are therefore the beginning of a
request.
"""

import asyncio
import os
from typing import TypeVar, cast

from duenotice.errors import Malformed
from duenotice.metadata_api.answers import Broken, Hold, Later, Outcome
from duenotice.metadata_api.caller import plain_address
from duenotice.metadata_api.door import Door
from duenotice.metadata_api.questions import Ask
from duenotice.metadata_api.reader import RequestReader
from duenotice.metadata_api.requests import Head
from duenotice.metadata_api.responses import CLOSE, CONTINUE, Answer, blamed, document_tail, error

REQUESTS_PER_TURN = 16
"""Pipelined requests answered before others get their turn."""

MAX_WAITING_BYTES = 64 * 1024
"""What may pile up behind a pending answer before we stop reading."""

_READ_AHEAD = 4096
_FOREVER = float("inf")
_TOO_MANY = error(429, "Too many connections. Close some, or keep one open and use it again.", "Retry-After: 1")
_TOO_SLOW = error(408, "The request took too long to arrive. Send it again, faster.")
_BROKEN = error(500, "Something is wrong in the server. Look at its log.")

_DEAF = RequestReader()
"""The reader of all connections that have had their last answer; nothing is ever fed to it."""

AnyOutcome = TypeVar("AnyOutcome")


class Connection(asyncio.Protocol):
    """A client's connection; `busy` while an answer is pending, `blocked` while the client does not read."""

    __slots__ = ("address", "blocked", "busy", "closing", "deadline", "door", "ended", "reader", "transport")

    def __init__(self, door: Door) -> None:
        self.door = door
        self.reader: RequestReader | None = None
        self.busy = self.blocked = self.closing = self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # There is no peer name when the client has reset the connection before we took it up.
        self.address = plain_address((transport.get_extra_info("peername") or ("",))[0])
        self.deadline = self.door.pulse.request_until
        if self.door.crowd.enter(self):
            self._read_ahead()
        else:
            self._turn_away()

    def _read_ahead(self) -> None:
        """Take what came with the connection; the loop begins to read only after this, and asks the kernel first."""
        try:
            data = os.read(self.transport.get_extra_info("socket").fileno(), _READ_AHEAD)
        except OSError:
            return
        if data:
            self.data_received(data)
        else:
            self._close()

    def data_received(self, data: bytes) -> None:
        """Answer the one request that most VMs send once a second in as few steps as possible; leave all others."""
        door = self.door
        if self.reader is None and (ask := door.known.get(data)) is not None and (version := ask.plain) is not None:
            lane = door.lanes.get(self.address)
            if lane is not None and (page := lane.page).enabled and lane.polls.take((pulse := door.pulse).now):
                heading = pulse.heading
                page.last_poll = pulse.steady
                self.deadline = pulse.idle_until
                last_digits = heading.last_digits()
                tail = page.rendered[version.index] or document_tail(page, version)
                self.transport.write(heading.ok + last_digits + ask.connection + tail)
                if ask.closes:
                    self._close()
                return
        self._receive(data)

    def _receive(self, data: bytes) -> None:
        if self.closing:
            return
        if self.reader is None:
            ask = self.door.known.get(data) or self.door.memo.learn(data)
            if ask is not None:
                self._answer(ask, b"")
                return
            self.reader = RequestReader()
            self._expect_request()
        self.reader.feed(data)
        if not self.busy:
            self._advance()
        elif self._is_overfull():
            self.transport.pause_reading()
            self.wake()

    def _expect_request(self) -> None:
        self.deadline = self.door.pulse.request_until

    def _advance(self) -> None:
        """Answer whole requests that have arrived, in order, and only a few in one turn of the loop."""
        for _ in range(REQUESTS_PER_TURN):
            if self.reader is None or self.busy or self.blocked or self.closing:
                return
            try:
                received = self.reader.next()
            except Malformed as problem:
                self._say_goodbye(blamed(problem))
                return
            if received is None:
                self._await_more(self.reader)
                return
            self._expect_request()
            self._answer(self.door.router.ask(received.head), received.body)
        self.transport.pause_reading()
        self.door.loop.call_soon(self._advance)

    def _await_more(self, reader: RequestReader) -> None:
        if reader.untouched:
            self._rest()
        elif self.ended:
            self._say_goodbye(blamed(Malformed("The request is incomplete.", hint="Send all of it.")))
        elif reader.held_back is not None:
            self._invite_body(reader.held_back)
        self._resume_reading()

    def _resume_reading(self) -> None:
        # After the client has closed, every read only returns the end again.
        if not self.ended:
            self.transport.resume_reading()

    def _rest(self) -> None:
        """All that came is answered."""
        self.reader = None
        self.deadline = self.door.pulse.idle_until
        if self.ended:
            self._close()

    def _invite_body(self, head: Head) -> None:
        """A11: send 100 Continue, unless the request will be refused anyway."""
        ask = self.door.router.ask(head)
        if isinstance(ask.question, Answer):
            self._say_goodbye(ask.question)
        else:
            self.transport.write(CONTINUE)

    def _answer(self, ask: Ask, body: bytes) -> None:
        outcome = self._held_only_if_useful(self.door.answers.answer(self.address, ask.question, body))
        if isinstance(outcome, Answer):
            self._send(ask, outcome)
            return
        if isinstance(outcome, Broken):
            self._send_broken(outcome)
            return
        self.busy = True
        self.deadline = _FOREVER
        if self.reader is None:
            self.reader = RequestReader()
        elif not self._is_overfull():
            self._resume_reading()
        if isinstance(outcome, Hold):
            self.door.waiting.hold(self, ask, outcome.poll, outcome.lane, self.wake, self.address)
        else:
            self._answer_later(ask, outcome)

    def _held_only_if_useful(self, outcome: AnyOutcome) -> AnyOutcome | Answer:
        """Hold no poll if the client may be gone or has sent more requests, or if the server is about to stop."""
        if isinstance(outcome, Hold) and (self.ended or self.door.draining or self._is_overfull()):
            return self.door.answers.again(self.address, outcome.poll)
        return outcome

    def _is_overfull(self) -> bool:
        return self.reader is not None and len(self.reader) > MAX_WAITING_BYTES

    def _send(self, ask: Ask, answer: Answer) -> None:
        closes = ask.closes or self.door.draining
        if self.reader is None:
            self.deadline = self.door.pulse.idle_until
        self.transport.write(self.door.pulse.heading.render(answer, CLOSE if closes else ask.connection))
        if closes:
            self._close()

    def _send_broken(self, broken: Broken) -> None:
        self._mark_closing()
        self.deadline = _FOREVER
        data = self.door.pulse.heading.render(broken.answer, CLOSE)
        broken.send(self.door.loop, self.transport, data)

    def _answer_later(self, ask: Ask, later: Later) -> None:
        task = self.door.loop.create_task(later)
        self.door.tasks.add(task)
        task.add_done_callback(lambda done: self._finish_later(ask, done))

    def _finish_later(self, ask: Ask, task: asyncio.Task[Outcome | Broken]) -> None:
        self.door.tasks.discard(task)
        if task.cancelled():
            return
        problem = task.exception()
        if problem is not None:
            context = {"message": "A request failed.", "exception": problem}
            self.door.loop.call_exception_handler(context)
        outcome = task.result() if problem is None else _BROKEN
        if isinstance(outcome, Hold):
            # The loop has gone on since this was decided, so it is checked again.
            outcome = self._held_only_if_useful(self.door.answers.still(self.address, outcome.poll))
        if self.closing:
            return
        if isinstance(outcome, Hold):
            self.door.waiting.hold(self, ask, outcome.poll, outcome.lane, self.wake, self.address)
        elif isinstance(outcome, Broken):
            self._send_broken(outcome)
        else:
            self._finish(ask, outcome)

    def _finish(self, ask: Ask, answer: Answer) -> None:
        """The pending answer is there; go on with what has arrived behind it."""
        self.busy = False
        self._expect_request()
        self._send(ask, answer)
        self._advance()

    def wake(self) -> None:
        """There may be news for a held poll, or its time is up."""
        held = self.door.waiting.let_go(self)
        if held is None:
            return
        answer = self.door.answers.again(self.address, held.poll)
        if self.reader is not None and self.reader.untouched and not (self.ended or self.blocked):
            # The usual case: nothing else was sent. Ten thousand may be woken at once.
            self.busy = False
            self.reader = None
            self._send(held.ask, answer)
        else:
            self._finish(held.ask, answer)

    def eof_received(self) -> bool:
        """The client sends no more, but may still read. If nothing is pending, the connection ends."""
        self.ended = True
        if self.closing or self.reader is None:
            return False
        self.wake()
        self._advance()
        return True

    def pause_writing(self) -> None:
        """The client does not read its answers: take no more of its requests until it does (S24)."""
        self.blocked = True
        if not self.closing:
            self._expect_request()
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.blocked = False
        if self.closing:
            return
        if self.reader is None:
            self.deadline = self.door.pulse.idle_until
            self._resume_reading()
        else:
            self._expect_request()
            self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        self.door.waiting.let_go(self)
        self.door.leave(self)

    def expire(self) -> None:
        """The deadline has passed."""
        if self.closing or self.blocked:
            self.transport.abort()
            return
        if self.reader is not None:
            self.transport.write(self.door.pulse.heading.render(_TOO_SLOW, CLOSE))
        self._close()

    def drain(self) -> None:
        """The server is about to stop: answer who waits, close what is idle, let the rest finish."""
        if self.reader is None:
            self._close()
        else:
            self.wake()

    def _turn_away(self) -> None:
        """Too many connections: say so, as long as there are not too many even for that."""
        if self.door.crowd.is_flooded_by(self):
            self.transport.abort()
        else:
            self._say_goodbye(_TOO_MANY)

    def _say_goodbye(self, answer: Answer) -> None:
        """Send a last answer to a client that may still be sending.

        Closing at once would reset the connection and could lose the answer, so we only stop writing, and go on reading
        for a short time.
        """
        self.transport.write(self.door.pulse.heading.render(answer, CLOSE))
        if self.ended:
            self._close()
            return
        self._mark_closing()
        self.transport.write_eof()
        self.transport.resume_reading()

    def _close(self) -> None:
        self._mark_closing()
        self.transport.close()

    def _mark_closing(self) -> None:
        self.closing = True
        self.reader = _DEAF
        self.deadline = self.door.pulse.linger_until
