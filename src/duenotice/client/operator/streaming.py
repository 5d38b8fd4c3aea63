"""The operator's client for asyncio: carries the same requests as the other, over streams, and decides nothing."""

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, Self, assert_never

from duenotice.client.exchange import FAILURES, EndlessAnswer, Show, Sleep, answered
from duenotice.client.line import MOST_IDLE
from duenotice.client.operator.answer import LARGEST
from duenotice.client.operator.async_listing import AsyncListing
from duenotice.client.operator.async_verbs import AsyncVerbs
from duenotice.client.operator.base import IN_PROCESS, Explain, as_it_is, context_of, feed_talk
from duenotice.client.operator.feed import FeedTalk, OnFound, OnLost
from duenotice.client.operator.place import Place, chosen_place, chosen_token
from duenotice.client.operator.request import OperatorRequest, QueryValue
from duenotice.client.operator.talks import (
    BUDGET_SECONDS,
    TIMEOUT_SECONDS,
    Ask,
    HangUp,
    Hear,
    Listen,
    Manner,
    OperatorStep,
    OperatorTalk,
    T,
    call,
)
from duenotice.client.patience import Patience
from duenotice.client.response import Response
from duenotice.client.stream_line import StreamLine
from duenotice.errors import DuenoticeError, Refused
from duenotice.wire.operator import Record

if TYPE_CHECKING:
    from ssl import SSLContext

    from duenotice.client.operator.in_process import App


class AsyncHeard(Protocol):
    """An answer that does not end."""

    head: Response

    async def more(self, deadline: float) -> bytes:
        """The next bytes, empty at the end."""

    async def close(self) -> None:
        """Listen no longer."""


class AsyncCarrier(Protocol):
    """Brings requests to the service; a failure is one of `FAILURES`."""

    async def ask(self, request: OperatorRequest[Any], deadline: float) -> Response:
        """The whole answer."""

    async def listen(self, request: OperatorRequest[Any], deadline: float) -> AsyncHeard:
        """The answer as it comes."""

    async def close(self) -> None:
        """End what is kept open."""


