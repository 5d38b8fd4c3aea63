"""The clients of the metadata service: they run the flows of `protocol` and `watch`, and decide nothing."""

from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from duenotice.client.endpoint import DISCOVER, Address, chosen_endpoint, locate
from duenotice.client.protocol import Choice, MetadataFlows, chosen_versions, name_in
from duenotice.client.retry import BUDGET_SECONDS, TIMEOUT_SECONDS, IsWanted, RetryPolicy, always
from duenotice.client.watch import OnError, Watch
from duenotice.errors import Malformed, Refused
from duenotice.http.flow import Emit, Flow, T
from duenotice.http.transport import Runner, SocketPool, run
from duenotice.wire.seen_documents import SeenDocument, SeenEvent
from duenotice.wire.spans import parse_time

if TYPE_CHECKING:
    from duenotice.http.async_transport import StreamPool

Pool = TypeVar("Pool")


class _Client(Generic[Pool]):
    """What the two clients share."""

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        budget: float = BUDGET_SECONDS,
        api_version: str | None = None,
        source_address: str | None = None,
        advice: bool = False,
    ) -> None:
        """By default it asks 169.254.169.254, in the newest api-version that both sides know.

        `timeout` seconds are for one try, `budget` for all tries of a call (0: one); `source_address` is where to ask
        from on a machine with several. With `advice` it also asks for SpotRebalanceRecommendation, which most services
        do not have: then it goes on without.
        """
        self._endpoint = chosen_endpoint(endpoint)
        self._source = None if source_address is None else (source_address, 0)
        self._flows = MetadataFlows(RetryPolicy(timeout, budget), Choice(chosen_versions(api_version, advice)))
        self._pool: Pool | None = None
        self._closed = False

    @property
    def service_time(self) -> datetime | None:
        """What time it was at the service when it last answered, in whole seconds; None before it has."""
        with suppress(Malformed):
            return parse_time(self._flows.date) if self._flows.date else None
        return None

    @property
    def seconds_unread(self) -> float | None:
        """For how long `watch` has read no document; None before it has read one."""
        return None if self._flows.read_at is None else self._flows.now() - self._flows.read_at

    @property
    def service_ahead(self) -> float | None:
        """By how many seconds the service's clock was ahead of ours when it last told the time; None before it did.

        It tells whole seconds only, so one second does not count as a difference.
        """
        theirs, ours = self.service_time, self._flows.dated_at
        if theirs is None or ours is None:
            return None
        seconds = (theirs - ours).total_seconds()
        return 0.0 if -1.0 <= seconds <= 0.0 else seconds

    def _check_open(self) -> None:
        if self._closed:
            raise Refused("This client is closed.", hint="Make a new one.")


class MetadataClient(_Client[SocketPool]):
    """Asks the metadata service of the VM it runs on.

    >>> with MetadataClient() as client:
    ...     me = client.instance_name()
    ...     for document in client.watch():
    ...         mine = [event for event in document.events if event.hits(me)]

    Every verb raises a `MetadataError` when it fails; see `duenotice.client.errors`. May be used by several threads
    at once: each call has a connection to itself. Do not use it across a fork.
    """

    def document(self) -> SeenDocument:
        """All events this VM is told of, now."""
        return self._run(self._flows.document())

    def watch(self, on_error: OnError | None = None) -> Generator[SeenDocument, None, None]:
        """The document, and then each one that differs from the last; waits in between.

        Errors are retried as in `document()`; one that stays is raised and ends the watch. With `on_error` it is
        given to that instead, and the watch goes on.
        """
        flow = Watch(self._flows, on_error).run()
        with self._located().lease() as lease:
            runner = Runner(lease)
            while isinstance(step := runner.run(flow), Emit):
                yield step.value

    def approve(self, *events: SeenEvent | str) -> None:
        """Let these events start now, for all the VMs they hit (C04). Approving again does no harm."""
        self._run(self._flows.approve(_ids_of(events)))

    def instance(self) -> dict[str, Any]:
        """All that the service knows of this VM."""
        return self._run(self._flows.instance())

    def instance_name(self) -> str:
        """This VM's name, as `resources` has it."""
        return name_in(self.instance())

    def close(self) -> None:
        """End all idle connections. The client cannot be used afterwards."""
        self._closed = True
        if self._pool is not None:
            self._pool.close()

    def __enter__(self) -> "MetadataClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, flow: Flow[T]) -> T:
        with self._located().lease() as lease:
            return run(flow, lease)

    def _located(self) -> SocketPool:
        self._check_open()
        if self._pool is None:
            address = locate(self._endpoint, self._flows.policy.budget)
            self._pool = SocketPool(address, address.header, self._source)
        return self._pool


