"""The nodes as an operator sees them: who leads, how far each is, for how long each may answer, and who is away."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from starlette.requests import Request
from starlette.responses import Response

from duenotice import __version__
from duenotice.clock import boot_micros, monotonic, seconds, wall
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.lives import born
from duenotice.engine.members import Member
from duenotice.engine.membership import Standing
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.seat import Seat
from duenotice.errors import DuenoticeError
from duenotice.operator_api.answers import shown
from duenotice.operator_api.calls import Call
from duenotice.wire import operator as o

SILENT_SHARE = 3
"""A member that has not beaten for a third of a lease, which is four beats, is called silent."""
ASK_EVERY, ASK_PATIENCE = 1.0, 0.5
"""Real seconds: how often the store is asked who is away, and how long an operator waits for that."""


class NodeList:
    """The call about nodes; a service on its own has one."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name, self._began = engine, name, wall()
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
            )
        )

    def _alone(self) -> o.NodesSeen:
        position, since = self._engine.state.position, self._in_our_time(self._began)
        me = o.NodeSeen(self._name, "leads", True, 0, None, None, __version__, since, "")
        return o.NodesSeen(self._name, self._name, 0, position, position, None, None, (me,))

    def _seen(self, standing: Standing, member: Member, is_away: bool, now: int) -> o.NodeSeen:
        silence = None if is_away else silence_of(standing, member, now)
        return o.NodeSeen(
            name=member.node,
            state=state_of(standing, member, silence),
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


def silence_of(standing: Standing, member: Member, now: int) -> int:
    """Microseconds since the last beat of a member; of our own since before we sent it (N05)."""
    if member.life == standing.life:
        return max(0, now - (standing.right_until - standing.terms.right))
    other = standing.others.get(member.life)
    return 0 if other is None else max(0, now - other.since)


def state_of(standing: Standing, member: Member, silence: int | None) -> str:
    """One of `NODE_STATES`; `silence` is None when it is not a member."""
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
