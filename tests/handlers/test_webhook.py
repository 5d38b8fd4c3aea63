"""`webhook` against real HTTP and HTTPS servers."""

import asyncio
import contextlib
import http.server
import json
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from duenotice.agent.handlers import webhook
from duenotice.agent.handlers.base import HandlerFailed
from duenotice.agent.handlers.loading import load
from duenotice.backoff import Backoff
from duenotice.errors import Misconfigured, Unavailable
from tests.handlers.contexts import EVENT, NOTES, SECONDS, cancelled_when, context, prepare, prepare_killed, recover
from tests.programs import require_program
from tests.support.certificates import certificates
from tests.support.receiver import Receiver


class Hook(http.server.ThreadingHTTPServer):
    """Answers with the next status of a list and remembers what it was told; 0 hangs, and the last status stays."""

    daemon_threads = True

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.statuses = list(statuses)
        self.told: list[tuple[str, str, dict[str, str], bytes]] = []
        self.over = threading.Event()
        self.answers = 0
        """Bytes of each answer."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class Answering(http.server.BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.told.append((self.command, self.path, dict(self.headers), body))
        statuses = self.server.statuses
        status = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        if status == 0:
            self.server.over.wait(SECONDS)
            return
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("Location", self.server.url)
        long = b"x" * self.server.answers
        self.send_header("Content-Length", str(len(long)))
        self.end_headers()
        with contextlib.suppress(OSError):  # who needs no more of it hangs up
            self.wfile.write(long)

    do_PUT = do_POST  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def answering(*statuses: int, trust: ssl.SSLContext | None = None) -> Iterator[Hook]:
    with Hook(*statuses) as hook:
        if trust:
            hook.socket = trust.wrap_socket(hook.socket, server_side=True)
        threading.Thread(target=hook.serve_forever, args=(0.05,), daemon=True).start()
        yield hook
        hook.over.set()
        hook.shutdown()


def test_a_chat_is_told_without_any_configuration():
    """The default body is what chats read: one sentence before, one after, each once."""
    notes = NOTES()
    with answering(200) as hook:
        prepare("webhook", notes, url=hook.url)
        recover("webhook", notes, url=hook.url)
        recover("webhook", notes, url=hook.url)
    assert [json.loads(body)["text"] for *_, body in hook.told] == [
        "web-0: Reboot of web-0, web-1, not before Sun, 15 Nov 2026 12:00:00 GMT. Virtual machine is going to be "
        "restarted as requested by authorized user. Preparing.",
        "web-0: Reboot of web-0, web-1 is over. Back in service.",
    ]


def test_nothing_in_an_event_breaks_out_of_the_json():
    """Quotes, backslashes, newlines and our own placeholders in a name stay text."""
    odd = 'a"},{"x": "\\ \n $type ${vm} \u2028'
    with answering(200) as hook:
        handler = load("it", "webhook", {"url": hook.url, "prepare": '{"who": "$resources", "n": $duration}'})
        asyncio.run(handler.prepare(context({}, event=replace(EVENT, resources=(odd,)))))
    assert json.loads(hook.told[0][3]) == {"who": odd, "n": 600}


def test_plain_text_with_headers_of_its_own(tmp_path):
    """Another method, another type, and a secret from a file that is read at each use."""
    (tmp_path / "token").write_text("Bearer s3cret\n")
    keys = {
        "method": "PUT",
        "content_type": "text/plain",
        "prepare": '$vm "$type"',
        "headers": {"X-Team": "db"},
        "secret_headers": {"Authorization": str(tmp_path / "token")},
    }
    with answering(200) as hook:
        prepare("webhook", {}, url=hook.url, **keys)
    method, path, headers, body = hook.told[0]
    assert (method, path, body) == ("PUT", "/hook", b'web-0 "Reboot"')
    assert (headers["X-Team"], headers["Authorization"], headers["Content-Type"]) == (
        "db",
        "Bearer s3cret",
        "text/plain",
    )


def test_it_tries_again_after_a_500():
    """A server that recovers within the notice has been told in the end."""
    with answering(500, 429, 200) as hook:
        prepare("webhook", {}, url=hook.url)
    assert len(hook.told) == 3


def test_only_the_status_of_a_long_answer_counts():
    """It is told once, however much it says."""
    with answering(200) as hook:
        hook.answers = 64 * 2**20
        prepare("webhook", {}, url=hook.url)
    assert len(hook.told) == 1


def test_it_tries_again_after_a_hang(monkeypatch):
    """One attempt has its own limit, shorter than the notice."""
    monkeypatch.setattr(webhook, "ATTEMPT", 0.3)
    with answering(0, 200) as hook:
        prepare("webhook", {}, url=hook.url)
    assert len(hook.told) == 2


@pytest.mark.parametrize("status", [0, 503])
def test_it_gives_up_within_the_notice(status):
    """A server that stays away is a failure in time."""
    with answering(status) as hook, pytest.raises(Unavailable):
        asyncio.run(load("it", "webhook", {"url": hook.url}).prepare(context({}, seconds=1.0)))


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404])
def test_a_refusal_is_final_and_redirects_are_not_followed(status):
    """Asked once."""
    with answering(status, 200) as hook, pytest.raises(HandlerFailed, match=str(status)) as caught:
        prepare("webhook", {}, url=hook.url)
    assert (len(hook.told), type(caught.value)) == (1, HandlerFailed)


def test_proxies_of_the_environment_are_not_used(monkeypatch):
    """Nobody steers where the agent's messages go but its configuration."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    with answering(200) as hook:
        prepare("webhook", {}, url=hook.url)
    assert len(hook.told) == 1


