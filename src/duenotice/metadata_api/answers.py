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
from duenotice.metadata_api.requests import Approve, Describe, ListVersions, Poll, Query
from duenotice.metadata_api.responses import (
    EMPTY_OK,
    Answer,
    CachedTime,
    blamed,
    document_tail,
    error,
    json,
    not_modified,
    with_body,
)
from duenotice.metadata_api.sessions import Sessions, VmSession
from duenotice.wire.documents import decode_start_requests
from duenotice.wire.instance import INSTANCE_VERSIONS, as_json, as_text, describe, find

if TYPE_CHECKING:
    from duenotice.metadata_api.connection import Connection

_JSON, _TEXT = "application/json; charset=utf-8", "text/plain; charset=utf-8"
_LEAF_NEEDS_TEXT = error(400, "Bad request. A single value is answered only as text. Add format=text to the query.")
THROTTLED = error(429, "Throttle Result: Too Many Requests", "Retry-After: 1")


class Hold(NamedTuple):
    """Not an answer yet: nothing is new for this VM, and the poll wants to wait for news."""

    session: VmSession
    poll: Poll


class FaultyResponse(NamedTuple):
    """An answer that is sent wrongly on purpose; that also ends the connection."""

    answer: Answer
    send: "Callable[[AbstractEventLoop, Connection, bytes], None]"


Outcome = Answer | Hold
Later = Coroutine[Any, Any, Outcome | FaultyResponse]
Delay = Callable[[float], Awaitable[object]]


class Submit(Protocol):
    """How a command reaches the engine; the result is there when the command is durable."""

    def __call__(self, command: Command, actor: str) -> Awaitable[object]:
        """Ask for a change."""


class Responder(Protocol):
    """What a connection needs: `Answers`, or the faults that replace them on purpose."""

    def answer(self, address: str, query: Query, body: bytes) -> Outcome | Later | FaultyResponse:
        """The answer to a question of an address."""

    def recheck(self, address: str, poll: Poll) -> Answer | Hold:
        """The answer to a poll that was about to be held, or that it is still to be held."""

    def final_answer(self, address: str, poll: Poll) -> Answer:
        """The answer that a held poll gets in the end."""


class Answers:
    """All answers of this port."""

    def __init__(
        self,
        submit: Submit,
        publisher: Publisher,
        sessions: Sessions,
        time: CachedTime,
        options: MetadataOptions,
        delay: Delay,
    ) -> None:
        self._submit = submit
        self._publisher = publisher
        self._sessions = sessions
        self._time = time
        self._options = options
        self._delay = delay

    def answer(self, address: str, query: Query, body: bytes) -> Outcome | Later:
        """What an address gets for its question: an answer, a hold, or a coroutine that brings one of them.

        That it may ask was decided before its question was read (`Sessions.admit`).
        """
        if isinstance(query, Answer):
            return query
        session = self._sessions.find(address)
        return self._unknown_caller(address) if session is None else self._answer(address, session, query, body)

    def recheck(self, address: str, poll: Poll) -> Answer | Hold:
        """A poll was about to be held: is it still? There may be news by now, or another VM may have this address."""
        session = self._sessions.find(address)
        return self._unknown_caller(address) if session is None else self._poll(session, poll)

    def final_answer(self, address: str, poll: Poll) -> Answer:
        """What a held poll gets in the end; who asks is looked up again, because the fleet may have changed."""
        session = self._sessions.find(address)
        return self._unknown_caller(address) if session is None else self._show(self._sessions.page_of(session), poll)

    def _answer(
        self, address: str, session: VmSession, query: Poll | Approve | Describe | ListVersions, body: bytes
    ) -> Outcome | Later:
        match query:
            case Poll() if self._sessions.page_of(session).enabled:
                return self._poll(session, query)
            case Poll():
                return self._first_poll(address, session, query)
            case Approve():
                return self._approve(session, body)
            case Describe():
                return self._describe(session, query)
            case ListVersions():
                return json(200, {"apiVersions": INSTANCE_VERSIONS})
            case _:
                assert_never(query)

    def _poll(self, session: VmSession, poll: Poll) -> Outcome:
        page = self._sessions.page_of(session)
        page.last_poll = self._time.steady
        if poll.wait and poll.has(page.document.incarnation):
            return Hold(session, poll)
        return self._show(page, poll)

    def _show(self, page: ScopePage, poll: Poll) -> Answer:
        if poll.has(page.document.incarnation):
            return not_modified(page.document.incarnation)
        return Answer(200, document_tail(page, poll.version))

    async def _first_poll(self, address: str, session: VmSession, poll: Poll) -> Outcome:
        try:
            await self._enable(session)
        except DuenoticeError as problem:
            return self._unknown_caller(address) if self._sessions.find(address) is None else blamed(problem)
        if self._options.first_answer_empty:
            return EMPTY_OK
        # Looked up again: the VM may be in another scope by now, or gone (S16).
        present = self._sessions.find(address)
        return self._unknown_caller(address) if present is None else self._poll(present, poll)

    async def _enable(self, session: VmSession) -> None:
        """F01: the first request of a scope turns it on, and may be answered late."""
        await self._submit(EnableScope(session.vm.name), actor=f"vm/{session.vm.name}")
        if self._options.first_answer_delay:
            await self._delay(self._options.first_answer_delay)

    async def _approve(self, session: VmSession, body: bytes) -> Outcome:
        try:
            if not self._sessions.page_of(session).enabled:
                with suppress(NotFound):  # it has just left the fleet; its approval looks like any other (S16)
                    await self._enable(session)
            self._sessions.page_of(session).last_poll = self._time.steady
            command = ApproveEvents(decode_start_requests(body), vm=session.vm.name)
            await self._submit(command, actor=f"vm/{session.vm.name}")
        except DuenoticeError as problem:
            return blamed(problem)
        return EMPTY_OK

    def _describe(self, session: VmSession, query: Describe) -> Answer:
        fleet = self._publisher.state.fleet
        try:
            node = find(describe(session.vm, fleet.groups.get(session.vm.group or ""), fleet.site), query.path)
        except DuenoticeError as problem:
            return error(404, f"{problem.message} {problem.hint}")
        if isinstance(node, str) and not query.as_text and not self._options.leaf_json:
            return _LEAF_NEEDS_TEXT
        return with_body(200, as_text(node), _TEXT) if query.as_text else with_body(200, as_json(node), _JSON)

    def _unknown_caller(self, address: str) -> Answer:
        """A09: an unknown address. If a default VM is set but gone, the hint says that instead."""
        default = self._options.default_vm
        hint = "Add it to the fleet, or start the service with a default VM."
        if default is not None:
            hint = f"The default VM {default} is not in the fleet any more. Add the address or this VM to the fleet."
        return error(404, f"Not found. No VM is registered with the address {address}. {hint}")
