"""duenotice: every VM is told before it is hit. An open implementation of the Scheduled Events contract."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = ["AsyncMetadataClient", "MetadataClient", "MetadataError", "SeenDocument", "SeenEvent", "__version__"]

if TYPE_CHECKING:
    from duenotice.client import AsyncMetadataClient, MetadataClient, MetadataError
    from duenotice.wire.seen_documents import SeenDocument, SeenEvent


def __getattr__(name: str) -> Any:
    """Loads the client's names when they are first used: the service and the command line do not need them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "duenotice.wire.seen_documents" if name.startswith("Seen") else "duenotice.client"
    return getattr(import_module(home), name)
