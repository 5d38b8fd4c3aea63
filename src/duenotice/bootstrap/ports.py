"""Ports that are listened on, and their certificates."""

import socket
import ssl
from urllib.parse import urlsplit

import structlog

from duenotice import settings as s
from duenotice.errors import Misconfigured, Unavailable
from duenotice.metadata_api.options import MetadataOptions
from duenotice.settings import ServeSettings
from duenotice.system import given_socket

NOWHERE = "none"
"""Instead of the operator's HOST:PORT: a program that embeds a node talks to its engine."""
DRAIN_SECONDS = 5.0
BACKLOG = 1024


def operator_listen(settings: s.ServeSettings) -> tuple[str, int] | None:
    """Where operators ask; None: nowhere."""
    if settings.operator_listen == NOWHERE:
        return None
    return s.parse_listen("operator_listen", settings.operator_listen)


def metadata_options(settings: s.ServeSettings) -> MetadataOptions:
    """What is set about the VM's door."""
    return MetadataOptions(
        throttle=settings.throttle,
        approvals_throttle=settings.approvals_throttle,
        default_vm=settings.default_vm or None,
        max_connections=settings.max_connections,
        max_connections_per_address=settings.connections_per_address,
        first_answer_delay=settings.first_answer_delay,
        first_answer_empty=settings.first_answer_empty,
        newer_versions_400=settings.newer_versions_400,
        spot_rebalance=settings.spot_rebalance,
        leaf_json=settings.leaf_json,
        fault_seconds=settings.fault_seconds,
    )


def bound(address: tuple[str, int], dual: bool = False, shared: bool = False) -> socket.socket:
    """Take a port, or the socket that systemd has opened for it. Until we listen, connections are refused.

    With `dual`, :: means IPv4 and IPv6. If it is `shared`, the kernel spreads connections over all who have it.
    """
    if (given := given_socket(address)) is not None:
        return given
    host, port = address
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if made.family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not (dual and host == "::"))
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise cannot_listen(address, error) from None
    return made


def cannot_listen(address: tuple[str, int], error: OSError) -> Unavailable:
    """What to tell when a port cannot be had."""
    problem = f"Cannot listen on {s.host_port(address)}: {error.strerror or error}."
    return Unavailable(problem, hint=s.listen_hint(address, error))


_HINT = "Give PEM files: the certificate with its chain, and its key without a password."


log = structlog.get_logger()


class OperatorTls:
    """The certificate that the operator's port shows; connections that are open keep the one that they have seen."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate, self._key = certificate, key
        self.context = self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def reread_or_complain(self) -> None:
        """Show the certificate that the files have now; if they are not valid, go on with the one from before."""
        try:
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
            self._load(self.context)
            log.info("certificate reread", action="certificate-reread")
        except Misconfigured as error:
            hint = f"The certificate from before is still used. {error.hint}"
            log.error(error.message, action="certificate-refused", hint=hint)

    def _load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        try:
            # Without a password it would ask for one on the terminal.
            context.load_cert_chain(self._certificate, self._key, password=lambda: "")
        except (OSError, ValueError) as error:
            what = f"operator_cert_file {self._certificate} with operator_key_file {self._key} cannot be used"
            raise Misconfigured(f"{what}: {_said(error)}.", hint=_HINT) from None
        return context


def operator_tls(settings: ServeSettings) -> OperatorTls | None:
    """The certificate of the settings, if they have one."""
    if bool(settings.operator_cert_file) != bool(settings.operator_key_file):
        missing = "operator_cert_file" if settings.operator_key_file else "operator_key_file"
        raise Misconfigured(f"{missing} is not set, but the other file is.", hint=_HINT)
    if not settings.operator_cert_file:
        return None
    if urlsplit(settings.node_url).scheme == "http":
        raise Misconfigured(
            f"node_url is {settings.node_url}, but the operator's port speaks TLS.", hint="Begin it with https://."
        )
    return OperatorTls(settings.operator_cert_file, settings.operator_key_file)


def trust_of(settings: ServeSettings) -> ssl.SSLContext:
    """Who is believed to be a node: what the CA of the settings has signed, or a CA that this machine trusts."""
    try:
        return ssl.create_default_context(cafile=settings.node_ca_file or None)
    except (OSError, ValueError) as error:
        what = f"node_ca_file {settings.node_ca_file} cannot be used: {_said(error)}."
        raise Misconfigured(what, hint="Give a PEM file with the certificate of the CA.") from None


_WORDS = {
    "NO_CERTIFICATE_OR_CRL_FOUND": "it has no certificate",
    "PEM lib": "a file is not PEM",
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "BAD_DECRYPT": "the key has a password",
}
"""The library's codes."""


def _said(error: Exception) -> str:
    text = str(error)
    return next((words for code, words in _WORDS.items() if code in text), getattr(error, "strerror", None) or text)
