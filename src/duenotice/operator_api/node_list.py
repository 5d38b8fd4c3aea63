"""The nodes as an operator sees them: who leads, how far each is, for how long each may answer, and who is away."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from duenotice import __version__
from duenotice.clock import boot_micros, monotonic, seconds, wall
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.followers import Followers
from duenotice.engine.lives import born
from duenotice.engine.members import Member
from duenotice.engine.membership import Standing
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.seat import Seat
from duenotice.errors import DuenoticeError
from duenotice.operator_api.answers import shown
from duenotice.operator_api.calls import Call
from duenotice.operator_api.node_troubles import SILENT_SHARE, Readers, Trouble
from duenotice.wire import operator as o

ASK_EVERY, ASK_PATIENCE = 1.0, 0.5
"""Real seconds: how often the store is asked who is away, and how long an operator waits for that."""


class NodeList:
    """The call about nodes; a service on its own has one."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        followers: Followers,
        readers: Callable[[], Readers] = dict,
        troubles: Callable[[], Iterable[Trouble]] = tuple,
    ) -> None:
        self._engine, self._name, self._began = engine, name, wall()
        self._followers, self._readers, self._troubles = followers, readers, troubles
        self._away = _Away(engine.seat) if isinstance(engine, NodeEngine) else None

    def calls(self) -> list[Call]:
        """The rows of the table."""
        about = "The nodes: which one leads, and how far each is"
        return [Call("GET", "/v1/nodes", Role.VIEWER, self.index, about, {200: o.NodesSeen})]

    async def index(self, _: Request) -> Response:
        """All nodes, as this one sees them."""
        if self._away is None or not isinstance(self._engine, NodeEngine):
            return shown(self._alone())
        away, seat, now = await self._away.known(), self._engine.seat, boot_micros()
        standing, members = seat.standing, () if seat.sight is None else seat.sight.members
        here = {member.node for member in members}  # it may have joined since we asked who is away
        away = [member for member in away if member.node not in here]
        by_name = sorted((*members, *away), key=lambda member: (member.node, not member.replaced))
        return shown(
            o.NodesSeen(
                node=seat.identity.node,
                leader="" if seat.leader is None else seat.leader.node,
                epoch=standing.epoch,
                position=standing.known,
                shown=self._engine.state.position,
                lease=seconds(standing.terms.lease),
                right_for=_rounded(seat.right_until - now),
                items=tuple(self._seen(standing, member, member in away, now) for member in by_name),
                readers=self._readers_seen(now),
                troubles=self._troubles_seen(away),
            )
        )

    def _alone(self) -> o.NodesSeen:
        position, since = self._engine.state.position, self._in_our_time(self._began)
        me = o.NodeSeen(self._name, "leads", True, 0, None, None, __version__, since, "")
        readers, troubles = self._readers_seen(boot_micros()), self._troubles_seen()
        return o.NodesSeen(self._name, self._name, 0, position, position, None, None, (me,), readers, troubles)

    def _readers_seen(self, now: int) -> tuple[o.ReaderSeen, ...]:
        """The followers and workers of this node."""
        behind = set(self._followers.behind())
        seen = []
        for life, reader in self._readers().items():
            silence = max(0, now - self._followers.by_life[life].seen)
            is_silent = silence > self._followers.terms.lease // SILENT_SHARE
            state = "silent" if is_silent else "behind" if life in behind else "answers"
            kind = "worker" if reader.is_worker else "follower"
            seen.append(o.ReaderSeen(reader.token, kind, reader.host, reader.only, state, _rounded(silence)))
        return tuple(sorted(seen, key=lambda each: (each.name, each.host, each.only)))

    def _troubles_seen(self, away: Sequence[Member] = ()) -> tuple[o.NodeTrouble, ...]:
        down = [member.node for member in away if member.beat]
        return tuple(
            o.NodeTrouble(
                trouble.about,
                trouble.what,
                trouble.hint,
                None if trouble.micros is None else _rounded(trouble.micros),
            )
            for trouble in (*self._troubles(), *map(_is_down, down))
        )

    def _seen(self, standing: Standing, member: Member, is_away: bool, now: int) -> o.NodeSeen:
        silence = None if is_away else silence_of(standing, member, now)
        state = state_of(standing, member, silence, own=silence_of_own(standing, now))
        if state == "unknown":
            silence = None
        return o.NodeSeen(
            name=member.node,
            state=state,
            leads=member.life == standing.leader,
            lag=lag_of(standing, member),
            silent_for=None if silence is None else _rounded(silence),
            lease_left=None if silence is None else _rounded(standing.terms.right - silence),
            version=member.version,
            alive_since=None if is_away else self._in_our_time(born(member.life)),
            url=member.url,
        )

    def _in_our_time(self, began: datetime | None) -> datetime | None:
        """A real moment on the service's clock, which may run faster."""
        if began is None:
            return None
        ago = max(timedelta(), wall() - began)
        return (self._engine.clock.now().at - ago + timedelta(milliseconds=500)).replace(microsecond=0)


def _is_down(name: str) -> Trouble:
    hint = "Start it again. If it is gone for good, see docs/clustering.md."
    return Trouble("nodes", f"The node {name} does not answer. It was put out, and no change waits for it.", hint)


def silence_of(standing: Standing, member: Member, now: int) -> int:
    """Microseconds since the last beat of a member; of our own since before we sent it (N05)."""
    if member.life == standing.life:
        return silence_of_own(standing, now)
    other = standing.others.get(member.life)
    return 0 if other is None else max(0, now - other.since)


def silence_of_own(standing: Standing, now: int) -> int:
    """Since the last beat of this node itself that has reached the store."""
    return max(0, now - (standing.right_until - standing.terms.right))


def state_of(standing: Standing, member: Member, silence: int | None, own: int = 0) -> str:
    """One of `NODE_STATES`; `silence` is None when it is not a member. Who is cut off knows nothing of others (N23)."""
    if own > standing.terms.lease // SILENT_SHARE:
        return "cut-off" if member.life == standing.life else "unknown"
    if silence is None:
        return "down" if member.beat else "starting"
    if member.replaced:
        return "replaced"
    if silence > standing.terms.lease // SILENT_SHARE:
        return "silent"
    return "leads" if member.life == standing.leader else "follows"


def lag_of(standing: Standing, member: Member) -> int:
    """How many records a node has not taken in yet; what has written them all has none left."""
    if member.life == standing.leader:
        return 0
    other = standing.others.get(member.life)
    hidden = standing.folded if member.life == standing.life else 0 if other is None else other.hidden
    return max(0, standing.known - max(hidden, member.hidden))


class _Away:
    """Who is not a member now. The store is asked now and then, and an operator does not wait for it long."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._known: tuple[Member, ...] = ()
        self._next = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def known(self) -> Sequence[Member]:
        """As they were a moment ago; without the database, as it was last known."""
        if self._asking is None and monotonic() >= self._next:
            self._asking = asyncio.create_task(self._ask())
        if self._asking is not None:
            await asyncio.wait((self._asking,), timeout=ASK_PATIENCE)
        return self._known

    async def _ask(self) -> None:
        with suppress(DuenoticeError):
            self._known = await self._seat.absent()
        self._next, self._asking = monotonic() + ASK_EVERY, None


def _rounded(micros: int) -> float:
    return round(seconds(max(0, micros)), 3)
