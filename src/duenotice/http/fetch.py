"""One HTTP request that can be cancelled: limits of size and time, no redirect, a proxy only where it is named."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from duenotice.errors import Malformed, Unavailable
from duenotice.http.http1 import ProtocolError, Request, Response, encode, read_response

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


class Target(NamedTuple):
    """Where a request goes."""

    secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port, as the header `Host` has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_url(url: str) -> Target:
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
    return Target(parts.scheme == "https", parts.hostname, port, path)


def _can_be_a_host(name: str) -> bool:
    """Whether a resolver can be asked for it: labels are neither empty nor longer than 63 bytes."""
    try:
        return name.isprintable() and " " not in name and bool(name.encode("idna"))
    except UnicodeError:
        return False


async def fetch(
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

    So it does if the body has more than `longest` bytes; with `cut` the body is cut off there instead. With `address`
    the connection goes there and nowhere else, whatever the name in the URL resolves to; a certificate must be of the
    name. `check` is told the address that this one is truly connected to, before anything is sent, and may raise.
    A `proxy` (`http://HOST:PORT`) resolves the name and connects; of https it sees the name and no more.
    """
    target = parse_url(url)
    through = parse_url(proxy) if proxy else None
    path = f"http://{target.authority}{target.path}" if through and not target.secure else target.path
    request = encode(Request(method, path, headers or {}, body), target.authority)
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await _connected(target, address, check, trust, through)
            try:
                writer.write(request)
                found = await _answer(reader, method, longest, cut)
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise Unavailable(f"{target.host}:{target.port} did not answer in time.", hint="Is it up?") from None
    except ProtocolError as error:
        what = f"{target.host}:{target.port} does not answer in HTTP as it should: {error}."
        raise Unavailable(what, hint="Is this the right port?") from None
    except OSError as error:
        said = str(error) or type(error).__name__
        raise Unavailable(f"{target.host}:{target.port} cannot be asked: {said}.", hint="Is it up?") from None
    return HttpAnswer(found.status, found.body, found.headers)


async def _answer(reader: asyncio.StreamReader, method: str, longest: int, cut: bool) -> Response:
    reading = read_response(longest, method, cut)
    next(reading)
    try:
        while True:
            reading.send(await reader.read(65536))
    except StopIteration as whole:
        found: Response = whole.value
        return found


async def _connected(
    target: Target, address: str, check: Check, trust: ssl.SSLContext | None, proxy: Target | None
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
    proxy: Target, target: Target, secure: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the proxy; for https one through it, and TLS with the target inside."""
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    if secure is None:
        return reader, writer
    try:
        writer.write(f"CONNECT {target.authority} HTTP/1.1\r\nHost: {target.authority}\r\n\r\n".encode("ascii"))
        head = await reader.readuntil(b"\r\n\r\n")
        version, _, rest = head.partition(b" ")
        if not version.startswith(b"HTTP/1.") or rest[:3] != b"200":
            said = head.partition(b"\r\n")[0].decode("ascii", "replace")
            raise ProtocolError(f"the proxy {proxy.authority} answers {said!r}")
        await writer.start_tls(secure, server_hostname=target.host)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.transport.abort()
        raise ProtocolError(f"the proxy {proxy.authority} does not answer as one") from None
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
