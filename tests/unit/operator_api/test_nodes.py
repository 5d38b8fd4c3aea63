"""The operator's door of one of several nodes: what it answers is what the cluster knows, or 503 (N09, N13, S6)."""

import asyncio
import json
from functools import partial
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from duenotice.client.operator.request import OperatorRequest
from duenotice.clock import MICROS, monotonic
from duenotice.console.session import Sessions
from duenotice.domain.commands import BeginSession, CreateToken, EnableScope, RevokeToken
from duenotice.domain.token import Role, digest_of
from duenotice.engine.members import Member
from duenotice.engine.ticker import Ticker
from duenotice.engine.writer import Ask
from duenotice.errors import NotFound, Unavailable
from duenotice.http.asgi import AsgiTransport
from duenotice.http.fetch import HttpAnswer
from duenotice.http.flow import Exchange
from duenotice.http.http1 import Response
from duenotice.operator_api.app import OperatorApi
from duenotice.operator_api.nodes import CommandDone, Nodes, StoredRecord, pass_command
from duenotice.operator_api.tokens import asked_with
from duenotice.operator_api.way_to_leader import WayToLeader
from duenotice.store.codec import RECORDS, checksum
from tests.unit.domain.build import id_of
from tests.unit.engine.cluster_rig import LEASE, Cluster, Node, ask, settle, three
from tests.unit.engine.rig import SECONDS, in_loop, reboot, shown

TOKEN = "a-token"
CANCEL = f"/v1/events/{id_of(1)}/cancel"
SCHEDULED = [(id_of(1), "scheduled")]


class Door:
    """The operator's door of one node."""

    def __init__(self, node: Node, token: str = TOKEN, token_id: str = "") -> None:
        node.engine.patience = 0.01
        app: Any = OperatorApi(node.engine, Ticker(node.engine), nodes=Nodes(node.engine)).app()
        asked = asked_with(app, lambda: token_id) if token_id else app
        self._token, self._transport = token, AsgiTransport(asked, asyncio.get_running_loop())

    def cancel(self, key: str = "") -> "asyncio.Task[Response]":
        """Cancel the event."""
        return self.post(CANCEL, b"{}", key)

    def get(self, path: str) -> "asyncio.Task[Response]":
        """Read something."""
        return self._ask(OperatorRequest("GET", path, bytes))

    def post(self, path: str, body: bytes, key: str = "") -> "asyncio.Task[Response]":
        return self._ask(OperatorRequest("POST", path, bytes, body, key=key))

    def _ask(self, request: OperatorRequest[bytes]) -> "asyncio.Task[Response]":
        step = Exchange(request.to_http(self._token), monotonic() + SECONDS)
        return asyncio.get_running_loop().create_task(self._transport.exchange(step))


async def with_a_token(cluster: Cluster) -> None:
    await ask(cluster.leader, CreateToken("T-1", "admin", Role.ADMIN, digest_of(TOKEN)))
    await ask(cluster.leader, EnableScope("alone"))
    await settle()


async def another_leads(cluster: Cluster, old: Node) -> Node:
    await cluster.until(lambda: any(node.engine.leads for node in cluster.nodes if node is not old), 2 * LEASE)
    (new,) = [node for node in cluster.nodes if node.engine.leads and node is not old]
    return new


def _ask_again(door: Door, asked: "list[asyncio.Task[Response]]") -> None:
    asked.append(door.cancel(key="k"))


@pytest.mark.parametrize("who", [(TOKEN, ""), ("", "T-1")], ids=["a program", "a page of the console"])
@in_loop
async def test_what_other_nodes_may_show_already_is_waited_for(who: tuple[str, str]) -> None:
    """A token that was made at another node just now, and what is read with it; how the nodes are is told at once."""
    async with three() as cluster:
        deaf, other = cluster.others
        deaf.line.is_deaf = True
        made = ask(cluster.leader, CreateToken("T-1", "admin", Role.ADMIN, digest_of(TOKEN)))
        await settle()
        door = Door(other, *who)
        other.engine.patience = SECONDS
        reading, alive = door.get("/v1/me"), door.get("/livez")
        await settle()
        assert (reading.done(), (await alive).status) == (False, 200)
        await cluster.until(made.done, MICROS)
        assert (await reading).status == 200


@in_loop
async def test_who_signed_in_at_another_node_just_now_is_waited_for() -> None:
    """The next request of a browser may go to a node that does not show the sign-in yet."""
    async with three() as cluster:
        await with_a_token(cluster)
        deaf, other = cluster.others
        deaf.line.is_deaf = True
        secret = "s" * 43
        begun = ask(cluster.leader, BeginSession("T-1", digest_of(secret), LEASE))
        await settle()
        other.engine.patience = SECONDS
        sessions = Sessions(other.engine, Nodes(other.engine).have_caught_up)
        asking = asyncio.ensure_future(sessions.token_now(secret))
        await settle()
        assert (asking.done(), sessions.token_of(secret)) == (False, None)
        await cluster.until(begun.done, MICROS)
        token = await asking
        assert token is not None and token.id == "T-1"


@in_loop
async def test_a_leader_that_was_cut_off_does_not_say_that_something_is_not_there() -> None:
    """Another node leads by now, and may have raised it, or done this very request (S6)."""
    async with three() as cluster:
        await with_a_token(cluster)
        old = cluster.leader
        door = Door(old)
        old.line.is_cut = True
        new = await another_leads(cluster, old)
        done = ask(new, reboot("alone"))
        await cluster.until(done.done)
        assert shown(new.engine, "alone") == SCHEDULED
        assert old.engine.leads  # as far as it knows
        answer = await door.cancel()
        assert (answer.status, json.loads(answer.body)["title"]) == (503, "No node leads right now.")


