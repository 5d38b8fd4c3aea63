"""Agents ask each other: signed questions, signed answers, and silence that is never readiness."""

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest

from duenotice.agent.config import Peers
from duenotice.agent.http_server import Request, serve
from duenotice.agent.peers import PATH, PeerClient, PeerState, answer_peer, sign
from duenotice.agent.planner import AskPeers, PeerAnswers
from duenotice.http.fetch import HttpAnswer

KEY = b"0123456789abcdef"
TARGET = f"{PATH}?event=E1&content=C1"
READY = PeerState(ready=True, in_service=False)


def tell(event_id: str, revision: str) -> PeerState:
    return READY if (event_id, revision) == ("E1", "C1") else PeerState(ready=False, in_service=True)


def asked(key: bytes = KEY, vm: str = "web-1", target: str = TARGET, nonce: str = "n") -> Request:
    return Request(target, {"duenotice-nonce": nonce, "duenotice-signature": sign(key, "ask", vm, target, nonce)})


def test_a_good_question_is_answered_for_that_event_and_content():
    """Ready for one content is not ready for another (S12)."""
    answer = answer_peer(asked(), [KEY], "web-1", tell)
    assert json.loads(answer.body) == {"vm": "web-1", "ready": True, "in_service": False}
    other = answer_peer(asked(target=f"{PATH}?event=E1&content=C2"), [KEY], "web-1", tell)
    assert json.loads(other.body)["ready"] is False


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (asked(key=b"another key of 16"), 403),
        (asked(vm="web-2"), 403),
        (asked()._replace(target=f"{PATH}?event=E2&content=C1"), 403),
        (Request(TARGET, {}), 403),
        (Request(TARGET, {"duenotice-signature": "é"}), 403),
        (asked(target="/other"), 404),
        (asked(target=PATH), 404),
    ],
)
def test_a_bad_question_learns_nothing(request_: Request, status: int):
    """Another key, another VM's question, a changed one, none at all."""
    answer = answer_peer(request_, [KEY], "web-1", tell)
    assert answer.status == status and b"ready" not in answer.body


NEW = b"the next key of all"


STEPS = [[KEY], [KEY, NEW], [NEW, KEY], [NEW]]
SIDE_BY_SIDE = [(ours, theirs) for at in range(4) for ours in STEPS[at : at + 2] for theirs in STEPS[at : at + 2]]


@pytest.mark.parametrize(("ours", "theirs"), SIDE_BY_SIDE)
def test_agents_understand_each_other_while_the_key_is_changed(ours: list[bytes], theirs: list[bytes]):
    """Each has both keys for a while; of two agents one may always be a step ahead of the other."""
    answers = ask(lambda request: answer_peer(request, theirs, "web-1", tell), keys=ours)
    assert answers.ready == {"web-1"}


def test_a_question_for_another_vm_learns_nothing():
    """An address that leads to the wrong machine is found out."""
    assert answer_peer(asked(vm="web-1"), [KEY], "web-2", tell).status == 403


def ask(
    respond: Callable[[Request], HttpAnswer], vm: str = "web-1", address: str = "", keys: Sequence[bytes] = (KEY,)
) -> PeerAnswers:
    """What a leader learns from a peer that answers so."""

    async def scene() -> PeerAnswers:
        server = await serve(("127.0.0.1", 0), respond)
        port = server.sockets[0].getsockname()[1]
        peers = Peers("", address=address or f"http://127.0.0.1:{port}/{{vm}}".replace("/{vm}", ""))
        peers = Peers("", addresses={vm: f"http://127.0.0.1:{port}"}) if not address else peers
        async with server:
            return await PeerClient(peers, keys).ask(AskPeers("E1", (vm,), (vm,)), "C1")

    return asyncio.run(scene())


def test_a_ready_peer_is_heard():
    """Question and answer over real HTTP."""
    answers = ask(lambda request: answer_peer(request, [KEY], "web-1", tell))
    assert answers == PeerAnswers("C1", frozenset({"web-1"}), frozenset())


NOT_READY = PeerAnswers("C1", frozenset(), frozenset())
GOOD = json.dumps({"vm": "web-1", "ready": True, "in_service": True}).encode()


@pytest.mark.parametrize(
    "respond",
    [
        lambda request: answer_peer(request, [b"another key of 16"], "web-1", tell),
        lambda request: answer_peer(request, [KEY], "web-2", tell),
        lambda request: HttpAnswer(200, GOOD),
        lambda request: HttpAnswer(
            200, GOOD, {"duenotice-signature": sign(KEY, "answer", "web-1", "old nonce", GOOD.decode())}
        ),
        lambda request: HttpAnswer(200, b"\xff" * 100),
        lambda request: HttpAnswer(200, b"x" * 100_000),
        lambda request: HttpAnswer(500),
        lambda request: HttpAnswer(302, b"", {"location": "http://127.0.0.1:1/"}),
    ],
    ids=["other key", "other VM", "unsigned", "replayed", "not text", "huge", "error", "redirect"],
)
def test_an_answer_that_cannot_be_trusted_is_not_readiness(respond: Callable[[Request], HttpAnswer]):
    """The notice runs out rather than being cut short on hearsay (H04)."""
    assert ask(respond) == NOT_READY


def test_who_cannot_be_reached_is_not_ready():
    """Nobody listens there, or the name is no name."""
    assert ask(lambda request: HttpAnswer(200), address="http://127.0.0.1:1/{vm}") == NOT_READY
    assert ask(lambda request: HttpAnswer(200), vm="a/../b@c", address="http://{vm}:1") == PeerAnswers("C1")


@pytest.mark.parametrize("said", [b"HTTP/1.1\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 x\r\n\r\n", b"\r\n\r\n", b""])
def test_a_peer_that_speaks_no_http_spoils_nobody_elses_answer(said: bytes):
    """Its own word is missing, and that is all."""

    async def gibberish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        writer.close()

    async def scene() -> PeerAnswers:
        bad = await asyncio.start_server(gibberish, "127.0.0.1", 0)
        good = await serve(("127.0.0.1", 0), lambda request: answer_peer(request, [KEY], "web-1", tell))
        ports = {"web-2": bad.sockets[0].getsockname()[1], "web-1": good.sockets[0].getsockname()[1]}
        peers = Peers("", addresses={vm: f"http://127.0.0.1:{port}" for vm, port in ports.items()})
        async with bad, good:
            return await PeerClient(peers, [KEY]).ask(AskPeers("E1", ("web-1", "web-2"), ()), "C1")

    assert asyncio.run(scene()) == PeerAnswers("C1", frozenset({"web-1"}))


def test_the_key_never_travels():
    """Neither in a question nor in an answer."""
    seen: list[Request] = []

    def respond(request: Request) -> HttpAnswer:
        seen.append(request)
        return answer_peer(request, [KEY], "web-1", tell)

    ask(respond)
    assert KEY.decode() not in str(seen)
