"""Which kind of process the settings ask for: a node, or a follower of one."""

from typing import TYPE_CHECKING

from duenotice.errors import Misconfigured
from duenotice.settings import ServeSettings

if TYPE_CHECKING:
    from duenotice.bootstrap.follower_service import FollowerService
    from duenotice.bootstrap.service import Service


def service_of(settings: ServeSettings) -> "Service | FollowerService":
    """Not started yet. Only what it needs is imported: a follower on every host has to be small."""
    if settings.follow:
        from duenotice.bootstrap.follower_service import FollowerService

        return FollowerService(settings)
    from duenotice.bootstrap.service import Service

    if settings.only or settings.follow_token_file:
        raise Misconfigured("only and follow_token_file are for followers.", hint="Say which node with --follow.")
    return Service(settings)
