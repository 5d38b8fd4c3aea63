"""A node on a shared database: its store, its clock and its engine, wired to the other nodes (N01-N10)."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import structlog

from duenotice import __version__
from duenotice import settings as s
from duenotice.azure_api.signing_keys import SecretStore
from duenotice.bootstrap.journals import is_postgres, require_driver
from duenotice.bootstrap.ports import trust_of
from duenotice.clock import Clock, boot_id, boot_micros, micros, monotonic, seconds, wall
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.engine.engine import Engine, Records
from duenotice.engine.fenced_journal import FencedJournal
from duenotice.engine.followers import Followers
from duenotice.engine.lives import new_life
from duenotice.engine.members import Member, Members
from duenotice.engine.membership import NodePhase, Seen, Terms
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.publisher import Publisher
from duenotice.engine.seat import Identity
from duenotice.engine.shared_time import SharedClock
from duenotice.engine.writer import Ask
from duenotice.errors import Conflict, Damaged, Misconfigured, Unavailable
from duenotice.impact.dispatcher import ImpactClaims, NodeClaims, OnlyNode
from duenotice.metadata_api.context import ServerContext
from duenotice.metadata_api.guard import Guard
from duenotice.metadata_api.lease_timer import lease_timer
from duenotice.operator_api.nodes import Nodes, pass_command
from duenotice.operator_api.way_to_leader import LeaderNotTrusted, WayToLeader
from duenotice.wire.spans import span

START_SECONDS = 20.0
"""How long a node that starts looks for the others, beside some leases."""
WATCHED = 0.25
"""For how much of a lease a process with our name is watched: three beats."""
MOST_AHEAD = 10.0
"""Seconds that two clocks may differ before the log says so."""
ALONE = "With clock = manual a node is alone."
"""Each node would have to be told the time; so only one can be."""
_EVERYWHERE = ("0.0.0.0", "::")

log = structlog.get_logger()


def store_of(settings: s.ServeSettings, data_dir: Path | None, node: str) -> "ClusterStore | None":
    """The store of a node in a database, where others may be too; None for a file and for memory."""
    if not is_postgres(settings.journal):
        return None
    alone = ALONE if settings.clock == "manual" else ""
    return ClusterStore(settings.journal, data_dir, node, WayToLeader(trust_of(settings)), settings.lease, alone)


def url_of(settings: s.ServeSettings, listening: socket.socket | None) -> str:
    """Where other nodes reach this one (N09)."""
    if settings.node_url or listening is None:
        return settings.node_url.rstrip("/")
    host, port = listening.getsockname()[:2]
    scheme = "https" if settings.operator_cert_file else "http"
    return f"{scheme}://{s.host_port((socket.gethostname() if host in _EVERYWHERE else host, port))}"


def guard_of(engine: Engine) -> Callable[[ServerContext], None]:
    """What stands before the VM's door: nothing, if there are no other nodes (N05, N06)."""
    if not isinstance(engine, NodeEngine):
        return lambda _: None
    driver = engine.seat
    lease = seconds(driver.standing.terms.lease)
    guard = Guard(engine.may_answer, engine.curtain, engine.tally, lease_timer(), lambda: lease)

    def prepare(context: ServerContext) -> None:
        guard.stand_before(context)
        driver.on_right = lambda until: guard.right_changed(until * 1000)  # from the next beat on

    return prepare


def right_of(engine: Engine, terms: Terms) -> Callable[[], int]:
    """For how long a follower may answer: never longer than this node itself, which others wait for (N05)."""
    if isinstance(engine, NodeEngine):
        return lambda: max(0, min(terms.right, engine.seat.right_until - boot_micros()))
    return lambda: terms.right


def is_one_of_many(engine: Engine) -> bool:
    """Whether the others wait for this node, and so for its followers."""
    return isinstance(engine, NodeEngine)


async def dismiss(engine: Engine, followers: Followers) -> None:
    """The process is about to end. Followers of a node that is alone answer on, for a lease, until it is back."""
    if is_one_of_many(engine):
        await followers.dismiss()


def nodes_of(engine: Engine, store: "ClusterStore | None") -> Nodes | None:
    """The calls between nodes."""
    return Nodes(engine, store.way) if store is not None and isinstance(engine, NodeEngine) else None


def others_of(engine: Engine) -> set[str]:
    """The names of the other nodes that take part."""
    if not isinstance(engine, NodeEngine) or engine.seat.sight is None:
        return set()
    return {member.node for member in engine.seat.sight.members} - {engine.seat.identity.node}


def claims_of(engine: Engine, patience: float, directory: Callable[[], str]) -> ImpactClaims:
    """Which node makes an attempt at an impact (N12)."""
    if not isinstance(engine, NodeEngine):
        return OnlyNode()
    driver = engine.seat

    def is_there(node: str) -> bool:
        members = () if driver.sight is None else driver.sight.members
        return any(member.node == node and not member.replaced for member in members)

    return NodeClaims(engine, driver.identity.node, is_there, patience, directory=directory())


