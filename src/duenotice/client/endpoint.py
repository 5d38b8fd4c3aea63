"""Where the metadata service is: as given, as the environment says, the address of the documents, or found by DHCP."""

import os
import re
from typing import NamedTuple
from urllib.parse import urlsplit

from duenotice.client.errors import Unreachable
from duenotice.errors import Misconfigured, Unavailable

VARIABLE = "DUENOTICE_METADATA_ENDPOINT"
"""The only environment variable that is used to find the service. Proxy variables are ignored."""

DEFAULT = "http://169.254.169.254"
DISCOVER = "discover"

_LABEL = "[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_HINT = f"Write it like {DEFAULT}, or {DISCOVER} to find it by DHCP."


class Address(NamedTuple):
    """A host without brackets, and a port."""

    host: str
    port: int

    @property
    def header(self) -> str:
        """The value of Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 80 else f"{host}:{self.port}"


def chosen_endpoint(endpoint: str | None) -> str:
    """What was asked for, checked: an explicit one before the environment's before the default."""
    text = endpoint or os.environ.get(VARIABLE) or DEFAULT
    if text != DISCOVER:
        parse_endpoint(text)
    return text


def locate(endpoint: str, timeout: float) -> Address:
    """The address behind an endpoint; only `discover` takes time."""
    if endpoint != DISCOVER:
        return parse_endpoint(endpoint)
    from duenotice.client.dhcp import discover_endpoint  # only for those who need it: it is Linux only

    try:
        return parse_endpoint(discover_endpoint(timeout=timeout))
    except Unavailable as error:
        raise Unreachable(error.message, hint=error.hint) from None


def parse_endpoint(text: str) -> Address:
    """Only `http://HOST[:PORT]`: the metadata service has no TLS, no users and fixed paths."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", 80 if parts.port is None else parts.port
    except ValueError:
        raise _wrong(text) from None
    extra = parts.query or parts.fragment or parts.path.strip("/") or parts.username is not None
    if parts.scheme != "http" or extra or not _HOST.fullmatch(host) or not port:
        raise _wrong(text)
    return Address(host, port)


def _wrong(text: str) -> Misconfigured:
    return Misconfigured(f"The metadata endpoint {text!r} is not http://HOST[:PORT].", hint=_HINT)
