"""The operator's client for asyncio: the same verbs, lists and live feed, with `await`."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from duenotice.client.exchange import Show
from duenotice.client.operator.async_listing import AsyncListing
from duenotice.client.operator.async_verbs import AsyncVerbs
from duenotice.client.operator.base import IN_PROCESS, Explain, as_it_is, context_of, feed_talk
from duenotice.client.operator.feed import FeedTalk, OnFound, OnLost
from duenotice.client.operator.place import chosen_place, chosen_token
from duenotice.client.operator.request import OperatorRequest, QueryValue
from duenotice.client.operator.stream_carrier import AsyncCarrier, AsyncConversation, StreamCarrier
from duenotice.client.operator.talks import BUDGET_SECONDS, TIMEOUT_SECONDS, Ended, Manner, T, call
from duenotice.client.patience import Patience
from duenotice.errors import Refused
from duenotice.wire.operator import Record

if TYPE_CHECKING:
    from ssl import SSLContext

    from duenotice.client.operator.in_process import App


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

    def _conversation(self) -> AsyncConversation:
        if self._closed:
            raise Refused("This client is closed.", hint="Make a new one.")
        return AsyncConversation(self._carrier, self._explain)


class AsyncRecordFeed:
    """An asynchronous iterator of records; waits for the next one, and never ends by itself."""

    def __init__(self, talk: FeedTalk[Record], conversation: AsyncConversation) -> None:
        self._talk, self._conversation, self._running = talk, conversation, talk.run()

    @property
    def position(self) -> int | None:
        """How far it has come in the journal: give it as `after` to go on there another day."""
        return self._talk.position

    async def open(self) -> None:
        """Connect, if it is not yet connected: from then on nothing is missed."""
        if not self._talk.is_open:
            with suppress(Ended):
                await self._conversation.carry(self._running)

    async def close(self) -> None:
        """Listen no longer. Another task that waits for the next record comes to the end of the feed."""
        await self._conversation.end()

    async def __aenter__(self) -> "AsyncRecordFeed":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __aiter__(self) -> "AsyncRecordFeed":
        return self

    async def __anext__(self) -> Record:
        await self.open()
        try:
            shown = await self._conversation.carry(self._running)
        except Ended:
            await self._conversation.close()
            raise StopAsyncIteration from None
        if not isinstance(shown, Show):  # an error has ended it
            raise StopAsyncIteration
        record: Record = shown.shown
        return record
