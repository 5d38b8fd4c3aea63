"""How requests of the operator reach the service over sockets, and how a talk is carried to its end, step by step."""

import time
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from duenotice.client.exchange import FAILURES, EndlessAnswer, Show, Sleep, answered
from duenotice.client.line import MOST_IDLE
from duenotice.client.operator.answer import LARGEST
from duenotice.client.operator.base import Explain
from duenotice.client.operator.place import Place
from duenotice.client.operator.request import OperatorRequest
from duenotice.client.operator.talks import AskOnce, FeedEnded, HangUp, Hear, Listen, OperatorStep, OperatorTalk, T
from duenotice.client.socket_line import SocketLine
from duenotice.errors import DuenoticeError
from duenotice.http.http1 import Response

if TYPE_CHECKING:
    from ssl import SSLContext


class Heard(Protocol):
    """An answer that does not end."""

    head: Response

    def more(self, deadline: float) -> bytes:
        """The next bytes, empty at the end."""

    def close(self) -> None:
        """Listen no longer."""


class Carrier(Protocol):
    """Brings requests to the service; a failure is one of `FAILURES`."""

    def ask(self, request: OperatorRequest[Any], deadline: float) -> Response:
        """The whole answer."""

    def listen(self, request: OperatorRequest[Any], deadline: float) -> Heard:
        """The answer as it comes."""

    def close(self) -> None:
        """End what is kept open."""


class Conversation:
    """Does what a talk says, with a carrier; its errors are told in the words of the client's `explain`."""

    def __init__(self, carrier: Carrier, explain: Explain) -> None:
        self._carrier, self._explain = carrier, explain
        self._heard: Heard | None = None
        self._unfinished: OperatorStep | None = None
        """What was interrupted; the next wait does it again."""
        self._ended = False

    def carry(self, talk: OperatorTalk[T]) -> Show | T:
        """Carry a talk to its end, or to the next thing it shows."""
        try:
            return self._carry(talk)
        except DuenoticeError as error:
            self.close()
            raise self._explain(error) from None

    def _carry(self, talk: OperatorTalk[T]) -> Show | T:
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
                reply, failure = self._do(step), None
            except FAILURES as error:
                failure = error
            self._unfinished = None
        raise FeedEnded

    def _do(self, step: OperatorStep) -> Any:
        match step:
            case AskOnce(request, deadline):
                return self._carrier.ask(request, deadline)
            case Listen(request, deadline):
                self.close()
                self._heard = self._carrier.listen(request, deadline)
                return self._heard.head
            case Hear(deadline):
                return b"" if (heard := self._heard) is None else heard.more(deadline)
            case HangUp():
                return self.close()
            case Sleep(seconds):
                return time.sleep(seconds)
            case Show():
                return None
            case _:
                assert_never(step)

    def end(self) -> None:
        """Close it for good: a thread or a task that is carrying a talk finds out now."""
        self._ended = True
        self.close()

    def close(self) -> None:
        """End what it listens to."""
        heard, self._heard = self._heard, None
        if heard is not None:
            heard.close()


CONNECT_SECONDS = 5.0
"""A machine that is gone does not even refuse; a person who looks for a node that works has no time (N23)."""


class SocketCarrier:
    """Over sockets; a few connections are kept open between calls."""

    def __init__(self, place: Place, token: str, tls: "SSLContext | None") -> None:
        self._place, self._token, self._tls = place, token, tls
        self._idle: list[SocketLine] = []
        self._closed = False

    def ask(self, request: OperatorRequest[Any], deadline: float) -> Response:
        line = self._idle.pop() if self._idle else SocketLine(self._place.address, None, self._tls, CONNECT_SECONDS)
        data = request.encode(self._place.host, self._token)
        try:
            response = line.carry(answered(data, deadline, LARGEST, reuse=request.may_be_repeated))
            assert not isinstance(response, Show)
        except BaseException:
            line.close()
            raise
        if self._closed or len(self._idle) >= MOST_IDLE:
            line.close()
        else:
            self._idle.append(line)
        return response

    def listen(self, request: OperatorRequest[Any], deadline: float) -> Heard:
        line = SocketLine(self._place.address, None, self._tls, CONNECT_SECONDS)
        return SocketHeard(line, request.encode(self._place.host, self._token), deadline)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()


class SocketHeard:
    """An answer that does not end, on a socket of its own."""

    def __init__(self, line: SocketLine, data: bytes, deadline: float) -> None:
        self._line, self._answer = line, EndlessAnswer(LARGEST)
        try:
            head = line.carry(self._answer.begin(data, deadline))
            assert not isinstance(head, Show)
        except BaseException:
            line.close()
            raise
        self.head = Response(head.status, head.headers, b"")

    def more(self, deadline: float) -> bytes:
        piece = self._line.carry(self._answer.more(deadline))
        assert isinstance(piece, bytes)
        return piece

    def close(self) -> None:
        self._line.cut()