def test_a_secret_address_is_never_told(tmp_path):
    """An address may be a secret itself: it comes from a file, and errors name the host only."""
    with answering(404) as hook:
        (tmp_path / "url").write_text(f"{hook.url}/T000/s3cret")
        with pytest.raises(HandlerFailed) as caught:
            prepare("webhook", {}, url_file=str(tmp_path / "url"))
        assert hook.told[0][1] == "/hook/T000/s3cret"
    with pytest.raises(Unavailable) as gone:
        asyncio.run(load("it", "webhook", {"url_file": str(tmp_path / "url")}).prepare(context({}, seconds=0.1)))
    with pytest.raises(Misconfigured) as wrong:
        load("it", "webhook", {"url": "ftp://chat/s3cret"})
    assert not any("s3cret" in f"{error.value.message}{error.value.hint}" for error in (caught, gone, wrong))


def test_https_wants_a_certificate_it_trusts(tmp_path, monkeypatch):
    """With `ca_file` the server is trusted; without, it is not told anything."""
    monkeypatch.setattr(webhook, "AGAIN", Backoff(60.0, 60.0))  # one try only: the last of many could be cut off
    openssl, pem = require_program("openssl", "openssl"), str(tmp_path / "pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    make = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", *subject]
    subprocess.run([*make, "-keyout", pem, "-out", f"{pem}.crt"], check=True, capture_output=True)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(f"{pem}.crt", pem)
    with answering(200, trust=trust) as hook:
        url = f"https://localhost:{hook.server_port}/"
        prepare("webhook", {}, url=url, ca_file=f"{pem}.crt")
        with pytest.raises(Unavailable, match="a certificate that is not trusted"):
            asyncio.run(load("it", "webhook", {"url": url}).prepare(context({}, seconds=30)))
    assert len(hook.told) == 1


class Proxy(socketserver.ThreadingTCPServer):
    """The way out of a closed network: CONNECT for https, whole addresses for http; it notes the first lines."""

    daemon_threads = True

    def __init__(self, status: str = "200 OK") -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.asked: list[str] = []
        self.status = status
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> "Proxy":
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Passing(socketserver.BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.request.recv(65536)
        first, _, rest = head.partition(b"\r\n")
        self.server.asked.append(first.decode())
        verb, address, _ = first.decode().split()
        parts = urlsplit(address if "://" in address else f"//{address}")
        if verb == "CONNECT":
            self.request.sendall(f"HTTP/1.1 {self.server.status}\r\n\r\n".encode())
            if not self.server.status.startswith("200"):
                return
        with socket.create_connection(("127.0.0.1", parts.port or 80)) as there:
            if verb != "CONNECT":
                there.sendall(f"{verb} {parts.path} HTTP/1.1\r\n".encode() + rest)
            answering = threading.Thread(target=_copy, args=(there, self.request))
            answering.start()
            _copy(self.request, there)
            answering.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_a_proxy_that_is_named_is_used(tmp_path, monkeypatch):
    """For http with the whole address; for https it sees the name alone, and the chat shows its certificate."""
    monkeypatch.setattr(webhook, "AGAIN", Backoff(60.0, 60.0))
    made = certificates(tmp_path)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(made.certificate, made.key)
    with Receiver(200) as plain, Receiver(200, tls=trust) as chat, Proxy() as proxy:
        prepare("webhook", NOTES(), url=plain.url, proxy=proxy.url)
        prepare("webhook", NOTES(), url=chat.url, ca_file=str(made.ca), proxy=proxy.url)
        assert len(plain.received) == len(chat.received) == 1
        port = urlsplit(chat.url).port
        assert proxy.asked == [f"POST {plain.url} HTTP/1.1", f"CONNECT localhost:{port} HTTP/1.1"]
        with pytest.raises(Unavailable, match="a certificate that is not trusted"):
            handler = load("it", "webhook", {"url": chat.url, "proxy": proxy.url})
            asyncio.run(handler.prepare(context({}, seconds=30)))
    with Proxy("407 Proxy Authentication Required") as closed, Receiver(200) as chat:
        handler = load("it", "webhook", {"url": chat.url.replace("http:", "https:"), "proxy": closed.url})
        with pytest.raises(Unavailable, match=r"the proxy .* answers 'HTTP/1.1 407"):
            asyncio.run(handler.prepare(context({}, seconds=30)))


@pytest.mark.parametrize(("written", "count"), [(False, 0), (True, 1)])
def test_who_was_not_told_of_the_beginning_is_not_told_of_the_end(written, count):
    """Killed at its note: the end is told only if the beginning may have been (S15)."""
    notes = NOTES()
    with answering(200) as hook:
        assert asyncio.run(prepare_killed("webhook", notes, 1, written, url=hook.url))
        recover("webhook", notes, url=hook.url)
    assert len(hook.told) == count


def test_a_cancel_ends_a_request_at_once():
    """A hung server holds nothing up."""
    with answering(0) as hook:
        verb = load("it", "webhook", {"url": hook.url}).prepare(context({}))
        asyncio.run(cancelled_when(verb, lambda: bool(hook.told)))
