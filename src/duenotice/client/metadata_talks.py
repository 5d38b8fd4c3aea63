"""The verbs of a client as talks: negotiation, retries within the notice, and the watch. Pure, except for the clock."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from duenotice.client.contract import (
    EVENTS_PATH,
    INSTANCE_PATH,
    check_approved,
    document_in,
    get_request,
    instance_in,
    post_request,
)
from duenotice.client.errors import MetadataError
from duenotice.client.exchange import T, Talk, exchange
from duenotice.client.patience import DICE, IsWanted, Patience, always, persistently
from duenotice.client.versions import EVENT_VERSIONS, INSTANCE_VERSIONS, Choice, Search
from duenotice.clock import monotonic, wall
from duenotice.http.http1 import Response
from duenotice.wire.seen_documents import SeenDocument, encode_start_requests

_ANSWERED = (200, 304)


@dataclass(slots=True)
class Asker:
    """What a client knows of its service, and how it asks."""

    host: str
    patience: Patience = field(default_factory=Patience)
    events: Choice = field(default_factory=lambda: Choice(EVENT_VERSIONS))
    instances: Choice = field(default_factory=lambda: Choice(INSTANCE_VERSIONS))
    now: Callable[[], float] = monotonic
    dice: Callable[[], float] = DICE
    time_of_day: Callable[[], datetime] = wall
    date: str = ""
    """The Date of the last answer."""
    dated_at: datetime | None = None
    """When that answer came, by our own clock: the two may differ."""
    read_at: float | None = None
    """When a document was last read, in seconds of `now`; one that says what the last one said counts too."""

    def document(self, failed: MetadataError | None = None) -> Talk[SeenDocument]:
        """The document as it is now; `failed` is a try that was made before."""
        return self._persistently(self.read_once, failed)

    def approve(self, event_ids: Iterable[str], is_wanted: IsWanted = always) -> Talk[None]:
        """Let these events start. An unclear failure is tried again, because approving twice does no harm (S17)."""
        body = encode_start_requests(event_ids)

        def attempt(deadline: float) -> Talk[None]:
            _, response = yield from self._negotiated(
                self.events, lambda version: post_request(self.host, version, body), deadline
            )
            check_approved(response)

        return self._persistently(attempt, is_wanted=is_wanted)

    def instance(self) -> Talk[dict[str, object]]:
        """What the service says of the VM."""

        def attempt(deadline: float) -> Talk[dict[str, object]]:
            _, response = yield from self._negotiated(
                self.instances, lambda version: get_request(self.host, INSTANCE_PATH, version), deadline
            )
            return instance_in(response)

        return self._persistently(attempt)

    def read_once(self, deadline: float) -> Talk[SeenDocument]:
        """One try at the document."""
        version, response = yield from self.poll_once(deadline)
        return document_in(response, version)

    def poll_once(self, deadline: float, wait: str = "", tag: str = "") -> Talk[tuple[str, Response]]:
        """One try at the document, held by the service if it can. Returns its version and the raw answer."""
        return self._negotiated(
            self.events, lambda version: get_request(self.host, EVENTS_PATH, version, wait, tag), deadline
        )

    def _negotiated(
        self, choice: Choice, request: Callable[[str], bytes], deadline: float
    ) -> Talk[tuple[str, Response]]:
        """Ask in the version that works, going down when the service is older than we are."""
        search = Search(choice)
        first = response = yield from exchange(request(search.version), deadline)
        while response.status not in _ANSWERED:
            if not search.next(response):
                return choice.current, first if response.status in (400, 404) else response
            response = yield from exchange(request(search.version), deadline)
        if search.blind:  # was it the version, or a problem that has passed?
            again = yield from exchange(request(choice.current), deadline)
            if again.status in _ANSWERED:
                search.version, response = choice.current, again
        choice.worked(search.version)
        self.date, self.dated_at = response.headers.get("date", ""), self.time_of_day()
        return search.version, response

    def _persistently(
        self, attempt: Callable[[float], Talk[T]], failed: MetadataError | None = None, is_wanted: IsWanted = always
    ) -> Talk[T]:
        """Try until it works, the budget is used up, or trying again cannot help; `failed` is a try made before."""
        return persistently(attempt, _least_pause, self.patience, self.now, self.dice, failed, is_wanted)


def _least_pause(error: Exception) -> float | None:
    if not isinstance(error, MetadataError) or not error.transient:
        return None
    return max(error.retry_after or 0.0, error.least_pause)
