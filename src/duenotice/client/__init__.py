"""Clients: the VM's side of the metadata service, and the operator's side of its API.

For VMs, with the standard library only; of ours the wire and the ground:

metadata                    MetadataClient and AsyncMetadataClient: they run flows on `http`, and decide nothing
watch · protocol · retry    each call as a flow, which does no I/O: what is asked, what an answer means, what is retried
endpoint · dhcp · errors    where the service is; what can go wrong

For operators: `operator`, on the same `http` and `retry`. Every name is loaded when it is first used, so that a VM
never loads the operator's half, and a program without asyncio none of that.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from duenotice.client.metadata import AsyncMetadataClient, MetadataClient
    from duenotice.client.operator.client import AsyncOperatorClient, OperatorClient

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
    "AsyncMetadataClient": "metadata",
    "AsyncOperatorClient": "operator.client",
    "MetadataClient": "metadata",
    "OperatorClient": "operator.client",
}
"""Where names are that are not errors."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
