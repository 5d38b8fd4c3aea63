"""How a client of the operator is set up: where the API is, which token it shows, how patiently it asks.

As given, from the environment, or the defaults.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from duenotice.client.endpoint import Address
from duenotice.client.operator.errors import Denied
from duenotice.client.retry import JITTER, RetryPolicy
from duenotice.clock import monotonic
from duenotice.errors import DuenoticeError, Misconfigured, reason

if TYPE_CHECKING:
    from ssl import SSLContext

DEFAULT_ENDPOINT = "http://127.0.0.1:16926"
TIMEOUT_SECONDS = 30.0
BUDGET_SECONDS = 10.0
_PORTS = {"http": 80, "https": 443}

Explain = Callable[[DuenoticeError], DuenoticeError]
"""Says an error in other words: each error of a client goes through it before it is raised."""


def as_it_is(error: DuenoticeError) -> DuenoticeError:
    """In the words of the service and of this client."""
    return error


@dataclass(frozen=True, slots=True)
class Settings:
    """How a client asks: `url` is how errors name the service."""

    url: str
    token: str = ""
    policy: RetryPolicy = field(default_factory=lambda: RetryPolicy(TIMEOUT_SECONDS, BUDGET_SECONDS))
    explain: Explain = as_it_is
    now: Callable[[], float] = monotonic
    jitter: Callable[[], float] = JITTER
    new_key: Callable[[], str] = lambda: os.urandom(16).hex()


class Endpoint(NamedTuple):
    """An address, and whether it speaks TLS."""

    url: str
    address: Address
    secure: bool

    @property
    def host(self) -> str:
        """The value of Host."""
        return self.url.partition("//")[2]

    def context(self, tls: "SSLContext | None") -> "SSLContext | None":
        """How to check who answers: as given, or against the certificates that this machine trusts."""
        if not self.secure or tls is not None:
            return tls if self.secure else None
        from ssl import create_default_context  # costs milliseconds that plain HTTP should not pay

        return create_default_context()


def chosen_endpoint(endpoint: str | None) -> Endpoint:
    """An explicit endpoint before DUENOTICE_ENDPOINT before the default."""
    text = endpoint or os.environ.get("DUENOTICE_ENDPOINT") or DEFAULT_ENDPOINT
    try:
        parts = urlsplit(text if "//" in text else f"http://{text}")
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
        if not parts.hostname or not (parts.netloc.isascii() and parts.netloc.isprintable()) or " " in parts.netloc:
            raise ValueError(text)
    except (ValueError, KeyError):
        hint = f"Write it like {DEFAULT_ENDPOINT}."
        raise Misconfigured(f"The endpoint {text!r} is not an address.", hint=hint) from None
    # Without user and password: they are not used, and the url is shown in messages.
    url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return Endpoint(url, Address(parts.hostname, port), parts.scheme == "https")


def chosen_token(token: str | None) -> str:
    """An explicit token before the environment's before the admin token of the default data directory."""
    chosen = found_token() if token is None else token
    if not (chosen.isascii() and chosen.isprintable()):
        hint = "Is DUENOTICE_TOKEN_FILE the right file?"
        raise Denied("The token has characters that a token cannot have.", hint=hint)
    return chosen


def found_token() -> str:
    """DUENOTICE_TOKEN, the file of DUENOTICE_TOKEN_FILE, or the admin token of the default data directory."""
    if token := os.environ.get("DUENOTICE_TOKEN", "").strip():
        return token
    if file := os.environ.get("DUENOTICE_TOKEN_FILE", ""):
        try:
            return Path(file).read_text().strip()
        except (OSError, ValueError) as error:
            text = f"Cannot read the token file {file}: {reason(error)}."
            raise Denied(text, hint="Set DUENOTICE_TOKEN_FILE.") from None
    return _own_token()


def _own_token() -> str:
    from duenotice.settings import default_data_dir

    try:
        return (default_data_dir() / "admin.token").read_text().strip()
    except (OSError, ValueError):
        return ""
