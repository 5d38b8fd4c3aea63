"""What the nodes of a cluster ask each other (N09); what an operator asks about them is in `node_list`.

A request that changes something is passed on whole to the node that leads: its token is in the journal, so it counts
there too. A page of the console has no token, so its node says with which one the visitor has signed in. What a VM asks
for becomes a command, and is passed on as one; the life of the asking node, which only nodes and the database know, is
what lets it in, and what makes the leader believe it.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from duenotice import errors
from duenotice.bounds import WHOLE_FLEET
from duenotice.clock import monotonic
from duenotice.domain.commands import Command
from duenotice.engine.members import Deposed, Member
from duenotice.engine.node_engine import NodeEngine
from duenotice.engine.writer import Ask, Records
from duenotice.errors import DuenoticeError, Misconfigured, Refused, Unavailable
from duenotice.operator_api.answers import JSON, encode, key_of, problem, shown
from duenotice.operator_api.calls import Call, decoded
from duenotice.operator_api.large_body import LargeBody
from duenotice.operator_api.tokens import ASKED_WITH
from duenotice.operator_api.way_to_leader import NOTHING_DONE, UNDONE, WayToLeader
from duenotice.store.codec import RECORDS, Row

PASSED = "Duenotice-Passed-By"
NODE = "Duenotice-Node"
POSITION = "Duenotice-Position"
_NODES_PATH = "/v1/nodes"
_COMMANDS_PATH = "/v1/nodes/commands"
_LIFE = "Duenotice-Life"
_ASKED_WITH = "Duenotice-Asked-With"
"""The id of the token behind a request that a page of the console makes: only a node may say so, with its life."""
_KEPT_HEADERS = ("content-type", "location", "retry-after", "cache-control", "www-authenticate", "idempotent-replayed")
_SENT_HEADERS = ("authorization", "content-type", "idempotency-key", "accept")

_COMMANDS: dict[str, type[Command]] = {kind.__name__: kind for kind in Command.__subclasses__()}
_KINDS: dict[str, Callable[..., DuenoticeError]] = {
    kind.__name__: kind
    for kind in (errors.Refused, errors.NotFound, errors.Conflict, errors.Malformed, errors.Unavailable)
}


Answering = Callable[[], Awaitable[Response]]


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


async def pass_command(leader: Member, ask: Ask, life: str, way: WayToLeader) -> Records:
    """Have the leader do a command of a VM or of a node that starts."""
    body = msgspec.json.encode(PassedCommand(type(ask.command).__name__, ask.actor, _raw(ask.command)))
    headers = {"Content-Type": "application/json", _LIFE: life}
    answer = await way.sent(leader, _COMMANDS_PATH, "POST", body, headers)
    if answer.status != 200:
        raise Unavailable(f"The node {leader.node} did not take it: {answer.status}.", hint="Try again.")
    done = msgspec.json.decode(answer.body, type=CommandDone)
    if done.error:
        raise _KINDS.get(done.error, Unavailable)(done.message, hint=done.hint)
    try:
        return tuple(RECORDS.unpack(Row(r.position, r.format, r.crc, r.payload.encode())) for r in done.records)
    except Misconfigured as error:  # it is done, by a newer duenotice than this one (N16)
        raise Unavailable(error.message, hint=error.hint) from None


def _raw(command: Command) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(command))


class Nodes:
    """The calls about nodes, and the way to the one that leads."""

    def __init__(self, engine: NodeEngine, way: WayToLeader | None = None) -> None:
        self._engine, self.way = engine, way or WayToLeader()

    def calls(self) -> list[Call]:
        """The rows of the table."""
        answers = {200: CommandDone}
        about, bounds = "For other nodes only", WHOLE_FLEET
        return [
            Call(
                "POST",
                _COMMANDS_PATH,
                None,
                self.command,
                about,
                answers,
                PassedCommand,
                refusals=(401,),
                bounds=bounds,
                refuse=self._refuse,
            )
        ]

    async def command(self, request: Request) -> Response:
        """Do what another node passes on, if we lead."""
        asked = await decoded(request, PassedCommand)
        kind = _COMMANDS.get(asked.kind)
        if kind is None or not self._engine.leads_under():
            return _undone("This node does not lead.", "Try again.")
        try:
            engine, raw = self._engine, asked.command
            command: Any = await engine.aside(lambda: msgspec.json.decode(raw, type=kind))
            records = await engine.submit(command, asked.actor)
            return Response(await engine.aside(lambda: encode(_done(records))), media_type=JSON)
        except Deposed as error:
            return _undone(error.message, error.hint)
        except DuenoticeError as error:
            name = next((cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _KINDS), "Unavailable")
            return shown(CommandDone((), name, error.message, error.hint))

    def _refuse(self, request: Request) -> Response | None:
        if self._is_node(request.headers.get(_LIFE, "")):
            return None
        return problem(401, "This is for the nodes of the cluster.", "Use the calls in docs/operator-api.md.")

    def _is_node(self, life: str) -> bool:
        said = life.encode()
        return any(hmac.compare_digest(known.encode(), said) for known in self._engine.seat.standing.others)

    def vouched_for(self, request: Request) -> str:
        """The id of the token that another node has seen, which passes a request of its console on; or empty."""
        token_id = request.headers.get(_ASKED_WITH, "")
        return token_id if token_id and self._is_node(request.headers.get(_LIFE, "")) else ""

    async def answer(self, request: Request, here: Answering) -> Response:
        """What the node that leads answers to a request that changes something, also if that changes meanwhile (N09).

        It is asked again only when surely nothing was done.
        """
        until = monotonic() + self._engine.patience
        while True:
            try:
                return await self._elsewhere(request) or await self._here(here)
            except Deposed as error:
                if PASSED in request.headers:
                    return _undone(error.message, error.hint)
                if monotonic() >= until:
                    raise
                await self._engine.stir()

    async def have_caught_up(self) -> None:
        """Wait until this node shows what another one may have shown already."""
        await self._engine.caught_up()

    async def caught_up(self, call: Call) -> None:
        """A client that was answered at one node reads the result at every other; the list of nodes is told at once."""
        if call.role is not None and call.path != _NODES_PATH:
            await self._engine.caught_up()

    async def _elsewhere(self, request: Request) -> Response | None:
        if self._engine.leads_under() or request.url.path == _COMMANDS_PATH:
            return None
        if PASSED in request.headers:
            raise Deposed("This node does not lead.", hint="Try again.")
        leader = await self._engine.leader()
        return None if leader is None else await self._asked(leader, request)

    async def _asked(self, leader: Member, request: Request) -> Response:
        key_of(request)  # what is not valid is refused here: only one of two keys would be passed on
        headers = {name: request.headers[name] for name in _SENT_HEADERS if name in request.headers}
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if token_id := request.scope.get(ASKED_WITH):
            headers |= {_ASKED_WITH: token_id, _LIFE: self._engine.seat.identity.life}
        headers[PASSED] = self._engine.seat.identity.node
        body = request.state.body
        if isinstance(body, LargeBody):
            body = await asyncio.to_thread(b"".join, body.blocks())
        answer = await self.way.sent(leader, path, request.method, body, headers)
        await self._engine.reach(int(answer.headers.get(POSITION.lower(), "0")))
        kept = {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}
        return Response(answer.body, answer.status, {**kept, NODE: leader.node})

    async def _here(self, answer: Answering) -> Response:
        """Our own answer. What we refuse counts only if nobody else can have led meanwhile (S6)."""
        epoch = self._engine.leads_under()
        try:
            return self.signed(await answer())
        except Refused:
            if epoch and epoch == self._engine.leads_under():
                raise
            raise Deposed("This node does not lead any more.", hint=NOTHING_DONE) from None

    def signed(self, response: Response) -> Response:
        """Say which node did it, and how far the journal was then."""
        response.headers.setdefault(NODE, self._engine.seat.identity.node)
        response.headers.setdefault(POSITION, str(self._engine.state.position))
        return response


def _undone(title: str, hint: str) -> Response:
    return problem(503, title, hint, {"Retry-After": "1", UNDONE: "true"})


def _done(records: Records) -> CommandDone:
    rows = [RECORDS.pack(record) for record in records]
    return CommandDone(tuple(StoredRecord(row.position, row.format, row.crc, row.payload.decode()) for row in rows))
