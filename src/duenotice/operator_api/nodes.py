"""What the nodes of a cluster ask each other, and what an operator asks about them (N09).

A request that changes something is passed on whole to the node that leads: its token is in the journal, so it counts
there too. What a VM asks for becomes a command, and is passed on as one; the life of the asking node, which only nodes
and the database know, is what lets it in.
"""

import hmac
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from duenotice import errors
from duenotice.clock import boot_micros, seconds
from duenotice.domain.commands import Command
from duenotice.domain.token import Role
from duenotice.engine.members import Member
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.writer import Ask, Records
from duenotice.errors import DuenoticeError, Unavailable
from duenotice.http_call import call
from duenotice.journal.codec import RECORDS, Row
from duenotice.operator_api.answers import problem, shown
from duenotice.operator_api.calls import Call, decoded

PASSED = "Duenotice-Passed-By"
NODE = "Duenotice-Node"
POSITION = "Duenotice-Position"
_NODES_PATH = "/v1/nodes"
_COMMANDS_PATH = "/v1/nodes/commands"
_LIFE = "Duenotice-Life"
_ENOUGH = 20.0
"""Real seconds for the leader's answer: a change waits for members that have just died."""
_AGAIN = "It may be done or not. Send it again with the same Idempotency-Key."
_KEPT_HEADERS = ("content-type", "location", "retry-after", "cache-control", "www-authenticate", "idempotent-replayed")
_SENT_HEADERS = ("authorization", "content-type", "idempotency-key", "accept")

_COMMANDS: dict[str, type[Command]] = {kind.__name__: kind for kind in Command.__subclasses__()}
_KINDS: dict[str, Callable[..., DuenoticeError]] = {
    kind.__name__: kind
    for kind in (errors.Refused, errors.NotFound, errors.Conflict, errors.Malformed, errors.Unavailable)
}


class PassedCommand(Struct, frozen=True):
    """A command on its way to the leader."""

    kind: str
    actor: str
    command: msgspec.Raw


class StoredRecord(Struct, frozen=True, array_like=True):
    """A record as the journal has it."""

    position: int
    format: int
    crc: int
    payload: str


class CommandDone(Struct, frozen=True):
    """The result: records, or an error."""

    records: tuple[StoredRecord, ...] = ()
    error: str = ""
    message: str = ""
    hint: str = ""


class NodeSeen(Struct, frozen=True):
    """One node as the asked one sees it; `lag` is in records, `silent_for` in seconds."""

    name: str
    url: str
    version: str
    leads: bool
    lag: int
    silent_for: float
    leaving: bool = False


class NodesSeen(Struct, frozen=True):
    """All nodes. `right_for` is how many seconds the asked node may still answer VMs without a beat."""

    node: str
    leader: str
    epoch: int
    position: int
    shown: int
    lease: float
    right_for: float
    items: tuple[NodeSeen, ...]


async def pass_command(leader: Member, ask: Ask, life: str) -> Records:
    """Have the leader do a command of a VM or of a node that starts."""
    if ask.receipt is not None:
        raise Unavailable("This node does not lead any more.", hint="Send it again; it is passed on.")
    body = msgspec.json.encode(PassedCommand(type(ask.command).__name__, ask.actor, _raw(ask.command)))
    headers = {"Content-Type": "application/json", _LIFE: life}
    answer = await call(leader.url + _COMMANDS_PATH, method="POST", body=body, headers=headers, timeout=_ENOUGH)
    if answer.status != 200:
        raise Unavailable(f"The node {leader.node} did not take it: {answer.status}.", hint="Try again.")
    done = msgspec.json.decode(answer.body, type=CommandDone)
    if done.error:
        raise _KINDS.get(done.error, Unavailable)(done.message, hint=done.hint)
    return tuple(RECORDS.unpack(Row(r.position, r.format, r.crc, r.payload.encode())) for r in done.records)


def _raw(command: Command) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(command))


