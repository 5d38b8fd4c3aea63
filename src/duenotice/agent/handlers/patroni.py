"""`patroni`: when this node is the leader, hands the role over before the event and waits until that is done."""

import json

import msgspec
from msgspec import Struct

from duenotice.agent.handlers.base import HandlerFailed, Occasion, TryAgain
from duenotice.agent.handlers.http_call import Answer, call, parse_url
from duenotice.agent.handlers.secrets import basic_auth, trusting
from duenotice.agent.handlers.waiting import seconds_left, until
from duenotice.errors import Malformed

_LEADS = ("leader", "master", "primary", "standby_leader")
_WELL = ("running", "streaming", "in archive recovery")


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """Patroni's REST API on this machine; who follows is Patroni's choice unless named."""

    url: str = "http://127.0.0.1:8008"
    candidate: str = ""
    switch_back: bool = False
    username: str = ""
    password_file: str = ""
    ca_file: str = ""

    def __post_init__(self) -> None:
        try:
            parse_url(self.url)
        except Malformed as error:
            raise ValueError(error.message) from None


class Member(Struct, frozen=True):
    """A node as Patroni's `/cluster` shows it."""

    name: str
    role: str
    state: str = ""

    @property
    def leads(self) -> bool:
        return self.role in _LEADS


class View(Struct, frozen=True):
    """Patroni's `/cluster`."""

    members: tuple[Member, ...]


class Patroni:
    """Nothing to do on a replica."""

    options = Options

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self._options = options

    async def prepare(self, occasion: Occasion) -> None:
        # In this order: should the role move in between, Patroni refuses to switch over from who does not lead.
        leader = await self._leader(occasion)
        led = occasion.notes.get("led")
        if (await self._call(occasion, "/leader")).status == 200:
            led = leader
            await occasion.note("led", led)
            await self._switch_over(occasion, led, self._options.candidate)
        if led:
            await until(occasion, f"another leader, and {led} its replica", lambda: self._follows(occasion, led))

    async def recover(self, occasion: Occasion) -> None:
        me = occasion.notes.get("led")
        if not me or not self._options.switch_back:
            return
        leader = await self._leader(occasion)
        if leader != me:
            await self._switch_over(occasion, leader, me)

    async def _switch_over(self, occasion: Occasion, leader: str, candidate: str) -> None:
        asked = {"leader": leader} | ({"candidate": candidate} if candidate else {})
        answer = await self._call(occasion, "/switchover", method="POST", body=json.dumps(asked).encode())
        if answer.status != 200:
            said = answer.body.decode(errors="replace").strip()
            raise TryAgain(f"Patroni did not switch over ({answer.status}): {said}", hint="See `patronictl list`.")

    async def _follows(self, occasion: Occasion, me: str) -> bool:
        """In what the cluster has written down, which may be old, and in this node's own word."""
        well = [member for member in await self._members(occasion) if member.state in _WELL]
        agreed = any(each.leads for each in well) and any(each.name == me and not each.leads for each in well)
        return agreed and (await self._call(occasion, "/replica")).status == 200

    async def _leader(self, occasion: Occasion) -> str:
        for member in await self._members(occasion):
            if member.leads:
                return member.name
        raise TryAgain("The Patroni cluster has no leader now.", hint="See `patronictl list`.")

    async def _members(self, occasion: Occasion) -> tuple[Member, ...]:
        answer = await self._call(occasion, "/cluster")
        try:
            return msgspec.json.decode(answer.body, type=View).members
        except msgspec.MsgspecError:
            raise HandlerFailed(
                f"Patroni's /cluster is not as expected ({answer.status}).", hint="Is `url` right?"
            ) from None

    async def _call(self, occasion: Occasion, path: str, method: str = "GET", body: bytes = b"") -> Answer:
        return await call(
            self._options.url.rstrip("/") + path,
            method=method,
            body=body,
            headers={"Content-Type": "application/json"} | self._credentials(),
            timeout=seconds_left(occasion),
            trust=trusting(self._options.ca_file),
        )

    def _credentials(self) -> dict[str, str]:
        options = self._options
        return basic_auth(options.username, options.password_file) if options.username else {}
