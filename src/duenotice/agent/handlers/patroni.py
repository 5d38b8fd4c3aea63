"""`patroni`: when this node is the leader, hands the role over before the event and waits until that is done."""

import json
from typing import Any

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


class Patroni:
    """Nothing to do on a replica."""

    options = Options

    def __init__(self, name: str, options: Options) -> None:
        self.name = name
        self._options = options

    async def prepare(self, occasion: Occasion) -> None:
        me = await self._my_name(occasion)
        if await self._leader(occasion) == me:
            await occasion.note("led", me)
            await self._switch_over(occasion, me, self._options.candidate)
        elif occasion.notes.get("led") != me:
            return
        await until(occasion, "another leader, and this node its healthy replica", lambda: self._follows(occasion, me))

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
        members = {member["name"]: member for member in await self._members(occasion)}
        leaders = [member for member in members.values() if member["role"] in _LEADS and member["state"] in _WELL]
        mine = members.get(me, {"role": "", "state": ""})
        return bool(leaders) and mine["role"] not in _LEADS and mine["state"] in _WELL

    async def _leader(self, occasion: Occasion) -> str:
        leaders = [str(each["name"]) for each in await self._members(occasion) if each["role"] in _LEADS]
        if not leaders:
            raise TryAgain("The Patroni cluster has no leader now.", hint="See `patronictl list`.")
        return leaders[0]

    async def _members(self, occasion: Occasion) -> list[dict[str, Any]]:
        members: list[dict[str, Any]] = (await self._json(occasion, "/cluster"))["members"]
        return members

    async def _my_name(self, occasion: Occasion) -> str:
        return str((await self._json(occasion, "/patroni"))["patroni"]["name"])

    async def _json(self, occasion: Occasion, path: str) -> dict[str, Any]:
        answer = await self._call(occasion, path)
        try:
            shown: dict[str, Any] = json.loads(answer.body)
            return shown
        except ValueError:
            raise HandlerFailed(f"Patroni's {path} is no JSON ({answer.status}).", hint="Is `url` right?") from None

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
