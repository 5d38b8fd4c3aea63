"""Answers what VMs ask: at once from the publisher, or through the engine when something has to change first.

A poll of a scope that listens never reaches the engine.
"""

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, assert_never

from duenotice.domain.commands import ApproveEvents, Command, EnableScope
from duenotice.engine.publisher import Publisher, ScopePage
from duenotice.errors import DuenoticeError, NotFound
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.requests import Describe, LetStart, ListVersions, Poll, Question
from duenotice.metadata_api.responses import (
    EMPTY_OK,
    Answer,
    Pulse,
    blamed,
    document_tail,
    error,
    json,
    not_modified,
    with_body,
)
from duenotice.metadata_api.sessions import Callers, Lane
from duenotice.wire.documents import decode_start_requests
from duenotice.wire.instance import INSTANCE_VERSIONS, as_json, as_text, describe, find

if TYPE_CHECKING:
    from duenotice.metadata_api.connection import Connection

_JSON, _TEXT = "application/json; charset=utf-8", "text/plain; charset=utf-8"
_LEAF_NEEDS_TEXT = error(400, "Bad request. A single value is answered only as text. Add format=text to the query.")
THROTTLED = error(429, "Throttle Result: Too Many Requests", "Retry-After: 1")


class Hold(NamedTuple):
    """Not an answer yet: nothing is new for this lane, and the poll wants to wait for news."""

    lane: Lane
    poll: Poll


class Broken(NamedTuple):
    """An answer that is sent wrongly on purpose; that also ends the connection."""

    answer: Answer
    send: "Callable[[AbstractEventLoop, Connection, bytes], None]"


Outcome = Answer | Hold
Later = Coroutine[Any, Any, Outcome | Broken]
Delay = Callable[[float], Awaitable[object]]


class Submit(Protocol):
    """How a command reaches the engine; the result is there when the command is durable."""

    def __call__(self, command: Command, actor: str) -> Awaitable[object]:
        """Ask for a change."""


class Answering(Protocol):
    """What a connection needs: `Answers`, or the faults that replace them on purpose."""

    def answer(self, address: str, question: Question, body: bytes) -> Outcome | Later | Broken:
        """The answer to a question of an address."""

    def still(self, address: str, poll: Poll) -> Answer | Hold:
        """The answer to a poll that was about to be held, or that it is still to be held."""

    def again(self, address: str, poll: Poll) -> Answer:
        """The answer that a held poll gets in the end."""


class Answers:
    """All answers of this door."""

    def __init__(
        self,
        submit: Submit,
        publisher: Publisher,
        callers: Callers,
        pulse: Pulse,
        options: MetadataOptions,
        delay: Delay,
    ) -> None:
        self._submit = submit
        self._publisher = publisher
        self._callers = callers
        self._pulse = pulse
        self._options = options
        self._delay = delay

    def answer(self, address: str, question: Question, body: bytes) -> Outcome | Later:
        """What an address gets for its question: an answer, a hold, or a coroutine that brings one of them.

        That it may ask was decided before its question was read (`Callers.admit`).
        """
        if isinstance(question, Answer):
            return question
        lane = self._callers.find(address)
        return self._stranger(address) if lane is None else self._answer(address, lane, question, body)

    def still(self, address: str, poll: Poll) -> Answer | Hold:
        """A poll was about to be held: is it still? There may be news by now, or another VM may have this address."""
        lane = self._callers.find(address)
        return self._stranger(address) if lane is None else self._poll(lane, poll)

    def again(self, address: str, poll: Poll) -> Answer:
        """What a held poll gets in the end; who asks is looked up again, because the fleet may have changed."""
        lane = self._callers.find(address)
        return self._stranger(address) if lane is None else self._show(self._callers.page_of(lane), poll)

    def _answer(
        self, address: str, lane: Lane, question: Poll | LetStart | Describe | ListVersions, body: bytes
    ) -> Outcome | Later:
        match question:
            case Poll() if self._callers.page_of(lane).enabled:
                return self._poll(lane, question)
            case Poll():
                return self._first_poll(address, lane, question)
            case LetStart():
                return self._approve(lane, body)
            case Describe():
                return self._describe(lane, question)
            case ListVersions():
                return json(200, {"apiVersions": INSTANCE_VERSIONS})
            case _:
                assert_never(question)

    def _poll(self, lane: Lane, poll: Poll) -> Outcome:
        page = self._callers.page_of(lane)
        page.last_poll = self._pulse.steady
        if poll.wait and poll.has(page.document.incarnation):
            return Hold(lane, poll)
        return self._show(page, poll)

    def _show(self, page: ScopePage, poll: Poll) -> Answer:
        if poll.has(page.document.incarnation):
            return not_modified(page.document.incarnation)
        return Answer(200, document_tail(page, poll.version))

    async def _first_poll(self, address: str, lane: Lane, poll: Poll) -> Outcome:
        try:
            await self._enable(lane)
        except DuenoticeError as problem:
            return self._stranger(address) if self._callers.find(address) is None else blamed(problem)
        if self._options.first_answer_empty:
            return EMPTY_OK
        # Looked up again: the VM may be in another scope by now, or gone (S16).
        present = self._callers.find(address)
        return self._stranger(address) if present is None else self._poll(present, poll)

    async def _enable(self, lane: Lane) -> None:
        """F01: the first request of a scope turns it on, and may be answered late."""
        await self._submit(EnableScope(lane.vm.name), actor=f"vm/{lane.vm.name}")
        if self._options.first_answer_delay:
            await self._delay(self._options.first_answer_delay)

    async def _approve(self, lane: Lane, body: bytes) -> Outcome:
        try:
            if not self._callers.page_of(lane).enabled:
                with suppress(NotFound):  # it has just left the fleet; its approval looks like any other (S16)
                    await self._enable(lane)
            self._callers.page_of(lane).last_poll = self._pulse.steady
            command = ApproveEvents(decode_start_requests(body), vm=lane.vm.name)
            await self._submit(command, actor=f"vm/{lane.vm.name}")
        except DuenoticeError as problem:
            return blamed(problem)
        return EMPTY_OK

    def _describe(self, lane: Lane, question: Describe) -> Answer:
        fleet = self._publisher.state.fleet
        try:
            node = find(describe(lane.vm, fleet.groups.get(lane.vm.group or ""), fleet.site), question.path)
        except DuenoticeError as problem:
            return error(404, f"{problem.message} {problem.hint}")
        if isinstance(node, str) and not question.as_text and not self._options.leaf_json:
            return _LEAF_NEEDS_TEXT
        return with_body(200, as_text(node), _TEXT) if question.as_text else with_body(200, as_json(node), _JSON)

    def _stranger(self, address: str) -> Answer:
        """A09: an unknown address. If a default VM is set but gone, the hint says that instead."""
        default = self._options.default_vm
        hint = "Add it to the fleet, or start the service with a default VM."
        if default is not None:
            hint = f"The default VM {default} is not in the fleet any more. Add the address or this VM to the fleet."
        return error(404, f"Not found. No VM is registered with the address {address}. {hint}")
