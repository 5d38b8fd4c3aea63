"""Receivers: the question whether one wants messages, and one delivery; signed, bounded, and nowhere else (M13).

All of them are asked in one thread, away from the loop that answers VMs (S26).
"""

import asyncio
import hmac
import secrets
import ssl
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any, NamedTuple

from duenotice import __version__
from duenotice.clock import monotonic, wall
from duenotice.domain.fleet import Site
from duenotice.domain.subscription import PushFormat, Subscription
from duenotice.engine.threads import LoopThread
from duenotice.errors import Malformed, Refused, Unavailable
from duenotice.http.fetch import HttpAnswer, fetch, parse_url
from duenotice.push.addresses import AllowedAddresses, NotAllowedNow, resolve
from duenotice.wire.azure import (
    DATA_VERSION,
    MEDIA_TYPES,
    METADATA_VERSION,
    EventChange,
    encode_change,
    encode_validation,
    validation_response,
)

ORIGIN = "duenotice"
"""Who asks, in the handshake of CloudEvents."""

LONGEST_ANSWER = 8192
"""Bytes of an answer that are read, however much comes (S24)."""

RESOLVED_FOR = 30.0
"""Real seconds for which the addresses of a name are remembered."""

GONE = 410
_ABOUT_THE_MESSAGE = frozenset({400, 409, 413, 415, 422})
"""Refusals of one message, which say nothing about the next."""


class PushEnd(Enum):
    """How a try ended."""

    TAKEN = "taken"
    FAILED = "failed"
    """It may be tried again."""
    NOT_THIS = "not this"
    """It may be tried again; other messages may go well meanwhile."""
    GONE = "gone"
    """The receiver says that it will not be back, or it may not be asked at all."""


class PushOutcome(NamedTuple):
    """How a try ended and, unless it went well, why; `after` is when the receiver wants to be asked again."""

    end: PushEnd
    reason: str = ""
    after: float = 0.0


class NetworkPolicy(NamedTuple):
    """What all receivers share: where messages may go, who is trusted, and how long an answer may take.

    Each subscription waits for at most one name at a time, so `resolvers` is as large as there may be subscriptions:
    a resolver that hangs holds up nobody else.
    """

    allowed: AllowedAddresses
    trust: Callable[[], ssl.SSLContext]
    timeout: float
    resolvers: ThreadPoolExecutor


class PushReceiver:
    """All of it runs in the loop of the thread."""

    def __init__(self, known: Subscription, policy: NetworkPolicy) -> None:
        self._known, self._policy = known, policy
        self._is_secure = known.url.lower().startswith("https:")
        self._addresses: list[str] = []
        self._resolved_at = 0.0
        self._lookup: asyncio.Future[list[str]] | None = None
        self._turn = 0

    async def validate(self, site: Site) -> PushOutcome:
        """Ask whether it wants messages."""
        asks = self._shake_hands() if self._known.format is PushFormat.CLOUDEVENTS else self._validate(site)
        return await self._tried(asks)

    async def deliver(self, change: EventChange, site: Site, tries: int) -> PushOutcome:
        """Send one message."""
        return await self._tried(self._deliver(change, site, tries))

    async def _tried(self, work: Coroutine[Any, Any, PushOutcome]) -> PushOutcome:
        try:
            async with asyncio.timeout(self._policy.timeout):
                return await work
        except TimeoutError:
            return PushOutcome(PushEnd.FAILED, f"No answer within {self._policy.timeout:g} seconds.")
        except NotAllowedNow as error:
            self._addresses = []
            return PushOutcome(PushEnd.FAILED, error.message)
        except Unavailable as error:
            self._addresses = []  # it may be elsewhere by now
            return PushOutcome(PushEnd.FAILED, f"No answer: {error.message}"[:500])
        except (Refused, Malformed) as error:
            return PushOutcome(PushEnd.GONE, error.message)

    async def _validate(self, site: Site) -> PushOutcome:
        code = secrets.token_hex(16)
        answer = await self._ask("POST", encode_validation(code, wall(), site), _grid_headers("SubscriptionValidation"))
        if not _is_good(answer):
            return _refused(answer)
        if not hmac.compare_digest(validation_response(answer.body).encode(), code.encode()):
            return PushOutcome(PushEnd.GONE, "The receiver did not answer with the validation code.")
        return PushOutcome(PushEnd.TAKEN)

    async def _shake_hands(self) -> PushOutcome:
        answer = await self._ask("OPTIONS", b"", {"WebHook-Request-Origin": ORIGIN})
        if not _is_good(answer):
            return _refused(answer)
        if answer.headers.get("webhook-allowed-origin", "").strip() not in ("*", ORIGIN):
            return PushOutcome(PushEnd.GONE, f"The receiver did not answer with WebHook-Allowed-Origin: {ORIGIN}.")
        return PushOutcome(PushEnd.TAKEN)

    async def _deliver(self, change: EventChange, site: Site, tries: int) -> PushOutcome:
        headers = {"Duenotice-Attempt": str(tries)}
        if self._known.format is PushFormat.EVENTGRID:
            headers |= _grid_headers("Notification") | {"aeg-delivery-count": str(tries - 1)}
        answer = await self._ask("POST", encode_change(change, site, self._known.format), headers)
        return PushOutcome(PushEnd.TAKEN) if _is_good(answer) else _failed(answer)

    async def _ask(self, method: str, body: bytes, more: Mapping[str, str]) -> HttpAnswer:
        known = self._known
        stamp = str(int(wall().timestamp()))
        headers = {
            "Content-Type": MEDIA_TYPES[known.format],
            "User-Agent": f"duenotice/{__version__}",
            "Duenotice-Subscription": known.id,
            "Duenotice-Timestamp": stamp,
            "Duenotice-Signature": signature(known.secret, stamp, body),
            **more,
        }
        if known.bearer:
            headers["Authorization"] = f"Bearer {known.bearer}"
        return await fetch(
            known.url,
            method=method,
            body=body,
            headers=headers,
            timeout=None,
            trust=self._policy.trust() if self._is_secure else None,
            longest=LONGEST_ANSWER,
            cut=True,
            address=await self._address(),
            check=self._policy.allowed.check,
        )

    async def _address(self) -> str:
        """A checked address of the host; another one at the next try, if it has several."""
        if not self._addresses or monotonic() - self._resolved_at > RESOLVED_FOR:
            self._addresses = await asyncio.shield(self._look_up())
            self._resolved_at = monotonic()
        self._turn += 1
        return self._addresses[self._turn % len(self._addresses)]

    def _look_up(self) -> "asyncio.Future[list[str]]":
        """One at a time: a resolver that hangs keeps one thread, however often we give up waiting for it."""
        if self._lookup is None or self._lookup.done():
            target, loop, policy = parse_url(self._known.url), asyncio.get_running_loop(), self._policy
            self._lookup = loop.run_in_executor(policy.resolvers, resolve, target.host, target.port, policy.allowed)
            self._lookup.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._lookup


