"""What the two clients share in addition to the talks: how they are made, and connections that stay open."""

from contextlib import suppress
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from duenotice.client.endpoint import Address, chosen_endpoint
from duenotice.client.line import MOST_IDLE
from duenotice.client.metadata_talks import Asker
from duenotice.client.patience import BUDGET_SECONDS, TIMEOUT_SECONDS, Patience
from duenotice.client.versions import Choice, chosen_versions
from duenotice.errors import Malformed, Refused
from duenotice.wire.seen_documents import SeenEvent
from duenotice.wire.spans import parse_time


class Closable(Protocol):
    """A connection."""

    def close(self) -> None:
        """End it."""


L = TypeVar("L", bound=Closable)


class ClientBase(Generic[L]):
    """A client before it has asked anything."""

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        budget: float = BUDGET_SECONDS,
        api_version: str | None = None,
        source_address: str | None = None,
        advice: bool = False,
    ) -> None:
        """By default it asks 169.254.169.254, in the newest api-version that both sides know.

        `timeout` seconds are for one try, `budget` for all tries of a call (0: one); `source_address` is where to ask
        from on a machine with several. With `advice` it also asks for SpotRebalanceRecommendation, which most services
        do not have: then it goes on without.
        """
        self._endpoint = chosen_endpoint(endpoint)
        self._patience = Patience(timeout, budget)
        self._source = None if source_address is None else (source_address, 0)
        self._versions = chosen_versions(api_version, advice)
        self._known: tuple[Address, Asker] | None = None
        self._idle: list[L] = []
        self._closed = False

    @property
    def service_time(self) -> datetime | None:
        """What time it was at the service when it last answered, in whole seconds; None before it has."""
        with suppress(Malformed):
            return parse_time(self._known[1].date) if self._known and self._known[1].date else None
        return None

    @property
    def seconds_unread(self) -> float | None:
        """For how long `watch` has read no document; None before it has read one."""
        if self._known is None or self._known[1].read_at is None:
            return None
        return self._known[1].now() - self._known[1].read_at

    @property
    def service_ahead(self) -> float | None:
        """By how many seconds the service's clock was ahead of ours when it last told the time; None before it did.

        It tells whole seconds only, so one second does not count as a difference.
        """
        theirs, ours = self.service_time, self._known[1].dated_at if self._known else None
        if theirs is None or ours is None:
            return None
        seconds = (theirs - ours).total_seconds()
        return 0.0 if -1.0 <= seconds <= 0.0 else seconds

    def _found(self, address: Address) -> tuple[Address, Asker]:
        self._known = address, Asker(address.header, self._patience, Choice(self._versions))
        return self._known

    def _check_open(self) -> None:
        if self._closed:
            raise Refused("This client is closed.", hint="Make a new one.")

    def _keep(self, line: L) -> None:
        if self._closed or len(self._idle) >= MOST_IDLE:
            line.close()
        else:
            self._idle.append(line)

    def _end_all(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def ids_of(events: tuple[SeenEvent | str, ...]) -> list[str]:
    """What to approve, without advice, which is not a deadline. An empty list is a mistake of the caller."""
    ids = [event if isinstance(event, str) else event.event_id for event in events if not _is_advice(event)]
    if not ids:
        hint = "Advice needs no approval." if events else "Give at least one event or EventId."
        raise Refused("There is nothing to approve.", hint=hint)
    return ids


def _is_advice(event: SeenEvent | str) -> bool:
    return not isinstance(event, str) and event.is_advice
