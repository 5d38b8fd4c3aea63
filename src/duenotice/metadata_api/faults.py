"""Wrong answers on purpose and for a while, to test clients (H06); the promises are still kept behind them.

While there is no fault, nothing of this runs: the first fault replaces the right answers. A fault only changes
what is shown: an event that vanishes still goes on, and one whose notice seems short does not start earlier.
"""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from msgspec import structs

from duenotice.clock import micros
from duenotice.domain.state import Document
from duenotice.engine.publisher import ScopePage
from duenotice.errors import Malformed
from duenotice.metadata_api.answers import THROTTLED, Delay, FaultyResponse, Hold, Later, Outcome, Responder
from duenotice.metadata_api.connection import Connection
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.requests import Poll, Query
from duenotice.metadata_api.responses import EMPTY_OK, Answer, error, json, shown
from duenotice.metadata_api.sessions import VmSession

PIECES = 10
NEWEST_KNOWN = "2019-01-01"
"""The newest api-version that is known under `newer-400` and `newer-404`."""

TOO_MUCH = timedelta(minutes=10)
"""How much notice is promised but not given."""

_ASKED_FOR = "The operator asked for this fault. Try again."


class FaultyRequest(NamedTuple):
    """A request that gets a wrong answer; `right` is the correct one."""

    page: ScopePage
    query: Query
    right: Callable[[], Outcome | Later | FaultyResponse]
    delay: Delay
    seconds: float
    """How late an answer is, or how long it takes to arrive bit by bit."""


Wrong = Callable[[FaultyRequest], Outcome | Later | FaultyResponse]
Send = Callable[[asyncio.AbstractEventLoop, Connection, bytes], None]


def _always(answer: Answer | FaultyResponse) -> Wrong:
    def wrong(asked: FaultyRequest) -> Answer | FaultyResponse:
        return answer

    return wrong


def _abort(_: asyncio.AbstractEventLoop, connection: Connection, __: bytes) -> None:
    connection.drop()


