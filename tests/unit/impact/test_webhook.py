"""Webhooks: what is sent, and what each answer means."""

import asyncio
import hashlib
import hmac
import json
import socket
from pathlib import Path

import msgspec
import pytest

from duenotice.impact import webhook
from duenotice.impact.driver import OUTPUT_KEPT, AttemptEnd, AttemptOutcome
from duenotice.impact.webhook import WebhookDriver
from duenotice.wire.operator import from_domain
from tests.support.receiver import HANG, Receiver
from tests.unit.domain.build import id_of
from tests.unit.impact.rig import SECONDS, started


def asked(target: webhook.Receiver, attempt: int = 1, timeout: float = SECONDS) -> AttemptOutcome:
    """What comes of one attempt."""

    async def ask() -> AttemptOutcome:
        driver = WebhookDriver(target, timeout)
        try:
            return await driver.run(started(), attempt)
        finally:
            await driver.close()

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("status", "end"),
    [
        *((status, AttemptEnd.DONE) for status in (200, 201, 204, 299)),
        (202, AttemptEnd.ACCEPTED),
        *((status, AttemptEnd.FAILED) for status in (500, 502, 503, 599, 408, 425, 429)),
        *((status, AttemptEnd.HOPELESS) for status in (400, 401, 404, 409, 422, 301, 302, 307, 308)),
    ],
)
def test_each_answer_has_its_meaning(status: int, end: AttemptEnd) -> None:
    """2xx completes, 202 promises a report, 5xx and "not now" are tried again; other answers are final."""
    with Receiver(status, Location="/elsewhere") as receiver:
        outcome = asked(webhook.Receiver(receiver.url))
        assert outcome.end is end
        assert str(status) in outcome.reason or end in (AttemptEnd.DONE, AttemptEnd.ACCEPTED)
        assert len(receiver.received) == 1  # a redirect is not followed


def test_the_event_goes_out_with_its_key() -> None:
    """The body is the event as operators see it; body and key are the same in each attempt."""
    with Receiver(200) as receiver:
        for attempt in (1, 2):
            asked(webhook.Receiver(receiver.url), attempt)
        first, second = receiver.received
    assert first.event() == msgspec.json.decode(msgspec.json.encode(from_domain.event(started())))
    assert first.body == second.body
    assert {first.headers["Idempotency-Key"], second.headers["Idempotency-Key"]} == {id_of(1)}
    assert [request.headers["Duenotice-Attempt"] for request in (first, second)] == ["1", "2"]
    assert first.headers["Content-Type"] == "application/json"
    assert not {"Authorization", "Duenotice-Signature"} & set(first.headers)


def test_the_receiver_can_know_that_it_is_us() -> None:
    """By a bearer token, and by a signature over the body that needs the key."""
    with Receiver(200) as receiver:
        asked(webhook.Receiver(receiver.url, bearer="token", signing_key="key"))
        (request,) = receiver.received
    assert request.headers["Authorization"] == "Bearer token"
    expected = hmac.new(b"key", request.body, hashlib.sha256).hexdigest()
    assert request.headers["Duenotice-Signature"] == f"sha256={expected}"


def test_a_receiver_that_hangs_is_left_after_the_timeout() -> None:
    with Receiver(HANG) as receiver:
        outcome = asked(webhook.Receiver(receiver.url), timeout=0.2)
    assert outcome == AttemptOutcome(AttemptEnd.FAILED, "No answer within 0.2 seconds.")


def test_a_receiver_that_is_not_there_is_tried_again() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        outcome = asked(webhook.Receiver(f"http://127.0.0.1:{unused.getsockname()[1]}/"))
    assert outcome.end is AttemptEnd.FAILED
    assert outcome.reason.startswith("No answer: ")


def test_what_it_says_is_the_reason_and_not_endless() -> None:
    """The beginning of the answer, whatever its bytes (S24)."""
    with Receiver(400, said=b"\xff no such VM " + b"x" * 1_000_000) as receiver:
        outcome = asked(webhook.Receiver(receiver.url))
    assert outcome.reason.startswith("The receiver answered 400: � no such VM x")
    assert len(outcome.reason) <= OUTPUT_KEPT + 100


def test_proxies_of_the_environment_are_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the receiver is asked, whatever the environment says."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    with Receiver(200) as receiver:
        assert asked(webhook.Receiver(receiver.url)).end is AttemptEnd.DONE


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    """https is verified: with the receiver's own authority it works, without it nothing is sent."""
    certificate, context = self_signed(tmp_path)
    with Receiver(200, tls=context) as receiver:
        refused = asked(webhook.Receiver(receiver.url))
        assert (refused.end, receiver.received) == (AttemptEnd.FAILED, [])
        assert "certificate" in refused.reason.lower()
        assert asked(webhook.Receiver(receiver.url, ca_file=str(certificate))).end is AttemptEnd.DONE
        assert json.loads(receiver.received[0].body)["id"] == id_of(1)


def self_signed(tmp_path: Path):
    """A certificate for localhost, and a server's context with it."""
    import ssl
    import subprocess

    from tests.programs import require_program

    openssl = require_program("openssl", "openssl")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *subject]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=SECONDS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context
