"""How requests of the operator reach the service over asyncio streams, and how a talk is carried to its end."""

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from duenotice.client.exchange import FAILURES, EndlessAnswer, Show, Sleep, answered
from duenotice.client.line import MOST_IDLE
from duenotice.client.operator.answer import LARGEST
from duenotice.client.operator.base import Explain
from duenotice.client.operator.place import Place
from duenotice.client.operator.request import OperatorRequest
from duenotice.client.operator.talks import AskOnce, FeedEnded, HangUp, Hear, Listen, OperatorStep, OperatorTalk, T
from duenotice.client.stream_line import StreamLine
from duenotice.errors import DuenoticeError
from duenotice.http.http1 import Response

if TYPE_CHECKING:
    from ssl import SSLContext


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


class AsyncConversation:
    """Does what a talk says, with a carrier; its errors are told in the words of the client's `explain`."""

    def __init__(self, carrier: AsyncCarrier, explain: Explain) -> None:
        self._carrier, self._explain = carrier, explain
        self._heard: AsyncHeard | None = None
        self._unfinished: OperatorStep | None = None
        """What was interrupted, by a timeout perhaps; the next wait does it again."""
        self._ended = False

    async def carry(self, talk: OperatorTalk[T]) -> Show | T:
        """Carry a talk to its end, or to the next thing it shows."""
        try:
            return await self._carry(talk)
        except DuenoticeError as error:
            await self.close()
            raise self._explain(error) from None

    async def _carry(self, talk: OperatorTalk[T]) -> Show | T:
        reply, failure = None, None
        while not self._ended:
            try:
                step = self._unfinished or (talk.send(reply) if failure is None else talk.throw(failure))
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Show):
                return step
            self._unfinished = step
            try:
                reply, failure = await self._do(step), None
            except FAILURES as error:
                failure = error
            self._unfinished = None
        raise FeedEnded

    async def _do(self, step: OperatorStep) -> Any:
        match step:
            case AskOnce(request, deadline):
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

    async def end(self) -> None:
        """Close it for good: a thread or a task that is carrying a talk finds out now."""
        self._ended = True
        await self.close()

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