def signature(secret: str, stamp: str, body: bytes) -> str:
    """Proves to everybody who has the secret that the body is ours, and when it was sent."""
    return "sha256=" + hmac.new(secret.encode(), stamp.encode() + b"." + body, "sha256").hexdigest()


def _grid_headers(kind: str) -> dict[str, str]:
    return {"aeg-event-type": kind, "aeg-data-version": DATA_VERSION, "aeg-metadata-version": METADATA_VERSION}


def _is_good(answer: HttpAnswer) -> bool:
    return 200 <= answer.status < 300


def _refused(answer: HttpAnswer) -> PushOutcome:
    """An answer to the question that is not yes; only a receiver in trouble is asked again."""
    failed = _failed(answer)
    is_trouble = answer.status >= 500 or answer.status in (408, 425, 429)
    return failed if is_trouble else failed._replace(end=PushEnd.GONE)


def _failed(answer: HttpAnswer) -> PushOutcome:
    """The text of the answer is not repeated: it may be of a place that only this machine can reach."""
    said = f"The receiver answered {answer.status}"
    if answer.status == GONE:
        return PushOutcome(PushEnd.GONE, f"{said}: it is gone.")
    if 300 <= answer.status < 400:
        return PushOutcome(PushEnd.FAILED, f"{said}: redirects are not followed.")
    end = PushEnd.NOT_THIS if answer.status in _ABOUT_THE_MESSAGE else PushEnd.FAILED
    return PushOutcome(end, f"{said}.", _retry_after(answer))


def _retry_after(answer: HttpAnswer) -> float:
    text = answer.headers.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) <= 6 else 0.0


class ReceiverThread:
    """Gives each subscription its receiver."""

    def __init__(self, policy: NetworkPolicy) -> None:
        self._policy, self._room = policy, LoopThread("push")

    def receiver(self, known: Subscription) -> "ReceiverInThread":
        """The receiver of a subscription."""
        return ReceiverInThread(PushReceiver(known, self._policy), self._room)

    async def close(self) -> None:
        """End the threads; a resolver that hangs is left behind."""
        await asyncio.get_running_loop().run_in_executor(None, self._room.close)
        self._policy.resolvers.shutdown(wait=False, cancel_futures=True)


class ReceiverInThread:
    """A receiver that is asked in that thread."""

    def __init__(self, receiver: PushReceiver, room: LoopThread) -> None:
        self._receiver, self._room = receiver, room

    async def validate(self, site: Site) -> PushOutcome:
        """Whether it wants messages."""
        return await self._room.do(self._receiver.validate(site))

    async def deliver(self, change: EventChange, site: Site, tries: int) -> PushOutcome:
        """Whether it took one."""
        return await self._room.do(self._receiver.deliver(change, site, tries))
