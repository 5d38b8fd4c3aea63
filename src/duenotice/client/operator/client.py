"""The clients of the operator's API. A call is a function of `calls`, bound here to both clients by one line each."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from duenotice.client.operator import calls
from duenotice.client.operator.answers import LARGEST, failure_of, value_in
from duenotice.client.operator.config import (
    BUDGET_SECONDS,
    TIMEOUT_SECONDS,
    Explain,
    Settings,
    as_it_is,
    chosen_endpoint,
    chosen_token,
)
from duenotice.client.operator.errors import least_pause
from duenotice.client.operator.feed import AsyncRecordFeed, FeedFlow, OnFound, OnLost, RecordFeed
from duenotice.client.operator.pages import AsyncPages, Pages
from duenotice.client.operator.request import ListRequest, OperatorRequest, T, get
from duenotice.client.retry import RetryPolicy, retry
from duenotice.errors import DuenoticeError, Refused
from duenotice.http.flow import FAILURES, Exchange, Flow
from duenotice.http.http1 import Response
from duenotice.http.transport import Runner, SocketPool, Transport, run
from duenotice.wire.operator import Record

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from ssl import SSLContext

    from duenotice.http.asgi import App
    from duenotice.http.async_transport import AsyncTransport

IN_PROCESS = "the operator's API of this process"
CONNECT_SECONDS = 5.0
"""A machine that is gone does not even refuse; a person who looks for a node that works has no time (N23)."""

P = ParamSpec("P")
M = TypeVar("M", bound=Callable[..., Any])


def request_flow(request: OperatorRequest[T], settings: Settings) -> Flow[T]:
    """The value of an answer; tried again only where that is safe: a GET, and a POST with a key of ours (S6)."""
    if request.takes_key and settings.policy.budget > 0:
        request = replace(request, key=settings.new_key())

    def attempt(deadline: float) -> Flow[T]:
        begun = settings.now()
        try:
            response: Response = yield Exchange(request.to_http(settings.token), deadline, request.may_be_repeated)
        except FAILURES as error:
            raise failure_of(error, settings.url, deadline - begun) from None
        return value_in(response, request.kind, settings.url)

    if not request.may_be_repeated:
        return attempt(settings.now() + settings.policy.timeout)
    return retry(attempt, least_pause, settings.policy, settings.now, settings.jitter)


def _call(ask: Callable[P, OperatorRequest[T]]) -> Callable[Concatenate["OperatorClient", P], T]:
    def method(self: "OperatorClient", /, *values: P.args, **named: P.kwargs) -> T:
        return self._send(ask(*values, **named))

    return _as_method(method, ask)


def _pages(ask: Callable[P, ListRequest[T]]) -> Callable[Concatenate["OperatorClient", P], Pages[T]]:
    def method(self: "OperatorClient", /, *values: P.args, **named: P.kwargs) -> Pages[T]:
        return Pages(self._send, ask(*values, **named))

    return _as_method(method, ask)


def _async_call(
    ask: Callable[P, OperatorRequest[T]],
) -> Callable[Concatenate["AsyncOperatorClient", P], Coroutine[Any, Any, T]]:
    async def method(self: "AsyncOperatorClient", /, *values: P.args, **named: P.kwargs) -> T:
        return await self._send(ask(*values, **named))

    return _as_method(method, ask)


def _async_pages(ask: Callable[P, ListRequest[T]]) -> Callable[Concatenate["AsyncOperatorClient", P], AsyncPages[T]]:
    def method(self: "AsyncOperatorClient", /, *values: P.args, **named: P.kwargs) -> AsyncPages[T]:
        return AsyncPages(self._send, ask(*values, **named))

    return _as_method(method, ask)


def _as_method(method: M, ask: Callable[..., Any]) -> M:
    """It is called, and says what it does, as the call itself; `help` and tests look at that."""
    method.__name__, method.__doc__ = ask.__name__, ask.__doc__
    parameters = [Parameter("self", Parameter.POSITIONAL_ONLY), *signature(ask).parameters.values()]
    method.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return method


class OperatorClient:
    """Asks and operates one service.

    >>> with OperatorClient() as client:
    ...     for vm in client.vms(group="set/web"):
    ...         print(vm.name, vm.state)
    ...     client.restart_vm("web-0")

    By default it asks DUENOTICE_ENDPOINT or http://127.0.0.1:16926, with the token of DUENOTICE_TOKEN, of the file
    DUENOTICE_TOKEN_FILE, or of the default data directory. `timeout` seconds are for one try of a call, `budget` for
    all its tries; 0 means one try. Only what may be done twice is tried again: a GET, and a POST with an
    Idempotency-Key, which the client makes itself, and only if it may try again at all.

    Errors are those of `duenotice.errors`, with the service's own message and hint, and those on the way there: the
    tree and its statuses are in `duenotice.client.operator.errors`. `explain` is given each of them before it is
    raised and returns the one to raise: the place for other words, such as a hint for another door.

    May be used by several threads at once: each call has a connection to itself. Do not use it across a fork.
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
        there = chosen_endpoint(endpoint)
        pool = SocketPool(there.address, there.host, None, there.context(tls), CONNECT_SECONDS, LARGEST)
        self._begin(pool, Settings(there.url, chosen_token(token), RetryPolicy(timeout, budget), explain))

    @classmethod
    def in_process(
        cls,
        app: "App",
        token: str,
        loop: "AbstractEventLoop",
        *,
        timeout: float = TIMEOUT_SECONDS,
        explain: Explain = as_it_is,
    ) -> Self:
        """A client of a service in this process, whose loop runs in another thread; there is no network in between."""
        from duenotice.http.asgi import ThreadedAsgiTransport

        client = cls.__new__(cls)
        settings = Settings(IN_PROCESS, token, RetryPolicy(timeout, 0), explain)
        client._begin(ThreadedAsgiTransport(app, loop), settings)
        return client

    def _begin(self, transport: Transport, settings: Settings) -> None:
        self.endpoint = settings.url
        self._transport, self._settings, self._closed = transport, settings, False

    def _send(self, request: OperatorRequest[T]) -> T:
        self._check_open()
        try:
            return run(request_flow(request, self._settings), self._transport)
        except DuenoticeError as error:
            raise self._settings.explain(error) from None

    def feed(
        self, after: int | None = None, *, on_lost: OnLost | None = None, on_found: OnFound | None = None
    ) -> RecordFeed:
        """What happens, record by record, as it is committed: from a position of the journal on, or from now.

        A lost connection is tried again until it works, and goes on where it was lost; `on_lost` and `on_found` are
        told, each once. With `with client.feed() as feed:` nothing is missed from there on.
        """
        self._check_open()
        return RecordFeed(_feed_flow(self._settings, after, on_lost, on_found), Runner(self._transport))

    def close(self) -> None:
        """End all idle connections. The client cannot be used afterwards."""
        self._closed = True
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Refused("This client is closed.", hint="Make a new one.")

    vms = _pages(calls.vms)
    vm_table = _call(calls.vm_table)
    vm = _call(calls.vm)
    document = _call(calls.document)
    document_bytes = _call(calls.document_bytes)
    listen_vm = _call(calls.listen_vm)
    restart_vm = _call(calls.restart_vm)
    redeploy_vm = _call(calls.redeploy_vm)
    delete_vm = _call(calls.delete_vm)
    evict_vm = _call(calls.evict_vm)
    set_vm_policy = _call(calls.set_vm_policy)
    set_fault = _call(calls.set_fault)
    lift_fault = _call(calls.lift_fault)
    jump_incarnation = _call(calls.jump_incarnation)

    # groups

    groups = _pages(calls.groups)
    group = _call(calls.group)
    set_group_policy = _call(calls.set_group_policy)
    scale = _call(calls.scale)
    delete_instances = _call(calls.delete_instances)

    # hosts

    hosts = _pages(calls.hosts)
    host = _call(calls.host)
    drain_host = _call(calls.drain_host)
    bring_back = _call(calls.bring_back)
    leave_moved = _call(calls.leave_moved)
    degrade_host = _call(calls.degrade_host)
    fail_host = _call(calls.fail_host)
    hold_host = _call(calls.hold_host)
    repair_host = _call(calls.repair_host)

    # the fleet

    fleet = _call(calls.fleet)
    apply_fleet = _call(calls.apply_fleet)
    states = _call(calls.states)
    attention = _call(calls.attention)

    # events

    events = _pages(calls.events)
    event_table = _call(calls.event_table)
    event = _call(calls.event)
    schedule_event = _call(calls.schedule_event)
    approve_event = _call(calls.approve_event)
    report_event = _call(calls.report_event)
    cancel_event = _call(calls.cancel_event)
    acknowledge_event = _call(calls.acknowledge_event)
    event_history = _pages(calls.event_history)
    event_life = _call(calls.event_life)
    timeline = _call(calls.timeline)
    search = _call(calls.search)
    history = _call(calls.history)

    # maintenances

    maintenances = _pages(calls.maintenances)
    maintenance = _call(calls.maintenance)
    steps = _pages(calls.steps)
    begin_maintenance = _call(calls.begin_maintenance)
    preview_maintenance = _call(calls.preview_maintenance)
    outlook = _call(calls.outlook)
    pause_maintenance = _call(calls.pause_maintenance)
    resume_maintenance = _call(calls.resume_maintenance)
    retry_maintenance = _call(calls.retry_maintenance)
    acknowledge_maintenance = _call(calls.acknowledge_maintenance)
    cancel_maintenance = _call(calls.cancel_maintenance)

    # the clock

    clock = _call(calls.clock)
    advance_clock = _call(calls.advance_clock)
    set_speed = _call(calls.set_speed)
    azure = _call(calls.azure)

    # tokens

    me = _call(calls.me)
    tokens = _pages(calls.tokens)
    create_token = _call(calls.create_token)
    revoke_token = _call(calls.revoke_token)

    # subscriptions

    subscriptions = _pages(calls.subscriptions)
    subscription = _call(calls.subscription)
    create_subscription = _call(calls.create_subscription)
    pause_subscription = _call(calls.pause_subscription)
    resume_subscription = _call(calls.resume_subscription)
    replay_subscription = _call(calls.replay_subscription)
    delete_subscription = _call(calls.delete_subscription)

    # what has happened

    audit = _pages(calls.audit)

    # nodes

    nodes = _call(calls.nodes)

    # the service itself: these need no token

    alive = _call(calls.alive)
    ready = _call(calls.ready)
    checks = _call(calls.checks)
    version = _call(calls.version)
    metrics = _call(calls.metrics)
    openapi = _call(calls.openapi)


