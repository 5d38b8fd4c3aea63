"""What the two operator's clients share besides their talks: how they are made, and how their errors are told."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from duenotice.client.operator.feed import FeedTalk, OnFound, OnLost
from duenotice.client.operator.place import Place
from duenotice.client.operator.request import get
from duenotice.client.operator.talks import Manner
from duenotice.errors import DuenoticeError
from duenotice.wire.operator import Record

if TYPE_CHECKING:
    from ssl import SSLContext

IN_PROCESS = "the operator's API of this process"

Explain = Callable[[DuenoticeError], DuenoticeError]
"""Says an error in other words: each error of a client goes through it before it is raised."""


def as_it_is(error: DuenoticeError) -> DuenoticeError:
    """In the words of the service and of this client."""
    return error


def context_of(place: Place, tls: "SSLContext | None") -> "SSLContext | None":
    """How to check who answers: as given, or against the certificates that this machine trusts."""
    if not place.secure or tls is not None:
        return tls if place.secure else None
    from ssl import create_default_context  # costs milliseconds that plain HTTP should not pay

    return create_default_context()


def feed_talk(manner: Manner, after: int | None, on_lost: OnLost | None, on_found: OnFound | None) -> FeedTalk[Record]:
    """The feed from a position on, or from now."""
    talk = FeedTalk(get(Record, "feed", after=after), manner)
    talk.on_lost, talk.on_found = on_lost or talk.on_lost, on_found or talk.on_found
    return talk
