"""The ports of a process, taken before anything else is done, and what can be set about the VM's door."""

import socket

from duenotice import settings as s
from duenotice.errors import Unavailable
from duenotice.metadata_api.options import MetadataOptions
from duenotice.sd_notify import given_socket

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
