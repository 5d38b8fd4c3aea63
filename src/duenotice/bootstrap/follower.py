"""One running follower: no journal, no engine; the same publisher and the same door for VMs (`--follow`)."""

import asyncio
import os
import socket
from contextlib import ExitStack
from pathlib import Path

import structlog

from duenotice import settings as s
from duenotice.bootstrap.ports import DRAIN_SECONDS, bound, cannot_listen, metadata_options, operator_listen, trust_of
from duenotice.clock import SystemClock
from duenotice.domain.state import State
from duenotice.engine.publisher import Publisher
from duenotice.errors import DuenoticeError, Misconfigured, Unavailable, reason
from duenotice.follower.commands import PassedCommands
from duenotice.follower.following import Following
from duenotice.follower.line import Node, NodeLine
from duenotice.follower.passing import Passing
from duenotice.http.fetch import parse_url
from duenotice.metadata_api.guard import Guard
from duenotice.metadata_api.lease_timer import lease_timer
from duenotice.metadata_api.server import MetadataServer

_NODES_ONLY = (
    "azure_listen",
    "fleet",
    "data_dir",
    "journal",
    "impact_command",
    "impact_url",
    "fault",
    "operator_cert_file",
    "operator_key_file",
)
"""Settings of what a follower does not have."""

log = structlog.get_logger()


class FollowerService:
    """A follower; `start` and `stop` are all that a caller needs."""

    is_busy = False
    operator_scheme = "http"

    def __init__(self, settings: s.ServeSettings) -> None:
        self.settings = settings
        self.metadata_address = self.operator_address = ("", 0)
        self._nodes = _nodes(settings)
        self._metadata_listen = s.parse_listen("metadata_listen", settings.metadata_listen)
        self._operator_listen = operator_listen(settings)

    @property
    def failed(self) -> "asyncio.Future[DuenoticeError]":
        """Why the process has to end, if it has."""
        return self.following.failed

    @property
    def state(self) -> State:
        """What VMs see."""
        return self.publisher.state

    async def start(self) -> None:
        """Take the ports, open the doors, begin to follow. What only a person can put right is an error."""
        with ExitStack() as ports:
            metadata = ports.enter_context(bound(self._metadata_listen, dual=True, shared=self.settings.share_port))
            operator = None
            if self._operator_listen is not None:
                operator = ports.enter_context(bound(self._operator_listen))
            await self._set_up(metadata, operator)
            ports.pop_all()

    async def _set_up(self, metadata: socket.socket, operator: socket.socket | None) -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        self.publisher = Publisher(loop.call_soon)
        self.publisher.open(State(), clock.now().steady)
        lines = [NodeLine(node) for node in self._nodes]
        child = str(os.getpid()) if self.settings.share_port else ""  # its parent knows it by that (N18)
        self.following = Following(lines, self.publisher, clock, bool(self.settings.only), child)
        self._commands = PassedCommands(self.following)
        self._passing = Passing(self.following.lines, self.following.wellbeing)
        following = self.following
        guard = Guard(following.may_answer, following.curtain, lease_timer=lease_timer(), lease=lambda: following.lease)
        options, submit = metadata_options(self.settings), self._commands.submit
        self._metadata = MetadataServer(submit, self.publisher, clock, options, prepare=guard.stand_before)
        self.following.on_right = guard.right_changed
        self.following.start()
        try:
            await self._first_try()
            await self._open_doors(metadata, operator)
        except BaseException:
            await self.following.stop()
            raise

    async def _first_try(self) -> None:
        """A node that is not there yet may come; a wrong token stays wrong."""
        try:
            await self.following.troubles.first
        except Unavailable:
            log.warning("VMs are answered with 503 until the node is there", action="follow-waits")

    async def _open_doors(self, metadata: socket.socket, operator: socket.socket | None) -> None:
        try:
            self.metadata_address = await self._metadata.start_on(metadata)
        except OSError as error:
            raise cannot_listen(self._metadata_listen, error) from None
        if operator is not None:
            await self._passing.start(operator)
            self.operator_address = operator.getsockname()[:2]

    async def stop(self) -> None:
        """Close the doors, then tell the node that nobody is answered here any more."""
        await self._metadata.drain(DRAIN_SECONDS)
        await self._passing.stop()
        self._commands.stop()
        await self.following.stop()

    async def reread(self) -> None:
        """There is no fleet file here."""


def _nodes(settings: s.ServeSettings) -> list[Node]:
    for name in _NODES_ONLY:
        if getattr(settings, name):
            raise Misconfigured(f"{name} is set, but a follower has none.", hint=f"Leave {name} or follow out.")
    if settings.workers != 1:
        hint = "Leave workers out; start one follower for each core, with --share-port."
        raise Misconfigured(f"workers = {settings.workers}, but a follower is one process.", hint=hint)
    urls = [_url(text.strip()) for text in settings.follow.split(",")]
    token = _token(settings.follow_token_file)
    trust = trust_of(settings) if any(parse_url(url).secure for url in urls) else None
    return [Node(url, token, settings.only, trust) for url in dict.fromkeys(urls)]


def _url(text: str) -> str:
    try:
        parse_url(text)
    except DuenoticeError:
        hint = "Write it like http://host:16926; several with commas between them."
        raise Misconfigured(f"follow = {text!r} is not the URL of a node.", hint=hint) from None
    return text


def _token(file: str) -> str:
    made = "'duenotice token create NAME --role follower'"
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    hint = (
        f"Put what {made} prints into the file that LoadCredential of the unit names (/etc/duenotice/follower.token)."
        if given and file.startswith(given)
        else f"Give a file with a token that {made} has made."
    )
    if not file:
        raise Misconfigured("follow_token_file is not set.", hint=hint)
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"Cannot read {file}: {reason(error)}.", hint=hint) from None
    if not token or not token.isascii() or not token.isprintable():
        raise Misconfigured(f"{file} holds no token.", hint=hint)
    return token
