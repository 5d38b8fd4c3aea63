"""The VM's side: finds and asks the metadata service. Standard library only; of ours the wire and the ground.

blocking   streaming      two thin carriers: sockets, asyncio streams
    └────┬────┘
watching · asking         the verbs as talks: negotiation, retries, the watch
exchange                  one request and its answer as a talk
contract · versions · response · endpoint · errors        pure parts
discovery                 the endpoint by DHCP (A13)
"""

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
from duenotice.client.streaming import AsyncMetadataClient

__all__ = [
    "AsyncMetadataClient",
    "BadAnswer",
    "Gone",
    "MetadataClient",
    "MetadataError",
    "Redirected",
    "Rejected",
    "ServerFailed",
    "Throttled",
    "TimedOut",
    "Unreachable",
]
