"""A running node from its settings: the parts, how they start, and how they stop."""

import asyncio
import gc
import socket
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path

import structlog

from duenotice import settings as s
from duenotice.azure_api import certificates, signing_keys
from duenotice.bootstrap import cluster, drivers, operator_server
from duenotice.bootstrap.azure_port import AzurePort, azure_port
from duenotice.bootstrap.file_watch import FileWatch
from duenotice.bootstrap.fleet_file import FleetFile, check_first
from duenotice.bootstrap.journals import is_postgres, node_name, open_journal
from duenotice.bootstrap.logs import ChangeLog
from duenotice.bootstrap.operator_server import OperatorServer
from duenotice.bootstrap.places import Front, Side
from duenotice.bootstrap.ports import (
    BACKLOG,
    DRAIN_SECONDS,
    bound,
    cannot_listen,
    metadata_options,
    operator_listen,
    operator_tls,
)
from duenotice.bootstrap.process import Heartbeat, clock_of
from duenotice.bootstrap.workers import Workers, attach_reuseport_bpf, check_workers, count_of
from duenotice.clock import Clock, micros
from duenotice.console import session
from duenotice.console.app import Console
from duenotice.console.session import Sessions
from duenotice.domain.commands import ApplyFleet, CreateToken, MarkClock
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Declaration, Vm
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.domain.token import Role
from duenotice.domain.token import digest_of as token_digest
from duenotice.engine.engine import SELF, Engine, load
from duenotice.engine.followers import Followers
from duenotice.engine.membership import Terms
from duenotice.engine.ports import Journal
from duenotice.engine.publisher import Publisher
from duenotice.engine.ticker import Ticker
from duenotice.errors import DuenoticeError, Misconfigured
from duenotice.metadata_api.faults import Faults
from duenotice.metadata_api.options import MetadataOptions
from duenotice.metadata_api.server import MetadataServer
from duenotice.metadata_api.tap import Tap
from duenotice.operator_api.app import OperatorApi
from duenotice.operator_api.calls import new_id
from duenotice.operator_api.tokens import FILE, asked_with, new_token, token_of
from duenotice.system import check_ours
from duenotice.toml import near_miss
from duenotice.wire.fleet_file import is_name


def policy_of(settings: s.ServeSettings, clock: Clock) -> Policy:
    """All of them; the time allowed for a commit grows with the speed of the clock."""
    return Policy(
        commit_allowance=micros(clock.speed),  # one real second
        user_operations_limit=settings.user_operations_limit,
        events_per_scope=settings.events_per_scope,
        document_bytes=settings.document_kib * 1024,
        simulated_impact=settings.impact == "simulated",
        impact_attempts=settings.impact_attempts,
        deletes_together=settings.deletes_together,
        takes_gone_approvals=settings.gone_approval == 200,
        host_failure_type=EventType(settings.host_failure_type.lower()),
        spot_rebalance=settings.spot_rebalance,
        degrade_unhealthy=settings.degrade_unhealthy,
        live_migration_lasts=micros(settings.live_migration_lasts),
        maintenance_lasts=micros(settings.maintenance_lasts),
        removal_lasts=micros(settings.removal_lasts),
    )


IN_MEMORY = ":memory:"

log = structlog.get_logger()

SECRETS = (FILE, signing_keys.FILE, certificates.CA_KEY_FILE, certificates.LEAF_KEY_FILE)
"""In the data directory, for nobody else to read."""


