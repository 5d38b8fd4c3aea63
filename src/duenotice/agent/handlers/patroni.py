"""`patroni`: if this node is the leader, hands the role to another one before the event, and waits for that."""

import json

import msgspec
from msgspec import Struct

from duenotice.agent.handlers.base import Handler, HandlerContext, HandlerFailed, TryAgain, seconds_left, until
from duenotice.agent.handlers.secrets import basic_auth, trusting
from duenotice.errors import Malformed
from duenotice.http.fetch import HttpAnswer, fetch, parse_url

_LEADS = ("leader", "master", "primary", "standby_leader")
_WELL = ("running", "streaming", "in archive recovery")


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """Patroni's REST API on this machine; Patroni chooses the next leader, unless one is named."""

    url: str = "http://127.0.0.1:8008"
    candidate: str = ""
    """The node that is to lead next."""
    switch_back: bool = False
    """Lead again when the event is over."""
    username: str = ""
    """If the REST API wants a password."""
    password_file: str = ""
    ca_file: str = ""
    """PEM file with the CA of the REST API, if it is not one of the system's."""

    def __post_init__(self) -> None:
        try:
            parse_url(self.url)
        except Malformed as error:
            raise ValueError(error.message) from None


class PatroniMember(Struct, frozen=True):
    """A node as Patroni's `/cluster` shows it."""

    name: str
    role: str
    state: str = ""
    api_url: str = ""
    timeline: int | None = None

    @property
    def leads(self) -> bool:
        return self.role in _LEADS


class PatroniCluster(Struct, frozen=True):
    """Patroni's `/cluster`."""

    members: tuple[PatroniMember, ...]


class PatroniStream(Struct, frozen=True):
    """One replica that streams the log from a leader."""

    application_name: str = ""
    state: str = ""


class PatroniLeader(Struct, frozen=True):
    """What the leader says about itself; Patroni names each stream after its replica."""

    replication: tuple[PatroniStream, ...] = ()


class Patroni(Handler[Options]):
    """Nothing to do on a replica.

    With asynchronous replication Patroni hands over to any replica that is not far behind. If that replica does not
    stream, what it lacks is lost, and the old leader cannot follow it. So there is a check before: a replica streams,
    so a leader that shuts down sends it everything. And there is a check after: both are on one timeline.
    """

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        # In this order: if the role moves in between, Patroni refuses, because the node named does not lead any more.
        leader = await self._leader(context)
        led = context.notes.get("led")
        mine = await self._call(context, self._at("/leader"))
        if mine.status == 200:
            led = leader.name
            _must_stream(mine, self._options.candidate)
            await context.note("led", led)
            await self._switch_over(context, led, self._options.candidate)
        if led:
            await until(context, f"another leader, and {led} its replica", lambda: self._follows(context, led))

    async def recover(self, context: HandlerContext) -> None:
        me = context.notes.get("led")
        if not me or not self._options.switch_back:
            return
        leader = await self._leader(context)
        if leader.name != me:
            _must_stream(await self._call(context, leader.api_url), me)
            await self._switch_over(context, leader.name, me)

    def files(self) -> list[str]:
        return [self._options.password_file, self._options.ca_file]

    async def _switch_over(self, context: HandlerContext, leader: str, candidate: str) -> None:
        asked = {"leader": leader} | ({"candidate": candidate} if candidate else {})
        answer = await self._call(context, self._at("/switchover"), method="POST", body=json.dumps(asked).encode())
        if answer.status != 200:
            said = answer.body.decode(errors="replace").strip()
            raise TryAgain(f"Patroni did not switch over ({answer.status}): {said}", hint="See `patronictl list`.")

    async def _follows(self, context: HandlerContext, me: str) -> bool:
        """Whether the cluster's record, which may be old, and this node itself both say so."""
        well = [member for member in await self._members(context) if member.state in _WELL]
        led = {member.timeline for member in well if member.leads}
        agreed = any(member.name == me and not member.leads and member.timeline in led for member in well)
        return agreed and (await self._call(context, self._at("/replica"))).status == 200

    async def _leader(self, context: HandlerContext) -> PatroniMember:
        for member in await self._members(context):
            if member.leads:
                return member
        raise TryAgain("The Patroni cluster has no leader now.", hint="See `patronictl list`.")

    async def _members(self, context: HandlerContext) -> tuple[PatroniMember, ...]:
        answer = await self._call(context, self._at("/cluster"))
        try:
            return msgspec.json.decode(answer.body, type=PatroniCluster).members
        except msgspec.MsgspecError:
            raise HandlerFailed(
                f"Patroni's /cluster is not as expected ({answer.status}).", hint="Is `url` right?"
            ) from None

    def _at(self, path: str) -> str:
        return self._options.url.rstrip("/") + path

    async def _call(self, context: HandlerContext, url: str, method: str = "GET", body: bytes = b"") -> HttpAnswer:
        return await fetch(
            url,
            method=method,
            body=body,
            headers={"Content-Type": "application/json"} | (self._credentials() if method == "POST" else {}),
            timeout=seconds_left(context),
            trust=trusting(self._options.ca_file),
        )

    def _credentials(self) -> dict[str, str]:
        options = self._options
        return basic_auth(options.username, options.password_file) if options.username else {}


def _must_stream(leader: HttpAnswer, candidate: str) -> None:
    """Check that the candidate streams, or any replica if none is named: Patroni takes the one with most of the log."""
    try:
        streams = msgspec.json.decode(leader.body, type=PatroniLeader).replication
    except msgspec.MsgspecError:
        streams = ()
    names = {stream.application_name for stream in streams if stream.state == "streaming"}
    if not names or (candidate and candidate not in names):
        who = f"{candidate} is not a replica that streams" if candidate else "No replica streams"
        raise TryAgain(f"{who} from the leader.", hint="See pg_stat_replication there.")
