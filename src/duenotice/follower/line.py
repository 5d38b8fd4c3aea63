"""A follower's requests to its node. All of them wait for the network, so they are made in threads."""

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from duenotice.domain.snapshot import Snapshot
from duenotice.errors import Conflict, DuenoticeError, Malformed, Misconfigured, NotFound, Refused, Unavailable, reason
from duenotice.http_call import parse_url
from duenotice.journal.codec import SNAPSHOTS, Row
from duenotice.wire import follow as f
from duenotice.wire.operator import Problem

T = TypeVar("T")

_ERRORS: dict[int, type[DuenoticeError]] = {400: Malformed, 404: NotFound, 409: Conflict, 422: Refused}
_lines = msgspec.json.Decoder(f.Line)


class Node(NamedTuple):
    """Where the node is, and what lets us follow it."""

    url: str
    token: str
    only: str = ""


class NodeStream:
    """What a node tells, line by line, until it is closed."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection, self._response = connection, response

    def __iter__(self) -> Iterator[f.Line]:
        try:
            while line := self._response.readline():
                yield _lines.decode(line)
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            return  # it was cut off, or closed by us in the middle of a line
        finally:
            self._connection.close()

    def expect(self, patience: float) -> None:
        """It is over when nothing comes for this many seconds."""
        with suppress(OSError, AttributeError):
            self._connection.sock.settimeout(patience)

    def close(self) -> None:
        """End it, from any thread."""
        with suppress(OSError, AttributeError):
            self._connection.sock.shutdown(2)


class NodeLine:
    """To one node; `patience` is how many seconds it may be silent."""

    def __init__(self, node: Node, patience: float = 10.0, trust: ssl.SSLContext | None = None) -> None:
        self.patience = patience
        self._node, self._target = node, parse_url(node.url)
        self._trust = (trust or ssl.create_default_context()) if self._target.secure else None
        self._kept = threading.local()

    def snapshot(self) -> tuple[str, Snapshot]:
        """Whose snapshot it is, and the snapshot."""
        body = self._ask("GET", _path("snapshot", only=self._node.only))
        answer = _decoded(body, f.FollowSnapshot)
        return answer.node, SNAPSHOTS.unpack(Row(answer.position, answer.format, answer.crc, bytes(answer.snapshot)))

    def listen(self, node: str, life: str, after: int) -> NodeStream:
        """What happens after a position."""
        path = _path("records", after=after, node=node, life=life, only=self._node.only)
        connection = self._connection()
        try:
            return NodeStream(connection, self._sent(connection, "GET", path))
        except BaseException:
            connection.close()
            raise

    def beat(self, beat: f.FollowerBeat) -> f.Right:
        """The right to answer; on a connection that is kept, one for each thread."""
        connection = getattr(self._kept, "connection", None)
        if connection is None:
            connection = self._kept.connection = self._connection()
        try:
            return _decoded(self._read(connection, "POST", _path("beat"), beat), f.Right)
        except BaseException:
            connection.close()  # the next beat opens it again
            raise

    def command(self, command: f.VmCommand) -> f.Done:
        """Done by the node; never tried twice."""
        return _decoded(self._ask("POST", _path("command"), command), f.Done)

    def _ask(self, method: str, path: str, body: msgspec.Struct | None = None) -> bytes:
        with closing(self._connection()) as connection:
            return self._read(connection, method, path, body)

    def _read(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: msgspec.Struct | None
    ) -> bytes:
        """The whole answer; a node that is killed may send half of it."""
        response = self._sent(connection, method, path, body)
        try:
            whole = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from None
        if not whole:  # `http.client` accepts a head that was cut off
            raise self._lost(ValueError("the answer ends in its head"))
        return whole

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._target.host, self._target.port
        if self._trust is None:
            return http.client.HTTPConnection(host, port, timeout=self.patience)
        return http.client.HTTPSConnection(host, port, timeout=self.patience, context=self._trust)

    def _sent(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: msgspec.Struct | None = None
    ) -> http.client.HTTPResponse:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Authorization": f"Bearer {self._node.token}", "Content-Type": "application/json"}
        try:
            connection.request(method, self._target.path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            if response.status != 200:
                raise self._refused(response.status, response.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from None
        return response

    def _lost(self, error: Exception) -> Unavailable:
        return Unavailable(f"The node {self._node.url} cannot be asked: {reason(error)}.", hint="Is it up?")

    def _refused(self, status: int, body: bytes) -> DuenoticeError:
        try:
            said = msgspec.json.decode(body, type=Problem)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            hint = "Give --follow the address of a node's operator API."
            return Misconfigured(f"{self._node.url} answers with {status} and is not a node to follow.", hint=hint)
        if status in (401, 403):
            hint = "Give --follow-token-file a file with a token of the role follower of this node."
            return Misconfigured(f"The node {self._node.url} does not let us follow it: {said.title}", hint=hint)
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
        raise Misconfigured(f"The node's answer is not as expected: {error}.", hint="Is it as new as this?") from None
