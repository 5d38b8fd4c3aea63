"""The calls of followers: a snapshot, a stream of records, beats, and what VMs ask a follower to pass on.

One that cannot go on from where it was gets a 409, and begins with a snapshot again.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

from msgspec import Raw, structs
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from duenotice.bounds import BEATS, NAMES
from duenotice.domain import commands as c
from duenotice.domain.records import Record, TokenRevoked
from duenotice.domain.snapshot import Snapshot, partial_snapshot
from duenotice.domain.token import Role
from duenotice.engine.engine import Engine
from duenotice.engine.followers import Followers
from duenotice.engine.last_polls import LastPolls
from duenotice.errors import Conflict, Malformed, NotFound
from duenotice.operator_api.answers import Resource, encode, problem, shown
from duenotice.operator_api.calls import LAST, Call, decoded, new_id, number
from duenotice.operator_api.follow_places import FollowPlaces
from duenotice.operator_api.follow_stream import LINES, Chooses, FollowerEar, FollowResponse, Lines, chosen_of
from duenotice.operator_api.node_troubles import Reader
from duenotice.store.codec import SNAPSHOTS, Row
from duenotice.wire import replication as f
from duenotice.wire.operator.to_domain import chooses

PIECE = 256 * 1024
POLLS_EVERY = 600_000_000
"""Microseconds of the clock between two reports of who has polled; scopes are turned off after 24 hours (F02)."""

_AGAIN = "Read the snapshot again, and go on from there."


class FollowCalls(Resource):
    """What a node is for its followers; `node` is its life: another process may have another journal."""

    def __init__(self, engine: Engine, followers: Followers) -> None:
        super().__init__(engine)
        self._followers = followers
        self._node = new_id()
        self._lines = Lines(engine)
        self.places = FollowPlaces(followers)
        self._last_polls = LastPolls(engine.publisher, engine.clock.now().steady)
        engine.on_commit.append(self._hang_up_on_revoked)

    def calls(self) -> list[Call]:
        """The rows of the table."""
        root, role = "/v1/follow", Role.FOLLOWER
        place, retry = ("after", "node", "life", "only"), (409, 503)
        return [
            Call(
                "GET",
                f"{root}/snapshot",
                role,
                self.snapshot,
                "Where to begin",
                {200: f.FollowSnapshot},
                query=("only",),
            ),
            Call(
                "GET", f"{root}/records", role, self.records, "What happens", {200: LINES}, query=place, refusals=retry
            ),
            Call(
                "POST",
                f"{root}/beat",
                role,
                self.beat,
                "A sign of life",
                {200: f.Right},
                f.FollowerBeat,
                here=True,
                bounds=BEATS,
            ),
            Call(
                "POST",
                f"{root}/command",
                role,
                self.command,
                "What a VM asks for",
                {200: f.Done},
                f.VmCommand,
                refusals=(404,),
                here=True,
                bounds=NAMES,
            ),
        ]

    async def snapshot(self, request: Request) -> Response:
        """The newest state, or what some VMs need of it; made off the loop and sent in pieces (S26)."""
        if (refusal := _refusal(request)) is not None:
            return refusal
        choice = _choice(request)
        if choice is None:
            whole = await self._engine.snapshot()
            row = await self._engine.aside(lambda: SNAPSHOTS.pack(_without_secrets(whole)))
        else:
            row = await self._engine.look(
                lambda state: SNAPSHOTS.pack(partial_snapshot(state, chosen_of(state, choice)))
            )
        return StreamingResponse(_in_pieces(self._node, row), media_type="application/json")

    async def records(self, request: Request) -> Response:
        """A stream without an end."""
        if (refusal := _refusal(request)) is not None:
            return refusal
        self._followers.refuse_if_over()
        after = number(request, "after", 0, 0, LAST)
        life, node = request.query_params.get("life", ""), request.query_params.get("node", "")
        if not life:
            raise Malformed("life is missing.", hint="Say which process follows, as in its beats.")
        is_known = node == self._node and after + 1 >= self._engine.remembers_from
        if not is_known or after > max(self._followers.told, self._engine.state.position):
            raise Conflict("This node does not have the journal up to there.", hint=_AGAIN)
        ear = FollowerEar(self._engine, self._lines, _choice(request))
        token, host = request.state.token, "" if request.client is None else request.client.host
        reader = Reader.of(token, request.query_params.get("only", ""), host)
        self.places.take(token, _life_of(request, life), ear, reader)
        return FollowResponse(
            self._engine, self._followers, ear, _life_of(request, life), after, lambda: self.places.leave(ear)
        )

    async def beat(self, request: Request) -> Response:
        """The right to answer for a while (N05)."""
        beat = await decoded(request, f.FollowerBeat)
        life = _life_of(request, beat.life)
        if beat.leaving:
            self._followers.leave(life)
            return shown(f.Right(0, 0))
        if beat.node != self._node:
            raise Conflict("This is not the process that the follower has listened to.", hint=_AGAIN)
        right = self._followers.beat(life, beat.applied, beat.hidden)
        clock = self._engine.clock
        now, told = clock.now().steady, self._of_its_own(life, beat.polls)
        self._last_polls.merge({scope: now - int(ago * clock.speed) for scope, ago in told.items()})
        every = int(POLLS_EVERY / max(1.0, clock.speed))
        return shown(f.Right(right, every, is_owed=not right and self._followers.owes(life)))

    async def command(self, request: Request) -> Response:
        """Done as if the VM had asked us."""
        asked = await decoded(request, f.VmCommand)
        if not self._may_ask_for(request, asked.vm):
            raise NotFound(f"There is no VM {asked.vm!r} for this token.", hint="Use a token for the VM's own host.")
        command = c.ApproveEvents(asked.approve, vm=asked.vm) if asked.approve else c.EnableScope(asked.vm)
        records = await self._engine.submit(command, f"vm/{asked.vm}")
        return shown(f.Done(records[-1].position if records else 0))

    def _may_ask_for(self, request: Request, name: str) -> bool:
        only, vm = request.state.token.only, self._engine.state.fleet.vms.get(name)
        return not only or (vm is not None and chooses(only)(vm))

    def _of_its_own(self, life: str, polls: Mapping[str, int]) -> Mapping[str, int]:
        """A follower of some VMs cannot keep the scopes of others from being turned off (F02)."""
        ear = self._followers.by_life[life].ear
        if not polls or not isinstance(ear, FollowerEar) or ear.interest.is_all:
            return polls
        return {scope: ago for scope, ago in polls.items() if scope in ear.interest.scopes}

    def _hang_up_on_revoked(self, records: Sequence[Record]) -> None:
        changes = (record.transition for record in records)
        revoked = {change.token_id for change in changes if isinstance(change, TokenRevoked)}
        for life, follower in self._followers.by_life.items():
            if revoked and life.partition("/")[0] in revoked:
                follower.ear.close()  # it is still waited for: it may answer until its right is over


def _life_of(request: Request, life: str) -> str:
    """A process under its own token: nobody can speak for the follower of another one."""
    return f"{request.state.token.id}/{life}"


def _refusal(request: Request) -> Response | None:
    """A token for some VMs is good for these alone."""
    token, only = request.state.token, request.query_params.get("only", "")
    if token.only in ("", only):
        return None
    asked = f"only {only}" if only else "everything"
    title = f"Token {token.name!r} is for {token.only} only, and this asks for {asked}."
    return problem(403, title, f"Start the follower with --only {token.only}, or use another token.")


def _choice(request: Request) -> Chooses | None:
    only = request.query_params.get("only", "")
    return chooses(only) if only else None


def _without_secrets(snapshot: Snapshot) -> Snapshot:
    """A follower checks no tokens, signs nobody in, pushes nothing and has no fleet file, so it need not know how."""
    return structs.replace(
        snapshot,
        tokens=tuple(structs.replace(token, digest="") for token in snapshot.tokens),
        subscriptions=tuple(known.without_secrets() for known in snapshot.subscriptions),
        sessions=(),
        last_applied=(),
    )


async def _in_pieces(node: str, row: Row) -> AsyncIterator[bytes]:
    """The same bytes as a `FollowSnapshot`, without a copy of the snapshot."""
    head = encode(f.FollowSnapshot(node, *row[:3], Raw(b"null"))).removesuffix(b"null}")
    yield head
    for begin in range(0, len(row.payload), PIECE):
        yield row.payload[begin : begin + PIECE]
    yield b"}"
