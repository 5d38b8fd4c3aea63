"""The driver that POSTs each event to a receiver, with a key by which it can tell a repeat from a new one."""

import asyncio
import hmac
import json
import ssl
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from duenotice import __version__
from duenotice.domain.event import Event
from duenotice.errors import Unavailable
from duenotice.http.fetch import HttpAnswer, fetch
from duenotice.impact.driver import OUTPUT_KEPT, AttemptEnd, AttemptOutcome
from duenotice.wire.operator import from_domain

ACCEPTED = 202
_ANSWER_READ = OUTPUT_KEPT + 65_536
"""Bytes of an answer: enough for its head and a reason, however much comes (S24)."""
_LATER = frozenset({408, 425, 429})
"""Refusals that may pass, so that the same request is worth another try."""


class Receiver(NamedTuple):
    """Where events go, and how the receiver knows that they are ours."""

    url: str
    bearer: str = ""
    signing_key: str = ""
    ca_file: str | None = None


class WebhookDriver:
    """2xx completes, 202 promises a report, 5xx and silence are tried again, other answers are final."""

    name = "webhook"

    def __init__(self, receiver: Receiver, timeout: float) -> None:
        self._receiver = receiver
        self._timeout = timeout
        self._trust = ssl.create_default_context(cafile=receiver.ca_file)

    async def run(self, event: Event, attempt: int) -> AttemptOutcome:
        """Ask the receiver; the body and the key of an event are the same in every attempt and after every crash."""
        body = json.dumps(msgspec.to_builtins(from_domain.event(event))).encode()
        try:
            async with asyncio.timeout(self._timeout):
                return _outcome(await self._ask(body, self._headers(event, attempt, body)))
        except TimeoutError:
            return AttemptOutcome(AttemptEnd.FAILED, f"No answer within {self._timeout:g} seconds.")
        except Unavailable as error:
            return AttemptOutcome(AttemptEnd.FAILED, f"No answer: {error.message}"[:OUTPUT_KEPT])

    def directory(self) -> str:
        """Nothing is noted here."""
        return ""

    def lost(self, node: str) -> None:
        """The receiver knows by the key of the event what it has done."""

    def forget(self, event_id: str, attempt: int) -> None:
        """Nothing is kept here."""

    def sweep(self, live: Mapping[str, Event]) -> None:
        """Nothing is kept here."""

    async def close(self) -> None:
        """Nothing is open here."""

    async def _ask(self, body: bytes, headers: dict[str, str]) -> HttpAnswer:
        return await fetch(
            self._receiver.url,
            method="POST",
            body=body,
            headers=headers,
            timeout=None,
            trust=self._trust,
            longest=_ANSWER_READ,
            cut=True,
        )

    def _headers(self, event: Event, attempt: int, body: bytes) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"duenotice/{__version__}",
            "Idempotency-Key": event.id,
            "Duenotice-Attempt": str(attempt),
        }
        if self._receiver.bearer:
            headers["Authorization"] = f"Bearer {self._receiver.bearer}"
        if self._receiver.signing_key:
            headers["Duenotice-Signature"] = signature(self._receiver.signing_key, body)
        return headers


def signature(key: str, body: bytes) -> str:
    """Proves to the holder of the key that the body is ours."""
    return "sha256=" + hmac.new(key.encode(), body, "sha256").hexdigest()


def _outcome(answer: HttpAnswer) -> AttemptOutcome:
    status, said = answer.status, answer.body[:OUTPUT_KEPT].decode(errors="replace").strip()
    if status == ACCEPTED:
        return AttemptOutcome(AttemptEnd.ACCEPTED)
    if 200 <= status < 300:
        return AttemptOutcome(AttemptEnd.DONE)
    reason = f"The receiver answered {status}" + (f": {said}" if said else ".")
    return AttemptOutcome(AttemptEnd.FAILED if status >= 500 or status in _LATER else AttemptEnd.HOPELESS, reason)