class Service:
    """A node; `start` and `stop` are all that a caller needs."""

    def __init__(
        self,
        settings: s.ServeSettings,
        tap: Tap | None = None,
        metadata_socket: socket.socket | None = None,
        journal: Journal | None = None,
        options: MetadataOptions | None = None,
        store: cluster.ClusterStore | None = None,
    ) -> None:
        """A program that embeds a node may give it a socket, a journal, or finer options of the VM's door.

        Tests give several nodes of one process a store in memory.
        """
        self.settings = settings
        self._given_journal, self._options = journal, options or metadata_options(settings)
        self._given_store = store
        self._tap, self._metadata_socket = tap, metadata_socket
        self._operator_socket: socket.socket | None = None
        self.azure: AzurePort | None = azure_port(settings)
        self.data_dir = _data_dir(settings)
        self.node = node_name(settings.node)
        self._workers, self._changes = Workers(settings, self.data_dir), ChangeLog()
        self.token, self._has_new_token = "", False
        self.metadata_address = ("", 0)
        self.operator_address = ("", 0)
        self._tls = operator_tls(settings)
        drivers.check_impact(settings, self.data_dir)
        drivers.check_push(settings)
        check_workers(settings)
        self._metadata_listen = s.parse_listen("metadata_listen", settings.metadata_listen)
        self._operator_listen = operator_listen(settings)

    async def start(self) -> None:
        """Take the ports, load, apply the fleet, open the doors; a failure on the way leaves nothing open."""
        if self.data_dir is not None:
            check_ours(self.data_dir, *SECRETS)
        if not is_postgres(self.settings.journal):
            check_first(self.settings.fleet, self.data_dir)
        with ExitStack() as ports:  # before anything is written: if a port is in use, nothing must be left behind
            if self._metadata_socket is None:
                self._metadata_socket = ports.enter_context(self._metadata_port())
            if self._operator_listen is not None:
                self._operator_socket = ports.enter_context(bound(self._operator_listen))
            if self.azure is not None:
                ports.enter_context(self.azure.bound(self.data_dir))
            await self._set_up()
            ports.pop_all()

    def _metadata_port(self) -> socket.socket:
        count = count_of(self.settings)
        made = bound(self._metadata_listen, dual=True, shared=self.settings.share_port or count > 1)
        if count > 1:
            attach_reuseport_bpf(made, count)
        return made

    async def _set_up(self) -> None:
        store = self._given_store or cluster.store_of(self.settings, self.data_dir, self.node)
        self._store = store
        journal, state, clock = self._loaded(None if store is None else store.journal)
        self._journal = journal
        await self._workers.last_ones_are_gone()
        if store is not None and not state.had_readers:
            store.forget_last_life()
        self._put_together(store, journal, clock, state)
        self.engine.start()
        try:
            await self._begin()
        except BaseException:
            self._heartbeat.stop()
            await self.engine.stop()
            self._changes.write()
            raise

    def _put_together(self, store: cluster.ClusterStore | None, journal: Journal, clock: Clock, state: State) -> None:
        loop = asyncio.get_running_loop()
        self.publisher = Publisher(loop.call_soon)
        self.engine = self._engine(store, journal, clock, state)
        terms = Terms(micros(self.settings.lease))
        self.followers = Followers(state.position, terms, cluster.right_of(self.engine, terms))
        self.engine.below = self.followers
        self.ticker = Ticker(self.engine)
        self._heartbeat = Heartbeat(journal, self.engine.clock, self.ticker.absent, self.engine.keep_time)
        self._file_watch = FileWatch(self.engine, journal, self.data_dir, *SECRETS)
        node = "" if store is None else self.node
        self.fleet_file = FleetFile(self.settings.fleet, self.engine, node, partial(cluster.others_of, self.engine))
        if self.settings.log_format != "none":
            self.engine.on_commit.append(lambda records: self._changes.add(records, self.engine.state))

    def _loaded(self, shared: Journal | None) -> tuple[Journal, State, Clock]:
        journal = shared or self._given_journal or open_journal(self.data_dir)
        try:
            state = _load(journal)
            return journal, state, clock_of(self.settings.clock, state, journal)
        except BaseException:
            journal.close()
            raise

    def _engine(self, store: cluster.ClusterStore | None, journal: Journal, clock: Clock, state: State) -> Engine:
        policy = policy_of(self.settings, clock)
        if store is None:
            return Engine(journal, clock, policy, state, self.publisher, threaded=True)
        url = cluster.url_of(self.settings, self._operator_socket)
        return store.engine(clock, policy, state, self.publisher, url, self.settings.lease)

    async def stop(self) -> None:
        """Hand over to another node, if there is one; close the doors, answer the open requests, leave a snapshot."""
        self.engine.hand_over()
        await self._workers.stop()
        self._heartbeat.stop()
        await self.metadata.drain(DRAIN_SECONDS)
        if self._operator_listen is not None:
            self._api.feed.close()
            await cluster.dismiss(self.engine, self.followers)
            self.followers.close()
            await self._console.close()
            self._operator.should_exit = True
            await asyncio.gather(self._operator_task, return_exceptions=True)
        if self.azure is not None:
            await self.azure.stop()
        await self.ticker.stop()
        if self._dispatcher is not None:
            await self._dispatcher.stop()
        await self.pusher.stop()
        await self._file_watch.stop()
        await self.engine.stop()
        self._changes.write()

    async def _begin(self) -> None:
        self._dispatcher = drivers.dispatcher_of(self.settings, self.engine, self.data_dir)
        self.pusher = drivers.pusher_of(self.settings, self.engine)
        await cluster.prepared(self.engine, self._prepare)
        await self._open_doors_to_followers()
        await self._open_doors()
        self._heartbeat.start().add_done_callback(self.engine.lost)
        self.engine.on_lead.append(self._lead)
        self.engine.on_follow.append(self._follow)
        if self._store is not None and self._store.alone:
            self._store.end_when_deposed(self.engine)
        if self.engine.leads:
            self._lead()
        else:
            drivers.begin(self._dispatcher, self.engine)
        self._file_watch.start()
        if count_of(self.settings) > 1:
            admit = partial(setattr, self._api.gate, "own")
            self._workers.start(self.engine, self.followers, admit, self.metadata_address, self.operator_address)

    async def _prepare(self) -> None:
        if self._journal.restored:
            log.warning("an older journal was put in place", action="journal-restored", hint="Incarnations go ahead.")
            await self.engine.submit(self.engine.lifting(), SELF)
        if self.engine.leads:
            await self.engine.submit(MarkClock(self.engine.clock.mark()), SELF)
        await self.fleet_file.begin()
        await self._apply_only_vm()
        self._check_default_vm()
        await self._let_admin_in()
        if self.engine.leads:
            # Last: until the doors open no VM can be told, so no time counts as notice (S25).
            await self.ticker.make_up_for_downtime()

    def _lead(self) -> None:
        """What runs only where the leader is."""
        self.ticker.start()
        drivers.begin(self._dispatcher, self.engine)
        self.pusher.start()

    async def _open_doors_to_followers(self) -> None:
        """Those of the last process of this node may still be answering VMs (N05); others wait for one of many."""
        had_followers = not cluster.is_one_of_many(self.engine) and self.engine.state.had_readers
        await self.followers.open(had_followers)
        if not cluster.is_one_of_many(self.engine):
            self.engine.opened()
        if had_followers:
            # That may have taken a lease, in which no VM could be told either (S2, S25).
            await self.ticker.make_up_for_downtime()

    def _follow(self) -> None:
        self.ticker.pause()
        self.pusher.pause()

    async def _open_doors(self) -> None:
        submit, clock = self.engine.submit, self.engine.clock
        self.metadata = MetadataServer(
            submit, self.publisher, clock, self._options, tap=self._tap, prepare=cluster.guard_of(self.engine)
        )
        self._put_fault(self.settings.fault)
        assert self._metadata_socket is not None
        try:
            self.metadata_address = await self.metadata.start_on(self._metadata_socket)
        except OSError as error:
            raise cannot_listen(self._metadata_listen, error) from None
        if self._operator_socket is not None:
            self._operator_socket.listen(BACKLOG)  # now, and not later in uvicorn: we have said that we serve
            self.operator_address = self._operator_socket.getsockname()[:2]
            self._open_operator_door(self._operator_socket)
        if self.azure is not None:
            await self.azure.open(self.engine, None if self._store is None else self._store.signing_keys())

    @property
    def failed(self) -> "asyncio.Future[DuenoticeError]":
        """Why the process has to end, if it has."""
        return self.engine.failed

    @property
    def state(self) -> State:
        """What VMs see."""
        return self.engine.state

    @property
    def is_busy(self) -> bool:
        """Whether something is under way that may have made very many things."""
        return self.engine.is_busy

    @property
    def operator_scheme(self) -> str:
        """How the operator's port is asked."""
        return "http" if self._tls is None else "https"

    async def reread(self) -> None:
        """Apply the fleet file, if it has changed, and show new certificates, if there are some."""
        if self._tls is not None:
            self._tls.reread_or_complain()
        if self.azure is not None:
            await self.azure.renew()
            await self.azure.look_for_keys()
        await self.fleet_file.apply()

    @property
    def faults(self) -> Faults:
        """The faults of this node: what makes it answer wrongly."""
        return self.metadata.faults

    def _put_fault(self, name: str) -> None:
        if name and not self.settings.allow_faults:
            raise Misconfigured(f"fault = {name!r} needs allow_faults.", hint="Add --allow-faults to test clients.")
        if name:
            self.metadata.faults.put_on_all(name)

    async def _apply_only_vm(self) -> None:
        """One VM without details, as an emulator needs it (A09); never instead of a fleet."""
        name = self.settings.default_vm
        if name and not is_name(name):
            raise Misconfigured(
                f"default_vm {name!r} is not a valid name for a VM.", hint="Use letters, digits, dot and dash."
            )
        if name and not self.engine.state.fleet.vms:
            await self.engine.submit(ApplyFleet(Declaration(f"only:{name}", vms=(Vm(name, "127.0.0.1"),))), SELF)

    def _check_default_vm(self) -> None:
        name, known = self.settings.default_vm, self.engine.state.fleet.vms
        if name and name not in known:
            hint = near_miss(name, islice(known, 10_000), otherwise="Name a VM of the fleet file.")
            raise Misconfigured(f"default_vm {name!r} is not in the fleet.", hint=hint)

    async def _let_admin_in(self) -> None:
        """The admin token of the data directory. A revoked one stays revoked; a deleted file is made again."""
        # It stays new until it is stored: there may be no leader at the first try.
        self._has_new_token |= self.data_dir is None or not (self.data_dir / FILE).exists()
        self.token = new_token() if self.data_dir is None else token_of(self.data_dir)
        admins = [token for token in self.engine.state.tokens.values() if token.role is Role.ADMIN]
        if self._has_new_token or not admins:
            digest = token_digest(self.token)
            # Nodes that share a journal have a directory each, so each has a token of its own.
            name = f"admin@{self.node}" if self.settings.journal else "admin"
            await self.engine.submit(CreateToken(new_id(), name, Role.ADMIN, digest, replace=True), SELF)

    def _open_operator_door(self, listening: socket.socket) -> None:
        faults = self.metadata.faults if self.settings.allow_faults else None
        nodes = cluster.nodes_of(self.engine, self._store)
        self._api = OperatorApi(
            self.engine,
            self.ticker,
            self.metadata.silent_for,
            faults,
            lambda: self.fleet_file.problem,
            self.followers,
            nodes,
            self.node,
            lambda: None if self.azure is None else self.azure.told(self.engine.state.fleet.site),
            self.pusher.measures,
        )
        self.operator_app, paths = self._api.app(), {call.path for call in self._api.calls}
        sessions = Sessions(self.engine) if nodes is None else Sessions(self.engine, nodes.have_caught_up)
        self._console = Console(self.operator_app, asked_with, sessions, lambda: self.metadata_address)
        people = Side(self._console.app(), lambda request: sessions.token_of(session.secret_of(request)))
        front = Front(Side(self.operator_app, self._api.gate.token_of), people, paths)
        self._operator = OperatorServer(operator_server.config(front, None if self._tls is None else self._tls.context))
        self._operator_task = asyncio.create_task(self._operator.serve(sockets=[listening]), name="operator-api")
        self._operator_task.add_done_callback(self.engine.lost)


def _data_dir(settings: s.ServeSettings) -> Path | None:
    if settings.data_dir == IN_MEMORY:
        return None
    return Path(settings.data_dir) if settings.data_dir else s.default_data_dir()


def _load(journal: Journal) -> State:
    # Hundreds of thousands of values are made at once, and all of them are kept.
    gc.disable()
    try:
        return load(journal)
    finally:
        gc.enable()
