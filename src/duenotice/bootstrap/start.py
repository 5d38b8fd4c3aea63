"""Which kind of process the settings ask for: a node, or a follower of one."""

from typing import TYPE_CHECKING

from msgspec import structs

from duenotice.errors import Misconfigured
from duenotice.settings import ServeSettings, host_port, parse_listen

if TYPE_CHECKING:
    from duenotice.bootstrap.follower import FollowerService
    from duenotice.bootstrap.node import Service


def service_of(settings: ServeSettings) -> "Service | FollowerService":
    """Not started yet. Only what it needs is imported: a follower on every host has to be small."""
    if settings.follow:
        from duenotice.bootstrap.follower import FollowerService

        return FollowerService(settings)
    from duenotice.bootstrap.node import Service

    if settings.only or settings.follow_token_file:
        raise Misconfigured("only and follow_token_file are for followers.", hint="Say which node with --follow.")
    return Service(settings)


def again(service: "Service | FollowerService") -> "Service | FollowerService":
    """The same from the beginning, on the same ports: its journal has lost what it had stored (N14)."""
    settings = service.settings
    for name, address in (("metadata_listen", service.metadata_address), ("operator_listen", service.operator_address)):
        if address[1]:
            host, _ = parse_listen(name, getattr(settings, name))
            settings = structs.replace(settings, **{name: host_port((host, address[1]))})
    return service_of(settings)