def _send_half(_: asyncio.AbstractEventLoop, connection: Connection, data: bytes) -> None:
    connection.write(data[: len(data) - len(data.partition(b"\r\n\r\n")[2]) // 2 - 1])
    connection.close()


def _drip(seconds: float) -> Send:
    """Send an answer bit by bit; the last bit comes when the seconds are over."""

    def send(loop: asyncio.AbstractEventLoop, connection: Connection, data: bytes) -> None:
        size = -(-len(data) // PIECES)
        pieces = [data[begin : begin + size] for begin in range(0, len(data), size)]
        _send_next(loop, connection, pieces, seconds / (len(pieces) - 1))

    return send


def _send_next(loop: asyncio.AbstractEventLoop, connection: Connection, pieces: list[bytes], pause: float) -> None:
    if connection.fd < 0:
        return
    connection.write(pieces[0])
    if pieces[1:]:
        loop.call_later(pause, _send_next, loop, connection, pieces[1:], pause)
    else:
        connection.close()


def _half(asked: FaultyRequest) -> FaultyResponse:
    if isinstance(asked.query, Poll):
        return FaultyResponse(_document(asked.page.document, asked.query), _send_half)
    return DROPPED


def _slow(asked: FaultyRequest) -> Outcome | Later | FaultyResponse:
    right = asked.right()
    return _slowly(asked, right) if isinstance(right, Coroutine) else _dripping(asked, right)


async def _slowly(asked: FaultyRequest, right: Later) -> Outcome | FaultyResponse:
    """The first poll of a scope is answered when the scope is on, and slowly too (F01)."""
    return _dripping(asked, await right)


def _dripping(asked: FaultyRequest, outcome: Outcome | FaultyResponse) -> Outcome | FaultyResponse:
    return FaultyResponse(outcome, _drip(asked.seconds)) if isinstance(outcome, Answer) else outcome


async def _late(asked: FaultyRequest) -> Outcome | FaultyResponse:
    await asked.delay(asked.seconds)
    right = asked.right()
    return await right if isinstance(right, Coroutine) else right


def _newer(answer: Answer) -> Wrong:
    """A region that does not know the newest versions yet (A04)."""

    def wrong(asked: FaultyRequest) -> Outcome | Later | FaultyResponse:
        version = asked.query.version.name if isinstance(asked.query, Poll) else ""
        return _always(answer)(asked) if version > NEWEST_KNOWN else asked.right()

    return wrong


def _lying(lie: Callable[[Document], Document]) -> Wrong:
    """A document that is not true; a client that already has the right one gets the wrong one too."""

    def wrong(asked: FaultyRequest) -> Outcome | Later | FaultyResponse:
        if not isinstance(asked.query, Poll) or not asked.page.enabled:
            return asked.right()
        return _document(lie(asked.page.document), asked.query)

    return wrong


def _vanished(document: Document) -> Document:
    return Document(document.incarnation)


def _promised_more(document: Document) -> Document:
    later = (structs.replace(event, not_before=event.not_before + TOO_MUCH) for event in document.events)
    return Document(document.incarnation, tuple(later))


def _document(document: Document, poll: Poll) -> Answer:
    return Answer(200, shown(document, poll.version))


DROPPED = FaultyResponse(EMPTY_OK, _abort)
_UNKNOWN_VERSION = "Bad request. api-version is invalid or was not specified in the request."
FAULTS: dict[str, Wrong] = {
    **{str(status): _always(error(status, _ASKED_FOR)) for status in (400, 404, 410)},
    "429": _always(THROTTLED),
    "500": _always(error(500, _ASKED_FOR)),
    "503": _always(error(503, _ASKED_FOR, "Retry-After: 1")),
    "empty": _always(EMPTY_OK),
    "drop": _always(DROPPED),
    "half": _half,
    "slow": _slow,
    "late": _late,
    "newer-400": _newer(json(400, {"error": _UNKNOWN_VERSION, "newest-versions": [NEWEST_KNOWN]})),
    "newer-404": _newer(error(404, f"Not found. The newest api-version here is {NEWEST_KNOWN}.")),
    "vanish": _lying(_vanished),
    "short-notice": _lying(_promised_more),
}
"""What a fault answers."""


class _Fault(NamedTuple):
    wrong: Wrong
    until: int


class Faults:
    """The faults there are, by VM; kept in memory only, ending by themselves on the service's clock."""

    def __init__(self, context: ServerContext, delay: Delay = asyncio.sleep) -> None:
        self._context = context
        self._delay = delay
        self._right: Responder = context.answers
        self._warm_sessions = context.warm_sessions
        self._by_vm: dict[str, _Fault] = {}
        self._of_all: Wrong | None = None

    def put(self, vm: str, answer: str, seconds: float) -> None:
        """Answer all requests of a VM like this for this long; a new fault replaces the old one."""
        self._by_vm[vm] = _Fault(_fault(answer), self._now() + micros(seconds))
        self._step_in()
        for held in list(self._context.long_polls.held.values()):
            if held.vm == vm:
                held.wake()  # a held poll would meet the fault only minutes later

    def put_on_all(self, answer: str) -> None:
        """Give this answer to every VM that has no fault of its own, for as long as we run."""
        self._of_all = _fault(answer)
        self._step_in()

    def lift(self, vm: str) -> None:
        """Answer a VM correctly again."""
        self._by_vm.pop(vm, None)
        if not self._by_vm and self._of_all is None:
            self._context.answers, self._context.warm_sessions = self._right, self._warm_sessions

    def answer(self, address: str, query: Query, body: bytes) -> Outcome | Later | FaultyResponse:
        """Replaces the right answers: the fault of the caller, or the right answer."""
        self._lift_what_is_over()
        session = self._context.sessions.find(address)
        wrong = None if session is None else self._wrong_for(session.vm.name)
        if wrong is None or session is None:
            return self._right.answer(address, query, body)
        return self._answer_wrongly(wrong, session, address, query, body)

    def recheck(self, address: str, poll: Poll) -> Answer | Hold:
        """The same as without a fault: it was answered correctly so far."""
        return self._right.recheck(address, poll)

    def final_answer(self, address: str, poll: Poll) -> Answer:
        """A poll that was held before the fault came is answered correctly."""
        return self._right.final_answer(address, poll)

    def _answer_wrongly(
        self, wrong: Wrong, session: VmSession, address: str, query: Query, body: bytes
    ) -> Outcome | Later | FaultyResponse:
        time, page = self._context.time, self._context.sessions.page_of(session)
        right = partial(self._right.answer, address, query, body)
        return wrong(FaultyRequest(page, query, right, self._delay, time.options.fault_seconds))

    def _wrong_for(self, vm: str) -> Wrong | None:
        fault = self._by_vm.get(vm)
        return self._of_all if fault is None else fault.wrong

    def _step_in(self) -> None:
        # Without sessions every request takes the slow path, which leads here.
        self._context.answers, self._context.warm_sessions = self, {}

    def _lift_what_is_over(self) -> None:
        """For all VMs: the fault of a VM that never asks again must not keep the others on the slow path."""
        now = self._now()
        for vm in [vm for vm, fault in self._by_vm.items() if fault.until <= now]:
            self.lift(vm)

    def _now(self) -> int:
        return self._context.time.clock.now().steady


def _fault(answer: str) -> Wrong:
    if answer not in FAULTS:
        raise Malformed(f"{answer[:40]!r} is not a fault.", hint=f"Use one of {', '.join(FAULTS)}.")
    return FAULTS[answer]