@in_loop
async def test_a_leader_that_loses_its_lead_while_it_looks_does_not_say_that_something_is_not_there() -> None:
    """It had the right when the request came, but not when it refuses."""
    async with three() as cluster:
        await with_a_token(cluster)
        nodes = Nodes(cluster.leader.engine)
        cluster.leader.engine.patience = 0.0
        request = Request({"type": "http", "method": "POST", "path": "/v1/events", "headers": []})

        async def look() -> Any:
            raise NotFound("it is not there")

        async def look_for_long() -> Any:
            cluster.micros += LEASE
            await look()

        with pytest.raises(NotFound):
            await nodes.answer(request, look)
        with pytest.raises(Unavailable, match="does not lead any more"):
            await nodes.answer(request, look_for_long)


@in_loop
async def test_a_request_that_the_old_leader_stored_has_the_stored_answer_at_the_new_one() -> None:
    """Also before the new leader may show what the old one stored."""
    async with three() as cluster:
        await with_a_token(cluster)
        await ask(cluster.leader, reboot("alone"))
        await settle()
        old = cluster.leader
        doors = {node.name: Door(node) for node in cluster.nodes}
        old.line.loses_answers = True
        lost = doors[old.name].cancel(key="k")
        await cluster.until(lost.done)
        assert (await lost).status == 503
        again: list[asyncio.Task[Response]] = []
        for node in cluster.others:
            node.engine.on_lead.append(partial(_ask_again, doors[node.name], again))
        new = await another_leads(cluster, old)
        await cluster.until(lambda: again and again[0].done())
        answer = await again[0]
        assert (answer.status, json.loads(answer.body)["id"]) == (200, id_of(1)), answer
        assert answer.headers["idempotent-replayed"] == "true"
        assert shown(new.engine, "alone") == []


class NewerLeader(WayToLeader):
    """Its answer has a record in a format that is not known here yet."""

    async def sent(
        self, leader: Member, path: str, method: str, body: bytes | bytearray, headers: dict[str, str]
    ) -> HttpAnswer:
        payload, known = "{}", RECORDS.format + 1
        record = StoredRecord(7, known, checksum(7, known, payload.encode()), payload)
        return HttpAnswer(200, msgspec.json.encode(CommandDone((record,))))


@in_loop
async def test_what_a_newer_leader_has_done_is_unavailable_at_an_older_node() -> None:
    """The VM is told to ask again, and not that the service has failed (N16)."""
    leader = Member("life", "b", "http://b", "99")
    with pytest.raises(Unavailable, match="record 7 was written by a newer duenotice"):
        await pass_command(leader, Ask(EnableScope("alone"), "vm/alone"), "me", NewerLeader())


@pytest.mark.parametrize(
    "life",
    [None, "", "not a life", "lïfe", "own"],
)
@in_loop
async def test_only_a_node_can_say_which_token_a_request_has(life: str | None) -> None:
    """A page of the console at another node has no token: the leader believes its node, and nobody else (S35)."""
    async with three() as cluster:
        await with_a_token(cluster)
        leading = cluster.leader
        said = leading.engine.seat.identity.life if life == "own" else life
        claims = [("duenotice-asked-with", "T-1"), ("duenotice-passed-by", "b")]
        claims += [] if said is None else [("duenotice-life", said)]
        assert await me(leading, claims) == 401


@in_loop
async def test_what_a_node_says_about_a_token_counts_until_it_is_revoked() -> None:
    async with three() as cluster:
        await with_a_token(cluster)
        await ask(cluster.leader, CreateToken("T-2", "other", Role.ADMIN, digest_of("other")))
        life = cluster.others[0].engine.seat.identity.life
        claims = [("duenotice-asked-with", "T-1"), ("duenotice-life", life)]
        assert await me(cluster.leader, claims) == 200
        await ask(cluster.leader, RevokeToken("T-1"))
        assert await me(cluster.leader, claims) == 401


async def me(node: Node, headers: list[tuple[str, str]]) -> int:
    """How `GET /v1/me` is answered to a request from the network with these headers."""
    app = OperatorApi(node.engine, Ticker(node.engine), nodes=Nodes(node.engine)).app()
    statuses = []

    async def send(message: Any) -> None:
        statuses.append(message.get("status"))

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    scope = {"type": "http", "method": "GET", "path": "/v1/me", "query_string": b"", "headers": raw}
    await app(scope, receive, send)
    return int(statuses[0])


@in_loop
async def test_a_command_of_somebody_who_is_not_a_node_is_refused_before_a_byte_of_it_is_read() -> None:
    """Its body may be as large as a fleet (S29)."""
    statuses = list[int]()

    async def never() -> Any:
        raise AssertionError("the body was asked for")

    async def hear(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else ())

    async with three() as cluster:
        engine = cluster.leader.engine
        app: Any = OperatorApi(engine, Ticker(engine), nodes=Nodes(engine)).app()
        for life in (b"", b"made-up", "é".encode()):
            headers = [(b"duenotice-life", life), (b"host", b"x"), (b"content-length", b"1000000")]
            scope = {"type": "http", "method": "POST", "path": "/v1/nodes/commands", "query_string": b""}
            await app({**scope, "headers": headers}, never, hear)
    assert statuses == [401] * 3
