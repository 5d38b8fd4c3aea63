"""A follower's requests to its node. All of them wait for the network, so they are made in threads."""

import math
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from duenotice.clock import monotonic
from duenotice.domain.snapshot import Snapshot
from duenotice.errors import Conflict, DuenoticeError, Malformed, Misconfigured, NotFound, Refused, Unavailable, reason
from duenotice.http.fetch import parse_url
from duenotice.http.http1 import LARGEST_BODY, ProtocolError, Request
from duenotice.http.transport import SocketConnection, connect
from duenotice.store.codec import SNAPSHOTS, Row
from duenotice.wire import replication as f
from duenotice.wire.operator import Problem

T = TypeVar("T")

_ERRORS: dict[int, type[DuenoticeError]] = {400: Malformed, 404: NotFound, 409: Conflict, 422: Refused}
_lines = msgspec.json.Decoder(f.Line)


CONNECT_SECONDS = 2.0
"""A machine that is gone does not even refuse; another node may be there."""
LARGEST = 2**33
"""Bytes of a snapshot, or of a record: a fleet of a million VMs has some hundred millions."""
SNAPSHOT_SECONDS = 600.0
BEATS_IN_LEASE, SHORTEST_BEAT = 4, 0.5
"""A beat may take this part of a lease, so that there is time to ask another node; and at least that many seconds."""


class Node(NamedTuple):
    """Where the node is, and what lets us follow it; `trust` None is the system's, for https."""

    url: str
    token: str
    only: str = ""
    trust: ssl.SSLContext | None = None


class NodeStream:
    """What a node tells, line by line, until it is closed."""

    def __init__(self, connection: SocketConnection) -> None:
        self._connection = connection

    def __iter__(self) -> Iterator[f.Line]:
        rest = bytearray()
        try:
            while piece := self._connection.read(math.inf):
                rest += piece
                if b"\n" in piece:
                    *lines, last = rest.split(b"\n")
                    rest = last
                    for line in lines:
                        yield _lines.decode(line)
        except (OSError, ProtocolError, ValueError):
            return  # it was cut off, or closed by us in the middle of a line
        finally:
            self._connection.close()

    def expect(self, patience: float) -> None:
        """It is over when nothing comes for this many seconds."""
        self._connection.idle_seconds = patience

    def close(self) -> None:
        """End it, from any thread."""
        self._connection.interrupt()


