"""What a client sent and the answers it got, put together from the bytes of its connections."""

from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from urllib.parse import parse_qsl

from duenotice.clock import Instant, monotonic
from duenotice.errors import Malformed
from duenotice.metadata_api.http1 import RequestHead, RequestReader

KEPT = 10_000
"""Exchanges that are kept; a client that polls once a second fills this in hours."""

STILL_READS_SECONDS = 0.1
"""How long after its last byte a client is taken to read: a client that gave up never sees a late answer."""


class Exchange(NamedTuple):
    """One request with its answer; `at` on the service's clock, `monotonic` in real seconds.

    `status` is 0 while there is no answer. A request that could not be understood has no method.
    """

    number: int
    at: datetime
    monotonic: float
    vm: str
    address: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    status: int = 0
    answer: bytes = b""
    answered: float | None = None

    @property
    def api_version(self) -> str:
        """The version asked for; empty when there was none."""
        return self.query.get("api-version", "")

    @property
    def is_poll(self) -> bool:
        """Whether it asked for the document."""
        return self.method == "GET" and self.path.lower().rstrip("/").endswith("/scheduledevents")

    @property
    def is_approval(self) -> bool:
        """Whether it wanted to approve."""
        return self.method == "POST" and self.path.lower().rstrip("/").endswith("/scheduledevents")


class RequestLog:
    """The tap of a service: a list of exchanges in the order the requests came."""

    def __init__(self, now: Callable[[], Instant], vm_at: Callable[[str], str]) -> None:
        self.exchanges: list[Exchange] = []
        self._now, self._vm_at = now, vm_at
        self.on_approval: Callable[[Exchange], object] = lambda _: None
        self.on_answer: Callable[[Exchange], object] = lambda _: None
        self._count = 0

    def opened(self, address: str) -> "_Line":
        """A client has connected."""
        return _Line(self, address)

    def begun(self, address: str, head: RequestHead | None, body: bytes) -> int:
        """A request has come; its number."""
        self._count += 1
        fields = {} if head is None else {name: ", ".join(values) for name, values in head.fields.items()}
        exchange = Exchange(
            self._count,
            self._now().at,
            monotonic(),
            self._vm_at(address),
            address,
            "" if head is None else head.method,
            "" if head is None else head.path,
            {} if head is None else dict(parse_qsl(head.query, keep_blank_values=True)),
            fields,
            body,
        )
        self.exchanges.append(exchange)
        if exchange.is_approval:
            self.on_approval(exchange)
        del self.exchanges[:-KEPT]
        return self._count

    def ended(self, number: int, status: int, answer: bytes) -> None:
        """The answer to a request was sent."""
        index = len(self.exchanges) - 1 - (self._count - number)
        if index >= 0:
            exchange = self.exchanges[index]
            exchange = exchange._replace(status=status, answer=answer, answered=monotonic())
            self.exchanges[index] = exchange
            self.on_answer(exchange)


class _Asked(NamedTuple):
    """A request that waits for its answer."""

    number: int
    to_head: bool = False


class _Line:
    """One connection: requests and answers follow each other in order, so they are paired by that."""

    def __init__(self, request_log: RequestLog, address: str) -> None:
        self._request_log, self._address = request_log, address
        self._reader: RequestReader | None = RequestReader()
        self._waiting: list[_Asked] = []
        self._sent = bytearray()
        self._hung_up: float | None = None

    def received(self, data: bytes) -> None:
        """Take whole requests out of what has come so far."""
        if self._reader is None:
            return
        self._reader.feed(data)
        try:
            while (request := self._reader.next()) is not None:
                number = self._request_log.begun(self._address, request.head, request.body)
                self._waiting.append(_Asked(number, request.head.method == "HEAD"))
        except Malformed:
            self._reader = None
            self._waiting.append(_Asked(self._request_log.begun(self._address, None, data)))

    def sent(self, data: bytes) -> None:
        """Take whole answers out of what was sent so far; 100 Continue answers nothing."""
        self._sent += data
        while self._waiting and (found := _first_answer(bytes(self._sent), self._waiting[0].to_head)) is not None:
            status, answer, length = found
            del self._sent[:length]
            if status >= 200:
                number = self._waiting.pop(0).number
                if not self._has_hung_up():
                    self._request_log.ended(number, status, answer)

    def ended(self) -> None:
        """The client sends no more: it may still read, but not for long."""
        self._hung_up = monotonic()

    def _has_hung_up(self) -> bool:
        return self._hung_up is not None and monotonic() - self._hung_up > STILL_READS_SECONDS

    def closed(self) -> None:
        """What was sent of an answer is all there will be."""


def _first_answer(sent: bytes, to_head: bool) -> tuple[int, bytes, int] | None:
    """Status, body and length of the first answer, once all of it was sent; one to HEAD has a length and no body."""
    head, found, rest = sent.partition(b"\r\n\r\n")
    if not found:
        return None
    lines = head.split(b"\r\n")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
    length = 0 if to_head else int(fields.get(b"content-length", b"0"))
    if len(rest) < length:
        return None
    return int(lines[0].split(b" ")[1]), rest[:length], len(head) + len(found) + length
