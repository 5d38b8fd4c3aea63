"""A metadata service for agents alone: it tells what it is told, answers badly when asked to, and starts events."""

import json
import re
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from duenotice.wire.spans import format_rfc1123
from simulator.agents_line import Connection
from simulator.loop import Handle, VirtualLoop
from simulator.machine import BEGIN

WAIT = 10.0
DELAY = 0.002
"""Seconds until an answer is there."""
START_DELAY = 0.5

_TAG = re.compile(rb'If-None-Match: ("[^"]*")')


@dataclass(frozen=True)
class ToldEvent:
    """An event as a document shows it."""

    id: str
    type: str
    resources: tuple[str, ...]
    status: str
    not_before: datetime
    lasts: float = 5.0

    @property
    def content(self) -> tuple[str, tuple[str, ...]]:
        return self.type, tuple(sorted(self.resources))


@dataclass(frozen=True)
class ToldDocument:
    """A whole document that a VM has read."""

    incarnation: int
    events: dict[str, ToldEvent]


class Watcher:
    """Hears what the service is asked, and what VMs have read; see the checkers."""

    def asked(self, method: str, target: str) -> None: ...
    def read(self, document: ToldDocument) -> None: ...
    def approving(self, event_id: str) -> None: ...


class ScriptedService:
    """One scope with all its VMs, and a door for one VM."""

    def __init__(self, loop: VirtualLoop, vm: str, watcher: Watcher) -> None:
        self.loop, self.vm, self.watcher = loop, vm, watcher
        self.events: dict[str, ToldEvent] = {}
        self.incarnation = 1
        self.past: list[ToldDocument] = [ToldDocument(1, {})]
        self.holds = True
        self.fault = ""
        self.on_start: Callable[[ToldEvent], None] = lambda event: None
        self.counts: dict[str, int] = {}
        self._held: list[tuple[Connection, Handle]] = []
        self._page: tuple[int, bytes] = (0, b"")
        self._outside = copy_context()

    # What happens to events

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.loop.time())

    def later(self, seconds: float, work: Callable[..., None], *args: object) -> Handle:
        """Not the agent's own work, whoever asked for it: it happens even if the agent is killed."""
        return self.loop.call_later(seconds, work, *args, context=self._outside.copy())

    def put(self, event: ToldEvent) -> None:
        self.events = {**self.events, event.id: event}
        self._changed()

    def drop(self, event_id: str) -> None:
        if event_id in self.events:
            self.events = {key: event for key, event in self.events.items() if key != event_id}
            self._changed()

    def schedule(self, event: ToldEvent) -> None:
        self.put(event)
        self.later((event.not_before - self.now()).total_seconds(), self._due, event.id)

    def _due(self, event_id: str) -> None:
        event = self.events.get(event_id)
        if event is None or event.status != "Scheduled":
            return
        if (left := (event.not_before - self.now()).total_seconds()) > 0.001:
            self.later(left, self._due, event_id)
        else:
            self.start(event_id)

    def start(self, event_id: str) -> None:
        event = self.events.get(event_id)
        if event is not None and event.status == "Scheduled":
            self.put(replace(event, status="Started"))
            self.on_start(event)
            self.later(event.lasts, self.drop, event_id)

    def _changed(self) -> None:
        self.incarnation += 1
        self.past = [*self.past[-5:], self.document()]
        held, self._held = self._held, []
        for connection, timer in held:
            timer.cancel()
            self._answer_document(connection)

    def document(self) -> ToldDocument:
        return ToldDocument(self.incarnation, self.events)

    # The VM's door

    def connect(self) -> Connection | None:
        self.watcher.asked("CONNECT", "")
        if self.fault == "silent-network":
            return None
        if self.fault == "refused":
            self._count()
            raise ConnectionRefusedError(111, "Connection refused")
        return Connection(self.loop, self.watcher.read)

    def ask(self, connection: Connection, request: bytes) -> None:
        method, target = request.split(b" ", 2)[:2]
        self.watcher.asked(method.decode(), target.decode())
        if method == b"POST":
            self._approve(connection, request)
        elif self.fault and not (self.fault in _DOCUMENTS and target.startswith(b"/metadata/instance")):
            self._count()
            FAULTY[self.fault](self, connection)
        elif target.startswith(b"/metadata/instance"):
            body = json.dumps({"compute": {"name": self.vm}}).encode()
            self._push(connection, _answer(200, body))
        else:
            self._poll(connection, request, b"&wait=" in target)

    def _count(self) -> None:
        self.counts[self.fault] = self.counts.get(self.fault, 0) + 1

    def _push(self, connection: Connection, data: bytes, told: object = None, delay: float = DELAY) -> None:
        self.later(delay, connection.push, data, told)

    def _poll(self, connection: Connection, request: bytes, waits: bool) -> None:
        tag = _TAG.search(request)
        if self.holds and tag is not None and tag[1] == self._tag():
            if not waits:
                self._push(connection, _answer(304, b"", b"ETag: " + self._tag()))
                return
            timer = self.later(WAIT, self._nothing_new, connection)
            self._held.append((connection, timer))
        else:
            self._answer_document(connection)

    def _nothing_new(self, connection: Connection) -> None:
        self._held = [each for each in self._held if each[0] is not connection]
        connection.push(_answer(304, b"", b"ETag: " + self._tag()))

    def _answer_document(self, connection: Connection) -> None:
        if self._page[0] != self.incarnation:
            self._page = self.incarnation, _answer(200, body_of(self.document()), b"ETag: " + self._tag())
        self._push(connection, self._page[1], self.document())

    def _tag(self) -> bytes:
        return b'"%d"' % self.incarnation

    def _approve(self, connection: Connection, request: bytes) -> None:
        ids = [each["EventId"] for each in json.loads(request.partition(b"\r\n\r\n")[2])["StartRequests"]]
        for event_id in ids:
            self.watcher.approving(event_id)
        fault = "" if self.fault in _DOCUMENTS else self.fault  # a document is no answer to an approval
        known = all(event_id in self.events for event_id in ids)
        if known and (not fault or fault in _EFFECT_WITHOUT_ANSWER):
            for event_id in ids:
                self.later(START_DELAY, self.start, event_id)
        if fault:
            self._count()
            FAULTY[fault](self, connection)
        else:
            self._push(connection, _answer(200 if known else 404, b"{}"))


