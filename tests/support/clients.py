"""Both clients behind one face, so that a test of one is a test of the other."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from datetime import datetime
from typing import Any, TypeVar, cast

import pytest

from duenotice import AsyncMetadataClient, MetadataClient, SeenDocument, SeenEvent
from duenotice.client.watch import OnError

T = TypeVar("T")
Connect = Callable[..., "Client"]
SECONDS = 60


class Client:
    """The verbs of `MetadataClient`, whichever client does them."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def document(self) -> SeenDocument:
        return cast(SeenDocument, self._do(self._client.document()))

    def approve(self, *events: SeenEvent | str) -> None:
        self._do(self._client.approve(*events))

    def instance(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._do(self._client.instance()))

    def instance_name(self) -> str:
        return str(self._do(self._client.instance_name()))

    @property
    def service_time(self) -> datetime | None:
        return cast("datetime | None", self._client.service_time)

    def watch(self, on_error: OnError | None = None) -> Iterator[SeenDocument]:
        return iter(self._client.watch(on_error))

    def close(self) -> None:
        self._do(self._client.close())

    def _do(self, done: Any) -> Any:
        return done


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.start(work).result(SECONDS)

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def end(self) -> None:
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()


class Awaited(Client):
    """The asyncio client, awaited from outside its loop."""

    def __init__(self, client: AsyncMetadataClient, loop: Loop) -> None:
        super().__init__(client)
        self._loop = loop

    def watch(self, on_error: OnError | None = None) -> Iterator[SeenDocument]:
        documents = self._client.watch(on_error)
        try:
            while True:
                yield self._loop.run(documents.__anext__())
        finally:
            self._loop.run(documents.aclose())

    def _do(self, done: Any) -> Any:
        try:
            return self._loop.run(done)
        except CancelledError:
            raise AssertionError("the client was cancelled") from None


@pytest.fixture(params=["blocking", "asyncio"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of one kind; all are closed in the end."""
    made: list[Client] = []
    loop = Loop() if request.param == "asyncio" else None

    def make(endpoint: str | None = None, **more: Any) -> Client:
        if loop is None:
            made.append(Client(MetadataClient(endpoint, **more)))
        else:
            made.append(Awaited(AsyncMetadataClient(endpoint, **more), loop))
        return made[-1]

    yield make
    for client in made:
        client.close()
    if loop is not None:
        loop.end()
