"""One HTTP request that can be cancelled, with size limits: no redirect, and a proxy only where it is named."""

import asyncio
import http.client
import io
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from duenotice.errors import Malformed, Unavailable

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
LONGEST = 16 * 1024 * 1024
Check = Callable[[str], None] | None


class HttpAnswer(NamedTuple):
    """What came back, whatever its status; names of headers in lower case."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class NothingSent(Unavailable):
    """There was no connection, so nothing was sent."""


class NotTrusted(NothingSent):
    """Somebody answers there, but cannot show that it is the one who was asked."""


class HttpTarget(NamedTuple):
    """Where a request goes."""

    secure: bool
    host: str
    port: int
    path: str


def parse_url(url: str) -> HttpTarget:
    """An http or https address without user and fragment. Errors do not repeat it: chat addresses are secrets."""
    try:
        parts = urlsplit(url)
        usual = {"http": 80, "https": 443}[parts.scheme]
        port = usual if parts.port is None else parts.port
    except (ValueError, KeyError):
        raise Malformed("This is not an http or https address.", hint="Write https://host/path.") from None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    is_plain = "@" not in parts.netloc and path.isascii() and path.isprintable() and " " not in path
    if not parts.hostname or not port or not is_plain or not _can_be_a_host(parts.hostname):
        raise Malformed("This is not a plain http or https address.", hint="Write https://host/path.")
    return HttpTarget(parts.scheme == "https", parts.hostname, port, path)


def _can_be_a_host(name: str) -> bool:
    """Whether a resolver can be asked for it: labels are neither empty nor longer than 63 bytes."""
    try:
        return name.isprintable() and " " not in name and bool(name.encode("idna"))
    except UnicodeError:
        return False


async def call(
    url: str,
    *,
    method: str = "GET",
    body: bytes | bytearray = b"",
    headers: Mapping[str, str] | None = None,
    timeout: float | None = 10.0,
    trust: ssl.SSLContext | None = None,
    longest: int = LONGEST,
    cut: bool = False,
    address: str = "",
    check: Check = None,
    proxy: str = "",
) -> HttpAnswer:
    """Send, and read the whole answer. Any status is an answer; raises `Unavailable` when there is none.

    An answer of more than `longest` bytes counts as none; with `cut` it is cut off there instead. With `address` the
    connection goes there and nowhere else, whatever the name in the URL resolves to; a certificate must be of the name.
    `check` is told the address that this one is truly connected to, before anything is sent, and may raise.
    A `proxy` (`http://HOST:PORT`) resolves the name and connects; of https it sees the name and no more.
    """
    target = parse_url(url)
    through = parse_url(proxy) if proxy else None
    try:
        async with asyncio.timeout(timeout):
            request = _request(target, method, body, headers or {}, through)
            raw = await _exchange(target, address, check, request, trust, longest, through)
        if len(raw) > longest and not cut:
            raise http.client.HTTPException("the answer is too long")
        return _answer(raw, method, cut)
    except TimeoutError:
        raise Unavailable(f"{target.host}:{target.port} did not answer in time.", hint="Is it up?") from None
    except (OSError, http.client.HTTPException) as error:
        said = str(error) or type(error).__name__
        raise Unavailable(f"{target.host}:{target.port} cannot be asked: {said}.", hint="Is it up?") from None


def _request(
    target: HttpTarget, method: str, body: bytes | bytearray, headers: Mapping[str, str], proxy: HttpTarget | None
) -> bytes:
    whole = {"Host": _authority(target), "Connection": "close", "Content-Length": str(len(body)), **headers}
    for name, value in whole.items():
        if not (name + value).isprintable() or not (name + value).isascii():
            raise Malformed(
                f"The header {name!r} has a character that HTTP does not allow.", hint="Remove that character."
            )
    path = f"http://{_authority(target)}{target.path}" if proxy and not target.secure else target.path
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in whole.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _authority(target: HttpTarget) -> str:
    host = f"[{target.host}]" if ":" in target.host else target.host
    return f"{host}:{target.port}"


async def _exchange(
    target: HttpTarget,
    address: str,
    check: Check,
    request: bytes,
    trust: ssl.SSLContext | None,
    longest: int,
    proxy: HttpTarget | None,
) -> bytes:
    reader, writer = await _connected(target, address, check, trust, proxy)
    try:
        writer.write(request)
        raw = bytearray()
        while len(raw) <= longest and (chunk := await reader.read(65536)):
            raw += chunk
            if _is_whole(raw):  # the other side may leave the connection open anyway
                break
        return bytes(raw)
    finally:
        writer.transport.abort()


async def _connected(
    target: HttpTarget, address: str, check: Check, trust: ssl.SSLContext | None, proxy: HttpTarget | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure = (trust or ssl.create_default_context()) if target.secure else None
    try:
        name = target.host if secure else None
        if proxy is not None:
            return await _through(proxy, target, secure)
        if check is not None:
            checked = await _checked(address, target.port, check)
            return await asyncio.open_connection(sock=checked, ssl=secure, server_hostname=name)
        return await asyncio.open_connection(address or target.host, target.port, ssl=secure, server_hostname=name)
    except ssl.SSLCertVerificationError as error:
        what = f"{target.host}:{target.port} shows a certificate that is not trusted: {error.verify_message}."
        raise NotTrusted(what, hint="Is that the right CA, and is this name in the certificate?") from None
    except ssl.SSLError:
        what = f"{target.host}:{target.port} does not speak TLS as it should."
        raise NotTrusted(what, hint="Is this the right port, and is it https?") from None
    except OSError as error:
        said = str(error) or type(error).__name__
        raise NothingSent(f"{target.host}:{target.port} cannot be asked: {said}.", hint="Is it up?") from None


async def _through(
    proxy: HttpTarget, target: HttpTarget, secure: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the proxy; for https one through it, and TLS with the target inside."""
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    if secure is None:
        return reader, writer
    try:
        writer.write(f"CONNECT {_authority(target)} HTTP/1.1\r\nHost: {_authority(target)}\r\n\r\n".encode("ascii"))
        head = await reader.readuntil(b"\r\n\r\n")
        version, _, rest = head.partition(b" ")
        if not version.startswith(b"HTTP/1.") or rest[:3] != b"200":
            said = head.partition(b"\r\n")[0].decode("ascii", "replace")
            raise http.client.HTTPException(f"the proxy {_authority(proxy)} answers {said!r}")
        await writer.start_tls(secure, server_hostname=target.host)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.transport.abort()
        raise http.client.HTTPException(f"the proxy {_authority(proxy)} does not answer as one") from None
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _checked(address: str, port: int, check: Callable[[str], None]) -> socket.socket:
    """A connection that may be used: the address is checked before, and again when it is there."""
    check(address)
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
        check(made.getpeername()[0])
    except BaseException:
        made.close()
        raise
    return made


def _is_whole(raw: bytearray) -> bool:
    """Whether as much has come as the head says; an answer that does not say its length ends with the connection."""
    head = raw.find(b"\r\n\r\n") + 4
    length = _LENGTH.search(raw, 0, head) if head >= 4 else None
    return length is not None and len(raw) >= head + int(length[1])


class _Bytes:
    """Bytes that have arrived, in the form that `http.client` reads."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, *_: object, **__: object) -> io.BytesIO:
        return io.BytesIO(self._raw)


def _answer(raw: bytes, method: str, cut: bool) -> HttpAnswer:
    if b"\r\n\r\n" not in raw:  # `http.client` would accept a head that was cut off
        raise http.client.HTTPException("the answer ends in its head")
    response = http.client.HTTPResponse(cast(socket.socket, _Bytes(raw)), method=method)
    response.begin()
    try:
        body = response.read()
    except http.client.IncompleteRead as error:
        if not cut:
            raise
        body = error.partial
    return HttpAnswer(response.status, body, {name.lower(): value for name, value in response.getheaders()})