def body_of(document: ToldDocument) -> bytes:
    """The JSON of a document."""
    events = [
        {
            "EventId": event.id,
            "EventStatus": event.status,
            "EventType": event.type,
            "ResourceType": "VirtualMachine",
            "Resources": list(event.resources),
            "NotBefore": format_rfc1123(event.not_before) if event.status == "Scheduled" else "",
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
        }
        for event in document.events.values()
    ]
    return json.dumps({"DocumentIncarnation": document.incarnation, "Events": events}).encode()


def _answer(status: int, body: bytes, *more: bytes, media: bytes = b"application/json", length: int = -1) -> bytes:
    lines = [b"HTTP/1.1 %d X" % status, b"Content-Type: " + media, *more]
    if status != 304:
        lines.append(b"Content-Length: %d" % (len(body) if length < 0 else length))
    return b"\r\n".join([*lines, b"", b""]) + body


# Answers that are not documents (S14), and one that is an old one

_NOTHING = body_of(ToldDocument(9_999, {}))
_DOCUMENTS = ("slow", "old-document")
_EFFECT_WITHOUT_ANSWER = ("silent", "cut", "half", "half-chunked")
Faulty = Callable[[ScriptedService, Connection], None]


def _fixed(data: bytes, ends: bool = True) -> Faulty:
    def answer(service: ScriptedService, connection: Connection) -> None:
        service._push(connection, data)
        if ends:
            service._push(connection, b"")

    return answer


def _silent(service: ScriptedService, connection: Connection) -> None:
    """No answer at all."""


def _cut(service: ScriptedService, connection: Connection) -> None:
    service.later(DELAY, connection.push, ConnectionResetError(104, "Connection reset by peer"))


def _dripping(service: ScriptedService, connection: Connection) -> None:
    data = _answer(200, _NOTHING)
    for at in range(60):
        service._push(connection, data[at : at + 1], delay=DELAY + at * 0.9)


def _old(service: ScriptedService, connection: Connection) -> None:
    document = service.past[0]
    service._push(connection, _answer(200, body_of(document)), document)


def _slow(service: ScriptedService, connection: Connection) -> None:
    """Whole, but late."""
    document = service.document()
    service._push(connection, _answer(200, body_of(document)), document, delay=2.5)


FAULTY: dict[str, Faulty] = {
    "throttled": _fixed(_answer(429, b'{"error":"Too many"}', b"Retry-After: 2")),
    "unavailable": _fixed(_answer(503, b'{"error":"Later"}')),
    "broken": _fixed(_answer(500, _NOTHING)),
    "gone": _fixed(_answer(410, _NOTHING)),
    "not-found": _fixed(_answer(404, b"{}")),
    "older-version": _fixed(_answer(400, b'{"error":"no","newest-versions":["2017-03-01"]}')),
    "redirected": _fixed(_answer(302, _NOTHING, b"Location: http://127.0.0.1/")),
    "not-json": _fixed(_answer(200, b"<html>Welcome</html>", media=b"text/html")),
    "html-as-json": _fixed(_answer(200, b"<html>Welcome</html>")),
    "json-as-html": _fixed(_answer(200, _NOTHING, media=b"text/html")),
    "empty": _fixed(_answer(200, b"")),
    "empty-object": _fixed(_answer(200, b"{}")),
    "empty-list": _fixed(_answer(200, b"[]")),
    "no-incarnation": _fixed(_answer(200, b'{"Events":[]}')),
    "events-null": _fixed(_answer(200, b'{"DocumentIncarnation":99,"Events":null}')),
    "unasked-304": _fixed(_answer(304, b"")),
    "no-content": _fixed(_answer(204, b"", b"ETag: x")),
    "half": _fixed(_answer(200, _NOTHING, length=len(_NOTHING) + 7)),
    "half-json": _fixed(_answer(200, _NOTHING[:-3])),
    "half-chunked": _fixed(
        b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(_NOTHING), _NOTHING)
    ),
    "garbage": _fixed(b"\x16\x03\x01\x00\xa5" * 7),
    "silent": _silent,
    "cut": _cut,
    "dripping": _dripping,
    "slow": _slow,
    "old-document": _old,
    "refused": _silent,
    "silent-network": _silent,
}
