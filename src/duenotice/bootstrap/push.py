"""The pusher that the settings ask for; settings that are wrong are refused before anything begins."""

import ssl
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial

from duenotice.domain.subscribing import MOST_SUBSCRIPTIONS
from duenotice.engine.engine import Engine
from duenotice.errors import Misconfigured
from duenotice.push.addresses import AllowedAddresses
from duenotice.push.office import PushOffice
from duenotice.push.pusher import Pusher, PushTerms
from duenotice.push.receiver import PushRoads
from duenotice.settings import ServeSettings


def check(settings: ServeSettings) -> None:
    """Refuse networks that are not valid, and a CA that cannot be used."""
    _allowed(settings)
    if settings.push_ca_file:
        _trust(settings.push_ca_file)


def pusher_of(settings: ServeSettings, engine: Engine) -> Pusher:
    """It delivers when it is started."""
    roads = PushRoads(
        _allowed(settings),
        partial(_trust, settings.push_ca_file),
        settings.push_timeout,
        ThreadPoolExecutor(MOST_SUBSCRIPTIONS, thread_name_prefix="push-resolver"),
    )
    return Pusher(engine, PushOffice(roads), PushTerms(settings.push_retry_after))


def _allowed(settings: ServeSettings) -> AllowedAddresses:
    return AllowedAddresses(settings.push_allow.replace(",", " ").split())


@cache  # it takes a while to read the system's, and most services need none
def _trust(path: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path or None)
    except (OSError, ValueError) as error:
        raise Misconfigured(f"push_ca_file: cannot use {path}: {error}.", hint="It must be in PEM.") from None
