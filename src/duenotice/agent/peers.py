"""Agents ask each other whether they are ready (H04): HTTP, every question and answer signed with a shared key.

A question names the VM it is for and carries a nonce; the answer is signed together with that nonce, so it cannot
be forged or replayed. The key itself is never sent. A peer that cannot be reached, or answers wrongly, is not ready.
"""

import asyncio
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from duenotice.agent.config import Peers
from duenotice.agent.http_server import Request
from duenotice.agent.log import describe, log
from duenotice.agent.planner import AskPeers, PeerAnswers
from duenotice.errors import DuenoticeError, Malformed, Misconfigured
from duenotice.http.fetch import HttpAnswer, fetch

PATH = "/peer/v1/state"
SECONDS = 3.0
LARGEST_ANSWER = 64 * 1024
AT_ONCE = 20
_NAME = re.compile(r"[A-Za-z0-9._-]{1,80}", re.ASCII)


class PeerState(NamedTuple):
    """What an agent says of its VM."""

    ready: bool
    in_service: bool


Tell = Callable[[str, str], PeerState]
"""Gives our state for an event id and a content."""


def sign(key: bytes, *parts: str) -> str:
    """A signature over parts that are kept apart."""
    return hmac.new(key, json.dumps(parts).encode(), "sha256").hexdigest()


def answer_peer(request: Request, keys: Sequence[bytes], me: str, tell: Tell) -> HttpAnswer:
    """The answer to a peer; only a question that is signed with one of the keys, and is for this VM, is answered.

    There are two keys while one is changed for the other; the answer is signed with the one that the peer has.
    """
    nonce, signed = (request.headers.get(f"duenotice-{name}", "") for name in ("nonce", "signature"))
    key = _key_of(keys, signed, "ask", me, request.target, nonce)
    if key is None:
        return HttpAnswer(403, b'{"error":"The signature does not fit this key and this VM."}')
    target = urlsplit(request.target)
    query = parse_qs(target.query)
    if target.path != PATH or not {"event", "content"} <= query.keys():
        return HttpAnswer(404, b'{"error":"This path or its query is not known."}')
    state = tell(query["event"][0], query["content"][0])
    body = json.dumps({"vm": me, "ready": state.ready, "in_service": state.in_service})
    signature = sign(key, "answer", me, nonce, body)
    return HttpAnswer(200, body.encode(), {"content-type": "application/json", "duenotice-signature": signature})


class PeerClient:
    """Asks peers; `peers` says where they are. The first key signs."""

    def __init__(self, peers: Peers, keys: Sequence[bytes]) -> None:
        self._peers, self._keys = peers, keys

    async def ask(self, step: AskPeers, revision: str) -> PeerAnswers:
        """Ask all peers at the same time, within a limit; one without a good answer is in neither set."""
        limit = asyncio.Semaphore(AT_ONCE)
        names = sorted({*step.ready, *step.in_service})

        async def one(vm: str) -> PeerState:
            async with limit:
                return await self._state(vm, step.event_id, revision)

        states = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
        return PeerAnswers(revision, _those(step.ready, states, 0), _those(step.in_service, states, 1))

    async def _state(self, vm: str, event_id: str, revision: str) -> PeerState:
        try:
            return await self._ask(vm, event_id, revision)
        except DuenoticeError as error:
            log("peer-silent", "warning", vm=vm, event_id=event_id, error=describe(error))
            return PeerState(False, False)

    async def _ask(self, vm: str, event_id: str, revision: str) -> PeerState:
        nonce = secrets.token_hex(16)
        target = f"{PATH}?event={quote(event_id, safe='')}&content={quote(revision, safe='')}"
        signature = sign(self._keys[0], "ask", vm, target, nonce)
        headers = {"duenotice-nonce": nonce, "duenotice-signature": signature}
        answer = await fetch(self._address(vm) + target, headers=headers, timeout=SECONDS, longest=LARGEST_ANSWER)
        if answer.status != 200:
            raise Malformed(f"{vm} answers {answer.status}.", hint="Do both agents have the same key?")
        return self._read(vm, nonce, answer)

    def _read(self, vm: str, nonce: str, answer: HttpAnswer) -> PeerState:
        body = answer.body.decode("latin-1")
        signed = answer.headers.get("duenotice-signature", "")
        if _key_of(self._keys, signed, "answer", vm, nonce, body) is None:
            raise Malformed(f"The answer of {vm} is not signed with our key.", hint="Do both agents have the same key?")
        said = json.loads(body)  # signed: a peer of ours wrote it
        return PeerState(said["ready"] is True, said["in_service"] is True)

    def _address(self, vm: str) -> str:
        if vm in self._peers.addresses:
            return self._peers.addresses[vm].rstrip("/")
        if not self._peers.address or not _NAME.fullmatch(vm):
            raise Misconfigured(f"There is no address for {vm!r}.", hint="Add it to [approval.peers].")
        return self._peers.address.replace("{vm}", vm).rstrip("/")


def _those(asked: Iterable[str], states: dict[str, PeerState], which: int) -> frozenset[str]:
    return frozenset(vm for vm in asked if states[vm][which])


def _key_of(keys: Iterable[bytes], signature: str, *parts: str) -> bytes | None:
    """The key that has signed the parts; compare_digest takes text only if it is ASCII."""
    signed = signature if signature.isascii() else ""
    return next((key for key in keys if hmac.compare_digest(sign(key, *parts), signed)), None)