class AsyncOperatorClient:
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
        from duenotice.http.async_transport import StreamPool

        there = chosen_endpoint(endpoint)
        pool = StreamPool(there.address, there.host, None, there.context(tls), LARGEST)
        self._begin(pool, Settings(there.url, chosen_token(token), RetryPolicy(timeout, budget), explain))

    @classmethod
    def in_process(
        cls,
        app: "App",
        token: str,
        loop: "AbstractEventLoop | None" = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        explain: Explain = as_it_is,
    ) -> Self:
        """A client of a service in this process, with no network in between.

        The service runs on `loop`, by default the one that runs here; the client may be used on any.
        """
        from asyncio import get_running_loop

        from duenotice.http.asgi import AsgiTransport

        client = cls.__new__(cls)
        settings = Settings(IN_PROCESS, token, RetryPolicy(timeout, 0), explain)
        client._begin(AsgiTransport(app, loop or get_running_loop()), settings)
        return client

    def _begin(self, transport: "AsyncTransport", settings: Settings) -> None:
        from duenotice.http.async_transport import arun  # here, so that a program without asyncio does not load it

        self.endpoint, self._arun = settings.url, arun
        self._transport, self._settings, self._closed = transport, settings, False

    async def _send(self, request: OperatorRequest[T]) -> T:
        self._check_open()
        try:
            return await self._arun(request_flow(request, self._settings), self._transport)
        except DuenoticeError as error:
            raise self._settings.explain(error) from None

    def feed(
        self, after: int | None = None, *, on_lost: OnLost | None = None, on_found: OnFound | None = None
    ) -> AsyncRecordFeed:
        """What happens, record by record, as it is committed: from a position of the journal on, or from now.

        A lost connection is tried again until it works, and goes on where it was lost; `on_lost` and `on_found` are
        told, each once. With `async with client.feed() as feed:` nothing is missed from there on.
        """
        from duenotice.http.async_transport import AsyncRunner

        self._check_open()
        return AsyncRecordFeed(_feed_flow(self._settings, after, on_lost, on_found), AsyncRunner(self._transport))

    async def close(self) -> None:
        """End all idle connections. The client cannot be used afterwards."""
        self._closed = True
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise Refused("This client is closed.", hint="Make a new one.")

    vms = _async_pages(calls.vms)
    vm_table = _async_call(calls.vm_table)
    vm = _async_call(calls.vm)
    document = _async_call(calls.document)
    document_bytes = _async_call(calls.document_bytes)
    listen_vm = _async_call(calls.listen_vm)
    restart_vm = _async_call(calls.restart_vm)
    redeploy_vm = _async_call(calls.redeploy_vm)
    delete_vm = _async_call(calls.delete_vm)
    evict_vm = _async_call(calls.evict_vm)
    set_vm_policy = _async_call(calls.set_vm_policy)
    set_fault = _async_call(calls.set_fault)
    lift_fault = _async_call(calls.lift_fault)
    jump_incarnation = _async_call(calls.jump_incarnation)
    groups = _async_pages(calls.groups)
    group = _async_call(calls.group)
    set_group_policy = _async_call(calls.set_group_policy)
    scale = _async_call(calls.scale)
    delete_instances = _async_call(calls.delete_instances)
    hosts = _async_pages(calls.hosts)
    host = _async_call(calls.host)
    drain_host = _async_call(calls.drain_host)
    bring_back = _async_call(calls.bring_back)
    leave_moved = _async_call(calls.leave_moved)
    degrade_host = _async_call(calls.degrade_host)
    fail_host = _async_call(calls.fail_host)
    hold_host = _async_call(calls.hold_host)
    repair_host = _async_call(calls.repair_host)
    fleet = _async_call(calls.fleet)
    apply_fleet = _async_call(calls.apply_fleet)
    states = _async_call(calls.states)
    attention = _async_call(calls.attention)
    events = _async_pages(calls.events)
    event_table = _async_call(calls.event_table)
    event = _async_call(calls.event)
    schedule_event = _async_call(calls.schedule_event)
    approve_event = _async_call(calls.approve_event)
    report_event = _async_call(calls.report_event)
    cancel_event = _async_call(calls.cancel_event)
    acknowledge_event = _async_call(calls.acknowledge_event)
    event_history = _async_pages(calls.event_history)
    event_life = _async_call(calls.event_life)
    timeline = _async_call(calls.timeline)
    search = _async_call(calls.search)
    history = _async_call(calls.history)
    maintenances = _async_pages(calls.maintenances)
    maintenance = _async_call(calls.maintenance)
    steps = _async_pages(calls.steps)
    begin_maintenance = _async_call(calls.begin_maintenance)
    preview_maintenance = _async_call(calls.preview_maintenance)
    outlook = _async_call(calls.outlook)
    pause_maintenance = _async_call(calls.pause_maintenance)
    resume_maintenance = _async_call(calls.resume_maintenance)
    retry_maintenance = _async_call(calls.retry_maintenance)
    acknowledge_maintenance = _async_call(calls.acknowledge_maintenance)
    cancel_maintenance = _async_call(calls.cancel_maintenance)
    clock = _async_call(calls.clock)
    advance_clock = _async_call(calls.advance_clock)
    set_speed = _async_call(calls.set_speed)
    azure = _async_call(calls.azure)
    me = _async_call(calls.me)
    tokens = _async_pages(calls.tokens)
    create_token = _async_call(calls.create_token)
    revoke_token = _async_call(calls.revoke_token)
    subscriptions = _async_pages(calls.subscriptions)
    subscription = _async_call(calls.subscription)
    create_subscription = _async_call(calls.create_subscription)
    pause_subscription = _async_call(calls.pause_subscription)
    resume_subscription = _async_call(calls.resume_subscription)
    replay_subscription = _async_call(calls.replay_subscription)
    delete_subscription = _async_call(calls.delete_subscription)
    audit = _async_pages(calls.audit)
    nodes = _async_call(calls.nodes)
    alive = _async_call(calls.alive)
    ready = _async_call(calls.ready)
    checks = _async_call(calls.checks)
    version = _async_call(calls.version)
    metrics = _async_call(calls.metrics)
    openapi = _async_call(calls.openapi)


def _feed_flow(
    settings: Settings, after: int | None, on_lost: OnLost | None, on_found: OnFound | None
) -> FeedFlow[Record]:
    flow = FeedFlow(get(Record, "feed", after=after), settings)
    flow.on_lost, flow.on_found = on_lost or flow.on_lost, on_found or flow.on_found
    return flow
