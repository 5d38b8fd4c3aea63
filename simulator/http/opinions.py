"""What readers take the same bytes for: ours, h11 and httptools."""

from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import h11
import httptools

from duenotice.errors import Malformed
from duenotice.metadata_api.http1 import Received, RequestHead, RequestReader

LARGEST_HEAD = 64 * 1024
"""More than we take, so that size is never a reason to differ."""

Fields = dict[str, list[bytes]]


class Meaning(NamedTuple):
    """What a request says, and the number of bytes until the next one."""

    method: str
    path: str
    query: str
    minor: int
    fields: Fields
    body: bytes
    stays_open: bool
    length: int


class Ours(NamedTuple):
    """A request that we accept, as we read it, and its place in the stream."""

    begin: int
    head: RequestHead
    meaning: Meaning


def ours(packets: Iterable[bytes]) -> list[Ours]:
    """The requests that our reader takes out of these packets, up to the first that it refuses."""
    reader, fed, begin, found = RequestReader(), 0, 0, list[Ours]()
    try:
        for packet in packets:
            reader.feed(packet)
            fed += len(packet)
            while (received := reader.next()) is not None:
                end = fed - len(reader)
                found.append(Ours(begin, received.head, _our_meaning(received, end - begin)))
                begin = end
    except Malformed:
        pass
    return found


def _our_meaning(received: Received, length: int) -> Meaning:
    head = received.head
    fields = {name: [_value(name, value.encode("latin-1")) for value in values] for name, values in head.fields.items()}
    return Meaning(head.method, head.path, head.query, head.minor, fields, received.body, head.keep_alive, length)


def of_h11(data: bytes) -> Meaning | str:
    """The first request in these bytes as h11 reads it; or why it does not."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)
    connection.receive_data(data)
    body = bytearray()
    try:
        request = connection.next_event()
        if not isinstance(request, h11.Request):
            return f"no whole request: {request}"
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                return f"no whole body: {event}"
            body += event.data
    except h11.RemoteProtocolError as error:
        return str(error)
    try:
        target = _origin(request.target.decode("latin-1"))
    except ValueError as error:
        return f"bad target: {error}"
    if connection.their_state not in (h11.DONE, h11.MUST_CLOSE):  # it might switch protocols; we never do
        connection.send(h11.Response(status_code=400, headers=[]))
    stays_open = connection.their_state is h11.DONE
    length = len(data) - len(connection.trailing_data[0])
    fields = _fields(request.headers)
    minor = int(request.http_version[-1:])
    return Meaning(request.method.decode(), *target, minor, fields, bytes(body), stays_open, length)


def of_httptools(data: bytes, length: int) -> Meaning | str:
    """The request that ends after so many bytes as httptools reads it; or why it does not end there."""
    heard = _Heard()
    parser = httptools.HttpRequestParser(heard)
    try:
        parser.feed_data(data[: length - 1])
        if heard.complete:
            return "it ends earlier"
        stays_open = parser.should_keep_alive()
        parser.feed_data(data[length - 1 : length])
    except httptools.HttpParserUpgrade:
        stays_open = True
    except httptools.HttpParserError as error:
        return f"{type(error).__name__}: {error}"
    if not heard.complete:
        return "it ends later"
    try:
        target = _origin(heard.url.decode("latin-1"))
    except ValueError as error:
        return f"bad target: {error}"
    minor = int(parser.get_http_version()[-1])
    fields = _fields(heard.fields)
    return Meaning(parser.get_method().decode(), *target, minor, fields, bytes(heard.body), stays_open, length)


class _Heard:
    """What httptools calls back with."""

    def __init__(self) -> None:
        self.url, self.body = b"", bytearray()
        self.fields: list[tuple[bytes, bytes]] = []
        self.complete = self._in_body = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:  # later ones are trailers
            self.fields.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete = True


def _origin(target: str) -> tuple[str, str]:
    """Path and query as the standard library reads them; `ValueError` when it does not."""
    if target.startswith("/"):
        path, _, query = target.partition("?")
        return path, query
    parts = urlsplit(target)
    return parts.path or "/", parts.query


def _value(field: str, value: bytes) -> bytes:
    """Without blanks around it, which httptools keeps; the name of a coding in lower case, as h11 gives it."""
    return value.strip(b" \t").lower() if field == "transfer-encoding" else value.strip(b" \t")


def _fields(lines: Iterable[Any]) -> Fields:
    fields: Fields = {}
    for name, value in lines:
        field = name.decode("latin-1").lower()
        fields.setdefault(field, []).append(_value(field, bytes(value)))
    return fields
