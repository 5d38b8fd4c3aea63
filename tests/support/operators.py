"""Every kind of operator's client behind the face of the blocking one, so that a test of one is a test of all."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import pytest

from duenotice.client import AsyncOperatorClient, OperatorClient
from duenotice.client.operator.feed import AsyncRecordFeed
from duenotice.client.operator.pages import AsyncPages
from tests.support.clients import Loop
from tests.support.node import Node

KINDS = ("blocking", "asyncio", "in process", "in process, from another loop", "in process, from a thread")
MakeOperator = Callable[..., OperatorClient]


class Awaited:
    """The asyncio client, its lists and its feeds, awaited from outside their loop."""

    def __init__(self, thing: Any, loop: Loop) -> None:
        self._thing, self._loop = thing, loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if not callable(found):
            return found

        def call(*values: Any, **named: Any) -> Any:
            return self._seen(found(*values, **named))

        return call

    def _seen(self, done: Any) -> Any:
        if isinstance(done, AsyncPages | AsyncRecordFeed):
            return Awaited(done, self._loop)
        return self._loop.run(done)

    def __iter__(self) -> Iterator[Any]:
        items = self._thing.__aiter__()
        while True:
            try:
                yield self._loop.run(items.__anext__())
            except StopAsyncIteration:
                return

    def __next__(self) -> Any:
        return self._loop.run(self._thing.__anext__())

    def __enter__(self) -> "Awaited":
        self._loop.run(self._thing.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._thing.close())


class NodeLoop(Loop):
    """The loop of a node, where its clients can live as well."""

    def __init__(self, node: Node) -> None:
        self._loop = node.emulator._loop


@pytest.fixture(params=KINDS)
def operate(request: pytest.FixtureRequest) -> Iterator[MakeOperator]:
    """Makes clients of one kind for a node; all are closed in the end."""
    made: list[Any] = []
    elsewhere = Loop()

    def make(node: Node, token: str | None = None, **more: Any) -> OperatorClient:
        made.append(_made(request.param, node, node.token if token is None else token, elsewhere, more))
        return cast(OperatorClient, made[-1])

    yield make
    for client in made:
        client.close()
    elsewhere.end()


@pytest.fixture(params=["blocking", "asyncio"])
def reach(request: pytest.FixtureRequest) -> Iterator[Callable[..., OperatorClient]]:
    """Makes clients of one kind for an endpoint; all are closed in the end."""
    made: list[Any] = []
    loop = Loop()

    def make(endpoint: str, token: str = "dn_token", **more: Any) -> OperatorClient:
        if request.param == "blocking":
            made.append(OperatorClient(endpoint, token, **more))
        else:
            made.append(Awaited(AsyncOperatorClient(endpoint, token, **more), loop))
        return cast(OperatorClient, made[-1])

    yield make
    for client in made:
        client.close()
    loop.end()


def _made(kind: str, node: Node, token: str, elsewhere: Loop, more: dict[str, Any]) -> Any:
    endpoint = "http://{}:{}".format(*node.operator_address)
    if kind == "blocking":
        return OperatorClient(endpoint, token, **more)
    if kind == "asyncio":
        return Awaited(AsyncOperatorClient(endpoint, token, **more), elsewhere)
    more.pop("budget", None)
    app = node.service.operator_app
    if kind == "in process, from a thread":
        return OperatorClient.in_process(app, token, node.emulator._loop, **more)
    loop = NodeLoop(node) if kind == "in process" else elsewhere
    return Awaited(AsyncOperatorClient.in_process(app, token, node.emulator._loop, **more), loop)


C = TypeVar("C", bound=OperatorClient)


def operator_of(node: Node, kind: type[C]) -> C:
    """A client of a node's operator's API, without a network in between: there is nothing to close."""
    return node.emulator.operator(kind)
