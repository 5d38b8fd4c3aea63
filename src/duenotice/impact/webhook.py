"""The driver that POSTs each event to a receiver, with a key by which it can tell a repeat from a new one."""

import asyncio
import hmac
import json
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from duenotice import __version__
from duenotice.domain.event import Event
from duenotice.impact.driver import OUTPUT_KEPT, AttemptEnd, AttemptOutcome
from duenotice.wire.operator_json import event_to_json

if TYPE_CHECKING:
    import httpx2

ACCEPTED = 202
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
        import httpx2  # imported here: only users of webhooks need it

        self._receiver = receiver
        self._timeout = timeout
        self._failure = httpx2.HTTPError
        # No proxies, certificates or passwords from the environment, and no redirects: only the receiver is asked.
        self._client = httpx2.AsyncClient(
            verify=ssl.create_default_context(cafile=receiver.ca_file), timeout=None, trust_env=False
        )

    async def run(self, event: Event, attempt: int) -> AttemptOutcome:
        """Ask the receiver; the body and the key of an event are the same in every attempt and after every crash."""
        body = json.dumps(event_to_json(event)).encode()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._ask(body, self._headers(event, attempt, body))
        except TimeoutError:
            return AttemptOutcome(AttemptEnd.FAILED, f"No answer within {self._timeout:g} seconds.")
        except self._failure as error:
            return AttemptOutcome(AttemptEnd.FAILED, f"No answer: {error or type(error).__name__}"[:OUTPUT_KEPT])

    def forget(self, event_id: str, attempt: int) -> None:
        """Nothing is kept here."""

    def sweep(self, live: Mapping[str, Event]) -> None:
        """Nothing is kept here."""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, body: bytes, headers: dict[str, str]) -> AttemptOutcome:
        async with self._client.stream("POST", self._receiver.url, content=body, headers=headers) as answer:
            return _outcome(answer.status_code, await _beginning(answer))

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


def _outcome(status: int, said: str) -> AttemptOutcome:
    if status == ACCEPTED:
        return AttemptOutcome(AttemptEnd.ACCEPTED)
    if 200 <= status < 300:
        return AttemptOutcome(AttemptEnd.DONE)
    reason = f"The receiver answered {status}" + (f": {said}" if said else ".")
    return AttemptOutcome(AttemptEnd.FAILED if status >= 500 or status in _LATER else AttemptEnd.HOPELESS, reason)


async def _beginning(answer: "httpx2.Response") -> str:
    """The first bytes of an answer: enough for a reason, however much comes."""
    said = bytearray()
    async for chunk in answer.aiter_raw():
        said += chunk
        if len(said) >= OUTPUT_KEPT:
            break
    return bytes(said[:OUTPUT_KEPT]).decode(errors="replace").strip()