class AsyncOperatorClient(AsyncVerbs):
    """`OperatorClient` with `await`; any number of its calls may be under way at once, in one event loop.

    >>> async with AsyncOperatorClient() as client:
    ...     async for vm in client.vms(group="set/web"):
    ...         print(vm.name, vm.state)
    ...     await client.restart_vm("web-0")
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        budget: float = BUDGET_SECONDS,
        tls: "SSLContext | None" = None,
        explain: Explain = as_it_is,
    ) -> None:
        place = chosen_place(endpoint)
        carrier = StreamCarrier(place, chosen_token(token), context_of(place, tls))
        self._begin(carrier, place.url, Patience(timeout, budget), explain)

    @classmethod
    def in_process(
        cls,
        app: "App",
        token: str,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        explain: Explain = as_it_is,
    ) -> Self:
        """A client of a service in this process, with no network in between.

        The service runs on `loop`, by default the one that runs here; the client may be used on any.
        """
        from duenotice.client.operator.in_process import AppCarrier

        client = cls.__new__(cls)
        carrier = AppCarrier(app, token, loop or asyncio.get_running_loop())
        client._begin(carrier, IN_PROCESS, Patience(timeout, 0), explain)
        return client

    def _begin(self, carrier: AsyncCarrier, where: str, patience: Patience, explain: Explain) -> None:
        self.endpoint = where
        self._carrier, self._explain, self._closed = carrier, explain, False
        self._manner = Manner(where, patience)

    def feed(
        self, after: int | None = None, *, on_lost: OnLost | None = None, on_found: OnFound | None = None
    ) -> "AsyncRecordFeed":
        """What happens, record by record, as it is committed: from a position of the journal on, or from now.

        A lost connection is tried again until it works, and goes on where it was lost; `on_lost` and `on_found` are
        told, each once. With `async with client.feed() as feed:` nothing is missed from there on.
        """
        talk = feed_talk(self._manner, after, on_lost, on_found)
        return AsyncRecordFeed(talk, self._conversation())

    async def close(self) -> None:
        """End all idle connections. The client cannot be used afterwards."""
        self._closed = True
        await self._carrier.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _do(self, request: OperatorRequest[T]) -> T:
        value = await self._conversation().carry(call(request, self._manner))
        assert not isinstance(value, Show)
        return value

    def _all(self, kind: type[T], *path: str, **query: QueryValue) -> AsyncListing[T]:
        return AsyncListing(self._do, kind, path, query)

    def _conversation(self) -> "AsyncConversation":
        if self._closed:
            raise Refused("This client is closed.", hint="Make a new one.")
        return AsyncConversation(self._carrier, self._explain)


class AsyncRecordFeed:
    """An asynchronous iterator of records; waits for the next one, and never ends by itself."""

    def __init__(self, talk: FeedTalk[Record], conversation: "AsyncConversation") -> None:
        self._talk, self._conversation, self._running = talk, conversation, talk.run()

    @property
    def position(self) -> int | None:
        """How far it has come in the journal: give it as `after` to go on there another day."""
        return self._talk.position

    async def open(self) -> None:
        """Connect, if it is not yet connected: from then on nothing is missed."""
        if not self._talk.is_open:
            await self._conversation.carry(self._running)

    async def close(self) -> None:
        """Listen no longer."""
        self._running.close()
        await self._conversation.close()

    async def __aenter__(self) -> "AsyncRecordFeed":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> "AsyncRecordFeed":
        return self

    async def __anext__(self) -> Record:
        await self.open()
        shown = await self._conversation.carry(self._running)
        if not isinstance(shown, Show):  # it was closed
            raise StopAsyncIteration
        record: Record = shown.shown
        return record


class AsyncConversation:
    """Does what a talk says, with a carrier; its errors are told in the words of the client's `explain`."""

    def __init__(self, carrier: AsyncCarrier, explain: Explain) -> None:
        self._carrier, self._explain = carrier, explain
        self._heard: AsyncHeard | None = None

    async def carry(self, talk: OperatorTalk[T]) -> Show | T:
        """Carry a talk to its end, or to the next thing it shows."""
        try:
            return await self._carry(talk)
        except DuenoticeError as error:
            await self.close()
            raise self._explain(error) from None
        except BaseException:
            await self.close()
            raise

    async def _carry(self, talk: OperatorTalk[T]) -> Show | T:
        reply, failure = None, None
        while True:
            try:
                step = talk.send(reply) if failure is None else talk.throw(failure)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Show):
                return step
            try:
                reply, failure = await self._do(step), None
            except FAILURES as error:
                failure = error

    async def _do(self, step: OperatorStep) -> Any:
        match step:
            case Ask(request, deadline):
                return await self._carrier.ask(request, deadline)
            case Listen(request, deadline):
                await self.close()
                self._heard = await self._carrier.listen(request, deadline)
                return self._heard.head
            case Hear(deadline):
                return b"" if self._heard is None else await self._heard.more(deadline)
            case HangUp():
                return await self.close()
            case Sleep(seconds):
                return await asyncio.sleep(seconds)
            case Show():
                return None
            case _:
                assert_never(step)

    async def close(self) -> None:
        """End what it listens to."""
        heard, self._heard = self._heard, None
        if heard is not None:
            await heard.close()


class StreamCarrier:
    """Over streams; a few connections are kept open between calls."""

    def __init__(self, place: Place, token: str, tls: "SSLContext | None") -> None:
        self._place, self._token, self._tls = place, token, tls
        self._idle: list[StreamLine] = []
        self._closed = False

    async def ask(self, request: OperatorRequest[Any], deadline: float) -> Response:
        line = self._idle.pop() if self._idle else StreamLine(self._place.address, None, self._tls)
        data = request.encode(self._place.host, self._token)
        try:
            response = await line.carry(answered(data, deadline, LARGEST, reuse=request.may_be_repeated))
            assert not isinstance(response, Show)
        except BaseException:
            line.close()
            raise
        if self._closed or len(self._idle) >= MOST_IDLE:
            line.close()
        else:
            self._idle.append(line)
        return response

    async def listen(self, request: OperatorRequest[Any], deadline: float) -> AsyncHeard:
        line, answer = StreamLine(self._place.address, None, self._tls), EndlessAnswer(LARGEST)
        try:
            head = await line.carry(answer.begin(request.encode(self._place.host, self._token), deadline))
            assert not isinstance(head, Show)
        except BaseException:
            line.close()
            raise
        return StreamHeard(Response(head.status, head.headers, b""), line, answer)

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()
        await asyncio.sleep(0)  # the transports end with the next turn of the loop


class StreamHeard:
    """An answer that does not end, on a connection of its own."""

    def __init__(self, head: Response, line: StreamLine, answer: EndlessAnswer) -> None:
        self.head, self._line, self._answer = head, line, answer

    async def more(self, deadline: float) -> bytes:
        piece = await self._line.carry(self._answer.more(deadline))
        assert isinstance(piece, bytes)
        return piece

    async def close(self) -> None:
        self._line.close()
        await asyncio.sleep(0)
