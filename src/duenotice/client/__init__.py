"""Clients: the VM's side of the metadata service, and the operator's side of its API.

For VMs, with the standard library only; of ours the wire and the ground:

blocking   streaming      two thin clients, on socket_line and stream_line, which carry talks
    └────┬────┘
watching · asking         the verbs as talks: negotiation, the watch
exchange · patience       one request and its answer as a talk; trying again
contract · versions · response · endpoint · errors        pure parts
discovery                 the endpoint by DHCP (A13)

For operators: `operator`, built on the same talks and lines. Every name is loaded when it is first used, so that a VM
never loads the operator's half, and a program without asyncio none of that.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duenotice.client.blocking import MetadataClient
    from duenotice.client.errors import (
        BadAnswer,
        Gone,
        MetadataError,
        Redirected,
        Rejected,
        ServerFailed,
        Throttled,
        TimedOut,
        Unreachable,
    )
    from duenotice.client.operator.blocking import OperatorClient
    from duenotice.client.operator.streaming import AsyncOperatorClient
    from duenotice.client.streaming import AsyncMetadataClient

__all__ = [
    "AsyncMetadataClient",
    "AsyncOperatorClient",
    "BadAnswer",
    "Gone",
    "MetadataClient",
    "MetadataError",
    "OperatorClient",
    "Redirected",
    "Rejected",
    "ServerFailed",
    "Throttled",
    "TimedOut",
    "Unreachable",
]

_HOMES = {
    "AsyncMetadataClient": "streaming",
    "AsyncOperatorClient": "operator.streaming",
    "MetadataClient": "blocking",
    "OperatorClient": "operator.blocking",
}
"""Where names are that are not errors."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
