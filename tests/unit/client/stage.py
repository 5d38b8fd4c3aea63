"""Plays a talk against a service that is a function, in time that passes only here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from duenotice import SeenDocument
from duenotice.client.exchange import Connect, Receive, Send, Show, Sleep, Talk
from duenotice.client.metadata_talks import Asker
from tests.support.evil import json_answer, reply

T = TypeVar("T")


class Request(NamedTuple):
    """What the client sent, and when."""

    at: float
    method: str
    target: str
    tag: str

    @property
    def version(self) -> str:
        return self.target.partition("api-version=")[2].partition("&")[0]

    @property
    def waits(self) -> bool:
        return "wait=" in self.target


Service = Callable[[Request], tuple[float, bytes]]
"""Seconds until the answer, and its bytes; none are a connection that ends."""


class Enough(Exception):
    """The play has lasted long enough."""


@dataclass
class Stage:
    """Time, the requests that came and the documents that were shown, with their moments."""

    service: Service
    now: float = 1000.0
    requests: list[Request] = field(default_factory=list)
    shown: list[tuple[float, SeenDocument]] = field(default_factory=list)

    def asker(self, **more: Any) -> Asker:
        """An asker in this stage's time, whose dice always show the most."""
        return Asker("a", now=lambda: self.now, dice=lambda: 1.0, **more)

    def play(self, talk: Talk[T], seconds: float = 1e9) -> T:
        """What the talk ends with; Enough if it goes on for longer."""
        end, reply, failure = self.now + seconds, None, None
        while True:
            try:
                step = talk.send(reply) if failure is None else talk.throw(failure)
            except StopIteration as done:
                value: T = done.value
                return value
            if self.now >= end:
                raise Enough
            try:
                reply, failure = self._do(step), None
            except OSError as error:
                failure = error

    def _do(self, step: Any) -> Any:
        match step:
            case Connect():
                return False
            case Send(data):
                self._delay, self._answer = self._ask(data)
            case Receive(deadline):
                self.now = min(deadline, self.now + self._delay)
                if self.now == deadline:
                    raise TimeoutError
                return self._answer
            case Sleep(seconds):
                self.now += seconds
            case Show(document):
                self.shown.append((self.now, document))
        return None

    def _ask(self, data: bytes) -> tuple[float, bytes]:
        first, *lines = data.decode().split("\r\n")
        tags = [line.removeprefix("If-None-Match: ") for line in lines if line.startswith("If-None-Match")]
        method, target, _ = first.split(" ")
        self.requests.append(Request(self.now, method, target, "".join(tags)))
        return self.service(self.requests[-1])


def answer(status: int = 200, content: Any = b"", *headers: str) -> bytes:
    """The bytes of a well-formed answer."""
    (whole,) = (
        reply(status, content, *headers)
        if isinstance(content, bytes)
        else json_answer(content, *headers, status=status)
    )
    assert isinstance(whole, bytes)
    return whole


def numbered(incarnation: int, *events: Any) -> dict[str, Any]:
    """A document."""
    return {"DocumentIncarnation": incarnation, "Events": list(events)}