class AsyncMetadataClient(_Client["StreamPool"]):
    """`MetadataClient` with `await`; any number of its calls may be under way at once, in one event loop.

    >>> async with AsyncMetadataClient() as client:
    ...     me = await client.instance_name()
    ...     async for document in client.watch():
    ...         mine = [event for event in document.events if event.hits(me)]
    """

    async def document(self) -> SeenDocument:
        """All events this VM is told of, now."""
        return await self._run(self._flows.document())

    async def watch(self, on_error: OnError | None = None) -> AsyncGenerator[SeenDocument, None]:
        """The document, and then each one that differs from the last; waits in between.

        Errors are retried as in `document()`; one that stays is raised and ends the watch. With `on_error` it is
        given to that instead, and the watch goes on.
        """
        from duenotice.http.async_transport import AsyncRunner

        flow = Watch(self._flows, on_error).run()
        with (await self._located()).lease() as lease:
            runner = AsyncRunner(lease)
            while isinstance(step := await runner.run(flow), Emit):
                yield step.value

    async def approve(self, *events: SeenEvent | str, is_wanted: IsWanted = always) -> None:
        """Let these events start now, for all the VMs they hit (C04). Approving again does no harm.

        A try that failed is only repeated if `is_wanted()` still says so then.
        """
        await self._run(self._flows.approve(_ids_of(events), is_wanted))

    async def instance(self) -> dict[str, Any]:
        """All that the service knows of this VM."""
        return await self._run(self._flows.instance())

    async def instance_name(self) -> str:
        """This VM's name, as `resources` has it."""
        return name_in(await self.instance())

    async def close(self) -> None:
        """End all idle connections. The client cannot be used afterwards."""
        self._closed = True
        if self._pool is not None:
            await self._pool.close()

    async def __aenter__(self) -> "AsyncMetadataClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, flow: Flow[T]) -> T:
        from duenotice.http.async_transport import arun

        with (await self._located()).lease() as lease:
            return await arun(flow, lease)

    async def _located(self) -> "StreamPool":
        self._check_open()
        if self._pool is None:
            if self._endpoint == DISCOVER:
                from asyncio import to_thread

                address = await to_thread(locate, self._endpoint, self._flows.policy.budget)
            else:
                address = locate(self._endpoint, self._flows.policy.budget)
            self._pool = self._pool or self._new_pool(address)
        return self._pool

    def _new_pool(self, address: Address) -> "StreamPool":
        from duenotice.http.async_transport import StreamPool

        return StreamPool(address, address.header, self._source)


def _ids_of(events: tuple[SeenEvent | str, ...]) -> list[str]:
    """What to approve, without advice, which is not a deadline. An empty list is a mistake of the caller."""
    ids = [event if isinstance(event, str) else event.event_id for event in events if not _is_advice(event)]
    if not ids:
        hint = "Advice needs no approval." if events else "Give at least one event or EventId."
        raise Refused("There is nothing to approve.", hint=hint)
    return ids


def _is_advice(event: SeenEvent | str) -> bool:
    return not isinstance(event, str) and event.is_advice
