"""A real node with a big fleet, its operator, and a prober that watches another VM's polls during each operation."""

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from tests.promises.prober import Prober
from tests.promises.stalls import fleet
from tests.promises.stalls.moment import TRIES, Moment
from tests.support.node import signed_in

NOTHING: Mapping[str, str] = {}
TAIL = 0.1
"""Seconds that polls are watched longer than an operation takes: the engine may have something to do for it then."""

READ_TAIL = 0.04
"""After something that was only read, two polls: what it has used is given back at once."""


class Node(Protocol):
    """A running `duenotice serve` on a manual clock."""

    metadata: Any
    operator: Any
    token: str

    def stop(self) -> None:
        """End it politely."""

    def kill(self) -> None:
        """End it at once."""


class Stuck(Exception):
    """An operation took longer than anybody waits: its node was killed."""


class Answer(NamedTuple):
    """What the operator got."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class World:
    """The operator's calls. Those that are measured have a name, those that only prepare something have none."""

    def __init__(
        self,
        size: fleet.Size,
        start: Callable[[], Node],
        patience: float = 30.0,
        tries: int = TRIES,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cookies: dict[tuple[str, int], str] = {}
        self.size, self.patience, self.tries = size, patience, tries
        self.moments: list[Moment] = []
        self.routes: set[str] = set()
        self.herd, self.coop = "herd-0", "coop-0"
        self._start, self._say = start, say
        self._node: Node | None = None
        self._prober: Prober | None = None
        self._keys = 0

    # Its life

    def open(self) -> None:
        """A node with the whole fleet, unless there is one."""
        if self._node is None:
            self.close()
            self._node = self._start()
            self._prober = Prober(self._node.metadata)
            self.apply(self.whole())
            made = self.do("POST", "/v1/tokens", {"name": "viewer", "role": "viewer"})
            self.viewer = str(made.json()["token"])
            self.baseline = self._prober.idle(0.5)
            self._say(f"idle: slowest poll {self.baseline.slowest * 1e3:.1f} ms")

    def close(self) -> None:
        """Away with it, politely or not."""
        if self._prober is not None:
            self._prober.kill()
        if self._node is not None:
            self._node.kill()
        self._prober = self._node = None

    def end(self) -> None:
        """SIGTERM, and all that the node does until it is gone."""
        assert self._node is not None
        try:
            self._node.stop()
        except BaseException:
            self._node.kill()
            raise
        finally:
            self._node = None

    # What is measured

    @contextmanager
    def measured(self, what: str, tail: float = TAIL, ends: bool = False) -> Iterator[list[str]]:
        """Watch the polls of another VM during a block; what the block says came of it goes into the list.

        If the block `ends` the service, that its connections are closed in the end is no trouble.
        """
        said: list[str] = []
        done, took = False, 0.0
        assert self._prober is not None
        try:
            with self._prober.watching(tail) as watch:
                watch.grace = self.patience
                try:
                    yield said
                    done = True
                except Stuck as stuck:
                    watch.grace = 1.0
                    said.append(str(stuck))
                    raise
                finally:
                    took = time.monotonic() - watch.begun
        finally:
            polls = replace(watch.polls, trouble="") if ends else watch.polls
            self.note(Moment(what, polls, watch.begun, took, " ".join(said), done))

    def call(
        self,
        what: str,
        method: str,
        route: str,
        body: Any = None,
        *,
        of: Mapping[str, str] = NOTHING,
        query: str = "",
        token: str = "",
        expect: tuple[int, ...] = (200, 201, 204),
        headers: dict[str, str] | None = None,
        tail: float = 0.0,
    ) -> Answer:
        """A call of the API, measured; `of` fills the places in its path.

        One that changes nothing is repeated by itself when a poll was slow.
        """
        self.routes.add(f"{method} {route}")
        path = route.format(**{name: quote(value) for name, value in of.items()}) + (f"?{query}" if query else "")
        is_read = method == "GET" or "dry_run" in query
        repeats = self.tries if is_read else 1
        for _ in range(repeats):
            with self.measured(what, tail or (READ_TAIL if is_read else TAIL)) as said:
                answer = self._ask(method, path, body, headers, token)
                said.append(f"{answer.status}, {len(answer.body):,} bytes")
            assert answer.status in expect, (
                f"{what}: {method} {path} was answered {answer.status} {answer.body[:500]!r}"
            )
            if not self.moments[-1].doubtful:
                break
        return answer

    def page(self, what: str, path: str) -> None:
        """A page of the console, as an admin who is signed in."""
        assert self._node is not None
        if (cookie := self._cookies.get(self._node.operator)) is None:
            cookie = self._cookies[self._node.operator] = signed_in(self._node.operator, self._node.token)
        for _ in range(self.tries):
            with self.measured(what, READ_TAIL) as said:
                answer = self._exchange("GET", path, None, {"Cookie": cookie})
                said.append(f"{answer.status}, {len(answer.body):,} bytes")
            assert answer.status in (200, 503), f"{what}: {path} was answered {answer.status} {answer.body[:500]!r}"
            if not self.moments[-1].doubtful:
                break

    def advance(self, what: str, by: str, tail: float = TAIL) -> None:
        """Let time pass."""
        self.call(what, "POST", "/v1/clock/advance", {"by": by}, tail=tail)

    def put_fleet(self, what: str, text: str, query: str = "") -> None:
        """Apply a fleet file."""
        self.call(what, "PUT", "/v1/fleet", text.encode(), query=query)

    def note(self, moment: Moment) -> None:
        """Something was measured; of something that was measured before, the best counts."""
        self._say(moment.short())
        known = next((each for each in self.moments if each.what == moment.what), None)
        if known is not None:
            self.moments.remove(known)
            best = min(known, moment, key=lambda each: (not each.fine, each.slowest))
            moment = best._replace(tries=known.tries + 1)
        self.moments.append(moment)

    # What only prepares something

    def do(self, method: str, path: str, body: Any = None) -> Answer:
        """A call that must succeed."""
        answer = self._ask(method, path, body)
        assert 200 <= answer.status < 300, f"{method} {path} was answered {answer.status} {answer.body[:500]!r}"
        return answer

    def get(self, path: str) -> Any:
        """What a GET says."""
        return self.do("GET", path).json()

    def whole(self, **changed: str) -> str:
        """The fleet file of the fleet as it should be."""
        return fleet.whole(self.size, **{"herd": self.herd, "coop": self.coop, **changed})

    def apply(self, text: str) -> None:
        """Apply this fleet."""
        self.do("PUT", "/v1/fleet", text.encode())

    def new_key(self) -> dict[str, str]:
        """An Idempotency-Key for one request."""
        self._keys += 1
        return {"Idempotency-Key": f"stalls-{self._keys}"}

    def feed_until(self, marker: bytes, seconds: float) -> int:
        """Read the feed from the beginning until something is in it or time is up; how many bytes that was."""
        return self.read_until("/v1/feed?after=0", self.viewer, marker, seconds)

    def read_until(self, path: str, token: str, marker: bytes, seconds: float) -> int:
        """Read a stream until something is in it or time is up; how many bytes that was."""
        connection, read, last, until = self._connection(), 0, b"", time.monotonic() + seconds
        try:
            connection.request("GET", path, headers=self._as(token))
            answer = connection.getresponse()
            while marker not in last and time.monotonic() < until:
                some = answer.read1(65536)
                assert some, f"{path} ended"
                read, last = read + len(some), last[-100:] + some
            return read
        finally:
            connection.close()

    def _ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, token: str = ""
    ) -> Answer:
        payload = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        return self._exchange(method, path, payload, {**self._as(token), **(headers or {})})

    def _exchange(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise Stuck(f"{method} {path}: {error or type(error).__name__}") from error
        finally:
            connection.close()

    def _as(self, token: str) -> dict[str, str]:
        assert self._node is not None
        return {"Authorization": f"Bearer {token or self._node.token}"}

    def _connection(self) -> http.client.HTTPConnection:
        assert self._node is not None, "the node is gone"
        host, port = self._node.operator
        return http.client.HTTPConnection(host, port, timeout=self.patience)