class NodeLine:
    """To one node; `patience` is how many seconds it may be silent."""

    def __init__(self, node: Node, patience: float = 10.0) -> None:
        self.patience = self._beat_patience = patience
        self.url, self._node, self.target = node.url, node, parse_url(node.url)
        self.trust = (node.trust or ssl.create_default_context()) if self.target.secure else None
        self._kept: SocketConnection | None = None
        self._beats = threading.Lock()

    def snapshot(self) -> tuple[str, Snapshot]:
        """Whose snapshot it is, and the snapshot."""
        request = self._request("GET", _path("snapshot", only=self._node.only))
        with closing(self._connected()) as connection:
            body = self._read(connection, request, SNAPSHOT_SECONDS, LARGEST)
        answer = _decoded(body, f.FollowSnapshot)
        return answer.node, SNAPSHOTS.unpack(Row(answer.position, answer.format, answer.crc, bytes(answer.snapshot)))

    def listen(self, node: str, life: str, after: int) -> NodeStream:
        """What happens after a position."""
        path = _path("records", after=after, node=node, life=life, only=self._node.only)
        connection = self._connected()
        try:
            head = connection.open(self._request("GET", path), monotonic() + self.patience, LARGEST)
            if head.status != 200:
                raise self._refused(head.status, b"".join(iter(lambda: connection.read(math.inf), b"")))
        except (OSError, ProtocolError) as error:
            connection.close()
            raise self._lost(error) from None
        except BaseException:
            connection.close()
            raise
        return NodeStream(connection)

    def expect_beats_within(self, lease: float) -> None:
        """How long a beat may take."""
        self._beat_patience = min(self.patience, max(SHORTEST_BEAT, lease / BEATS_IN_LEASE))

    def beat(self, beat: f.FollowerBeat) -> f.Right:
        """The right to answer; on a connection that is kept, unless the node has closed it meanwhile."""
        with self._beats:
            if self._kept is not None:
                with suppress(Unavailable):
                    return self._beat_on(self._kept, beat)
            self._kept = self._connected()
            return self._beat_on(self._kept, beat)

    def _beat_on(self, connection: SocketConnection, beat: f.FollowerBeat) -> f.Right:
        try:
            return _decoded(
                self._read(connection, self._request("POST", _path("beat"), beat), self._beat_patience), f.Right
            )
        except BaseException:
            connection.close()
            self._kept = None
            raise

    def leave(self, life: str) -> None:
        """Nobody is answered any more by what this node has told."""
        self._ask("POST", _path("beat"), f.FollowerBeat(life, leaving=True))

    def hang_up(self) -> None:
        """End a beat that is under way, from any thread."""
        if (kept := self._kept) is not None:
            kept.interrupt()

    def close(self) -> None:
        """Nothing more is asked."""
        self.hang_up()
        with self._beats:
            if self._kept is not None:
                self._kept.close()

    def command(self, command: f.VmCommand) -> f.Done:
        """Done by the node; never tried twice."""
        return _decoded(self._ask("POST", _path("command"), command), f.Done)

    def _ask(self, method: str, path: str, body: msgspec.Struct) -> bytes:
        with closing(self._connected()) as connection:
            return self._read(connection, self._request(method, path, body), self.patience)

    def _read(
        self, connection: SocketConnection, request: Request, seconds: float, largest: int = LARGEST_BODY
    ) -> bytes:
        """The whole answer; a node that is killed may send half of it."""
        try:
            response = connection.exchange(request, monotonic() + seconds, largest)
        except (OSError, ProtocolError) as error:
            raise self._lost(error) from None
        if response.status != 200:
            raise self._refused(response.status, response.body)
        return response.body

    def _connected(self) -> SocketConnection:
        address, until = (self.target.host, self.target.port), monotonic() + CONNECT_SECONDS
        try:
            connected = connect(address, until, tls=self.trust)
        except ssl.SSLCertVerificationError as error:
            raise self._not_trusted(error) from None
        except OSError as error:
            raise self._lost(error) from None
        return SocketConnection(connected, self.target.authority, self.patience)

    def _request(self, method: str, path: str, body: msgspec.Struct | None = None) -> Request:
        headers = {"Authorization": f"Bearer {self._node.token}", "Content-Type": "application/json"}
        data = b"" if body is None else msgspec.json.encode(body)
        return Request(method, self.target.path.rstrip("/") + path, headers, data)

    def _not_trusted(self, error: ssl.SSLCertVerificationError) -> Misconfigured:
        problem = f"The certificate of {self.url} is not trusted: {error.verify_message.rstrip('.')}."
        return Misconfigured(problem, hint="Give --node-ca-file the CA that has signed it, and the name that it has.")

    def _lost(self, error: Exception) -> Unavailable:
        hint = "Does it speak https there?" if isinstance(error, ssl.SSLError) else "Is it up?"
        return Unavailable(f"The node {self.url} cannot be asked: {reason(error)}.", hint=hint)

    def _refused(self, status: int, body: bytes) -> DuenoticeError:
        try:
            said = msgspec.json.decode(body, type=Problem)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            hint = "Give --follow the address of a node's operator API."
            return Misconfigured(f"{self.url} answers with {status} and is not a node to follow.", hint=hint)
        if status in (401, 403):
            hint = said.hint if " only, " in said.title else "Give --follow-token-file a token of the role follower."
            return Misconfigured(f"The node {self.url} does not let us follow it: {said.title}", hint=hint)
        kind: Any = _ERRORS.get(status, Unavailable)
        error: DuenoticeError = kind(said.title, hint=said.hint)
        return error


def _path(name: str, **query: object) -> str:
    given = {key: value for key, value in query.items() if value != ""}
    return f"/v1/follow/{name}" + (f"?{urlencode(given)}" if given else "")


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Misconfigured(
            f"The node's answer is not as expected: {error}.", hint="Is its version the same as ours?"
        ) from None