async def prepared(engine: Engine, prepare: Callable[[], Awaitable[None]]) -> None:
    """Join the other nodes, if there may be some, and prepare; a leader may have to be found first (N07)."""
    if not isinstance(engine, NodeEngine):
        await prepare()
        return
    engine.seat.start()
    waits = _Waits()
    try:
        async with asyncio.timeout(START_SECONDS + 3 * seconds(engine.seat.standing.terms.lease)):
            while not await _is_done(engine, prepare, waits):  # noqa: ASYNC110 (a store that is away does not call)
                await asyncio.sleep(0.2)
    except TimeoutError:
        why = f": {waits.last.message}" if waits.last else "."
        hint = waits.last.hint if waits.last else "Look at the database and the other nodes."
        raise Unavailable(f"This node cannot join the others{why}", hint=hint) from None
    leader = engine.seat.leader
    log.info(
        "takes part",
        action="joined",
        node=engine.seat.identity.node,
        url=engine.seat.identity.url,
        leader="" if leader is None else leader.node,
    )


class _Waits:
    """Why a node that starts has to wait; each reason is logged once. And which of the others have beaten meanwhile."""

    last: Unavailable | None = None

    def __init__(self) -> None:
        self._first_beats: dict[str, int] = {}

    def has_beaten(self, other: Member) -> bool:
        """Whether it is there, and not only listed: it may have been killed."""
        return self._first_beats.setdefault(other.life, other.beat) != other.beat

    def note(self, trouble: Unavailable) -> None:
        if self.last is None or self.last.message != trouble.message:
            log.info("not yet", action="waits-for-others", error=trouble.message)
        self.last = trouble


async def _is_done(engine: NodeEngine, prepare: Callable[[], Awaitable[None]], waits: _Waits) -> bool:
    try:
        await engine.joined()
        _refuse_without_url(engine, waits)
        await prepare()
        if engine.broken is not None:  # meanwhile: for example the store has lost something (N14)
            raise engine.broken
    except LeaderNotTrusted as trouble:
        raise Misconfigured(trouble.message, hint=trouble.hint) from None
    except Unavailable as trouble:
        waits.note(trouble)
        return False
    return True


def refuse_if_alone(other: Member) -> None:
    """A node whose clock somebody moves, or that has no operator port, cannot do what others pass on (N09)."""
    if not other.url:
        raise Conflict(
            f"The database is in use by the node {other.node!r} (duenotice {other.version}), which is alone: "
            "it has no operator port, or its clock is manual.",
            hint="Stop that node, or give this one a database of its own. "
            "Several nodes need operator_listen each, and a clock that is not manual.",
        )


def _refuse_beside(other: Member, why: str) -> None:
    raise Conflict(
        f"The database is in use by the node {other.node!r} (duenotice {other.version}). {why}",
        hint="Stop that node, or give this one a database of its own.",
    )


def refuse_if_in_use(members: Members, node: str, last_life: str, lease: float, alone: str = "") -> Mapping[str, Seen]:
    """Raise when a process beats beside which this one must not be there; tells those that stand still instead (N03).

    That is one with this node's name, or one that has to be alone; any, if this one has to be `alone`, which says why.
    Then they are watched for a whole lease: who stands still all the time has no right to answer, and may be put out.
    `last_life` was ours, and is gone. What is told says since when each was silent, so nobody waits for that again.
    """

    def rivals() -> dict[str, Member]:
        present = (member for member in members.look().members if not member.replaced and member.life != last_life)
        return {member.life: member for member in present if alone or member.node == node or not member.url}

    first, since = rivals(), boot_micros()  # after the look: who has beaten before it may answer from then on
    until = monotonic() + lease * (1 if alone else WATCHED)
    while first and monotonic() < until:
        threading.Event().wait(lease * WATCHED / 5)
        now = rivals()
        first = {life: member for life, member in first.items() if life in now}  # others have just been stopped
        for life, member in first.items():
            if now[life].beat != member.beat:
                _refuse_rival(member, node, alone)
    return {life: Seen(member.beat, since, 0) for life, member in first.items()}


def _refuse_rival(member: Member, node: str, alone: str) -> None:
    if alone:
        _refuse_beside(member, alone)
    if member.node != node:
        refuse_if_alone(member)
    raise Conflict(
        f"Another process is the node {node!r} already, at {member.url or 'an unknown URL'}.",
        hint="Give each node a name of its own (--node), or stop that process first.",
    )


def warn_of_clock(ahead: float) -> None:
    """Say it when this machine's clock and the database's differ: one of them is wrong."""
    if abs(ahead) > MOST_AHEAD:
        log.warning(
            f"the clock of this machine is {span(ahead)} {'ahead of' if ahead > 0 else 'behind'} the database's",
            action="clock-differs",
            seconds=round(ahead, 1),
            hint="Set the wrong one right (NTP). No event starts early, but the times that people read are wrong.",
        )


