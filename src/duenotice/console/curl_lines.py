"""Lines for curl that work as they stand: with the address that is really served to VMs. Pure."""

import json
from ipaddress import IPv6Address, ip_address

from duenotice.console.pages import METADATA


def curls(event_id: str, version: str, served: tuple[str, int] = METADATA, vm: str = "") -> list[tuple[str, str]]:
    """How a VM would ask for the document and approve the event, as lines to copy.

    Where the service listens on the loopback, VMs are told apart by their address there: `vm` is that of one.
    """
    approval = json.dumps({"StartRequests": [{"EventId": event_id}]}, separators=(",", ":"))
    source = f"--interface {vm} " if vm and _is_loopback(served[0]) and _is_loopback(vm) else ""
    asked = f"{source}-H Metadata:true"
    url = f"'http://{place(served)}/metadata/scheduledevents?api-version={version}'"
    return [
        ("Read it like a VM", f"curl {asked} {url}"),
        ("Approve it like a VM", f"curl {asked} -d '{approval}' {url}"),
    ]


def place(served: tuple[str, int]) -> str:
    """Host and port as an address has them; who listens everywhere is reached where VMs always ask."""
    host, port = served
    if not host or ip_address(host).is_unspecified:
        host = METADATA[0]
    shown = f"[{host}]" if isinstance(ip_address(host), IPv6Address) else host
    return shown if port == METADATA[1] else f"{shown}:{port}"


def _is_loopback(host: str) -> bool:
    return ip_address(host).is_loopback