class Nodes:
    """The calls about nodes, and the way to the one that leads."""

    def __init__(self, engine: NodeEngine) -> None:
        self._engine = engine

    def calls(self) -> list[Call]:
        """The rows of the table."""
        return [
            Call("GET", _NODES_PATH, Role.VIEWER, self.index, "The nodes, and which one leads", {200: NodesSeen}),
            Call("POST", _COMMANDS_PATH, None, self.command, "For other nodes only", {200: CommandDone}, PassedCommand),
        ]

    async def index(self, _: Request) -> Response:
        """All members, as this node sees them."""
        engine, seat = self._engine, self._engine.seat
        sight, now = seat.sight, boot_micros()
        seen = () if sight is None else tuple(self._seen(member, now) for member in sight.members)
        leader = "" if seat.leader is None else seat.leader.node
        right = seconds(max(0, seat.right_until - now))
        standing = seat.standing
        return shown(
            NodesSeen(
                seat.identity.node,
                leader,
                standing.epoch,
                standing.known,
                engine.state.position,
                seconds(standing.terms.lease),
                right,
                seen,
            )
        )

    def _seen(self, member: Member, now: int) -> NodeSeen:
        seat = self._engine.seat
        standing, is_self = seat.standing, member.life == seat.identity.life
        other = standing.others.get(member.life)
        hidden = standing.folded if is_self else max(member.hidden, 0 if other is None else other.hidden)
        silent = 0.0 if is_self or other is None else seconds(now - other.since)
        leads = member.life == standing.leader
        lag = 0 if leads else max(0, standing.known - hidden)
        return NodeSeen(member.node, member.url, member.version, leads, lag, round(silent, 3), member.replaced)

    async def command(self, request: Request) -> Response:
        """Do what another node passes on, if we lead."""
        if not self._is_node(request.headers.get(_LIFE, "")):
            return problem(401, "This is for the nodes of the cluster.", "Use the other calls.")
        asked = await decoded(request, PassedCommand)
        kind = _COMMANDS.get(asked.kind)
        if kind is None or not self._engine.leads:
            return problem(503, "This node does not lead.", "Try again.", {"Retry-After": "1"})
        try:
            command: Any = msgspec.json.decode(asked.command, type=kind)
            return shown(_done(await self._engine.submit(command, asked.actor)))
        except DuenoticeError as error:
            name = next((cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _KINDS), "Unavailable")
            return shown(CommandDone((), name, error.message, error.hint))

    def _is_node(self, life: str) -> bool:
        return any(hmac.compare_digest(known, life) for known in self._engine.seat.standing.others)

    async def caught_up(self, call: Call) -> None:
        """Who was answered at one node reads the result at every other; how the nodes are is told at once."""
        if call.role is not None and call.path != _NODES_PATH:
            await self._engine.caught_up()

    async def elsewhere(self, request: Request) -> Response | None:
        """The answer of the node that leads to a request that changes something; None if that is this one."""
        if self._engine.leads or request.url.path == _COMMANDS_PATH:
            return None
        if PASSED in request.headers:
            raise Unavailable("No node leads right now.", hint="Try again.")
        leader = await self._engine.leader()
        return None if leader is None else await self._asked(leader, request)

    async def _asked(self, leader: Member, request: Request) -> Response:
        headers = {name: request.headers[name] for name in _SENT_HEADERS if name in request.headers}
        url = leader.url + request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers[PASSED] = self._engine.seat.identity.node
        try:
            answer = await call(url, method=request.method, body=await request.body(), headers=headers, timeout=_ENOUGH)
        except Unavailable as error:
            raise Unavailable(f"The node that leads did not answer: {error.message}", hint=_AGAIN) from None
        await self._engine.reach(int(answer.headers.get(POSITION.lower(), "0")))
        kept = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
        return Response(answer.body, answer.status, {**kept, NODE: leader.node})

    def sign(self, response: Response) -> Response:
        """Say which node did it, and how far the journal was then."""
        response.headers.setdefault(NODE, self._engine.seat.identity.node)
        response.headers.setdefault(POSITION, str(self._engine.state.position))
        return response


def _done(records: Records) -> CommandDone:
    rows = [RECORDS.pack(record) for record in records]
    return CommandDone(tuple(StoredRecord(row.position, row.format, row.crc, row.payload.decode()) for row in rows))