def _refuse_without_url(engine: NodeEngine, waits: _Waits) -> None:
    """A node that others cannot ask must not lead them. One that was killed is waited for: it is still listed."""
    sight, me = engine.seat.sight, engine.seat.identity
    others = [] if sight is None else [member for member in sight.members if member.node != me.node]
    for other in others:
        if me.url and other.url:
            _refuse_same_url(me, other)
        elif other.url and engine.clock.name != "manual":
            raise Misconfigured(
                f"The node {other.node!r} could not pass commands on to this one: it has no operator port.",
                hint="Give operator_listen a HOST:PORT.",
            )
        elif not waits.has_beaten(other):
            raise Unavailable(
                f"The node {other.node!r} is listed, and silent.", hint="Its lease will be over in some seconds."
            )
        elif engine.clock.name == "manual":
            _refuse_beside(other, ALONE)
        else:
            refuse_if_alone(other)


def _refuse_same_url(me: Identity, other: Member) -> None:
    if other.url == me.url:
        raise Misconfigured(
            f"This node and the node {other.node!r} say that they are both at {me.url}.",
            hint="Set node_url at each node to where the others reach it, like http://node-a.example:16926.",
        )


class ClusterStore:
    """The connections of one life of a node; each is used by one thread: the driver's, the writer's, the reader's."""

    alone = ""
    """Why no other node may be there; empty if others may."""

    def __init__(
        self, url: str, data_dir: Path | None, node: str, way: WayToLeader, lease: float = 4.5, alone: str = ""
    ) -> None:
        require_driver()
        from duenotice.store.data_dir import CheckpointFile
        from duenotice.store.postgres import PostgresJournal
        from duenotice.store.postgres_members import PostgresMembers
        from duenotice.store.postgres_schema import clock_ahead, prepared

        self.node, self.life, self.way, self._url, self.alone = node, new_life(wall()), way, url, alone
        with ExitStack() as undo:
            checkpoint = CheckpointFile(data_dir)
            undo.callback(checkpoint.close)
            cluster = prepared(url, checkpoint.refuse_unless_of).cluster
            warn_of_clock(clock_ahead(url))
            self.members, self._appending = PostgresMembers(url), PostgresMembers(url)
            undo.callback(self.members.close)
            undo.callback(self._appending.close)
            self._last_life, self._was_here = checkpoint.latest.life, checkpoint.latest.boot == boot_id()
            self.silent = refuse_if_in_use(self.members, node, self._last_life, lease, alone)
            self.journal = PostgresJournal(url, self._appending, checkpoint, self.life)
            undo.callback(self.journal.close)
            checkpoint.note(cluster=cluster, life=self.life, boot=boot_id())
            self.shown = self.members.look().head.shown
            undo.pop_all()

    def signing_keys(self) -> SecretStore:
        """Where the keys of access tokens are, for all nodes; with a connection of its own."""
        from duenotice.store.postgres_members import PostgresSecrets

        return PostgresSecrets(self._url)

    def forget_last_life(self) -> None:
        """It is gone: we hold its directory, on the same boot (N18).

        If it had followers it stays: they may answer until its lease is over. Its workers are gone too.
        """
        if self._last_life and self._was_here:
            self.members.leave(self._last_life)

    def engine(
        self, own: Clock, policy: Policy, state: State, publisher: Publisher, url: str, lease: float
    ) -> NodeEngine:
        """The engine of this node; its driver does not beat yet."""
        clock, journal = SharedClock(own), self.journal
        journal.note_lifted(state.raised_at, state.least_incarnation)
        fenced = FencedJournal(journal, self._appending, self.life, clock, self.shown, journal)
        # Without a URL all others are refused: they could not pass commands on.
        identity = Identity(self.life, self.node, "" if self.alone else url, __version__)
        terms = Terms(micros(lease))
        engine = NodeEngine(fenced, clock, policy, state, publisher, self.members, identity, self._pass_on, terms)
        engine.seat.has_watched(self.silent)
        return engine

    def end_when_deposed(self, engine: Engine) -> None:
        """End the process when another node leads: a clock that somebody moves cannot follow another one (S21).

        A node that has handed over by itself, after a failover, leads again soon.
        """
        assert isinstance(engine, NodeEngine)

        def end() -> None:
            standing = engine.seat.standing
            if standing.phase in (NodePhase.FOLLOWING, NodePhase.READING) and boot_micros() >= standing.no_lead_before:
                what = f"This node does not lead any more on {self.journal.name}: another node leads by now."
                hint = "Was a second node started, or a backup restored? Start one node again: "
                engine.give_up(Damaged(what, hint=f"{hint}it goes on from what is stored."))

        engine.on_follow.append(end)

    async def _pass_on(self, leader: Member, ask: Ask) -> Records:
        return await pass_command(leader, ask, self.life, self.way)
