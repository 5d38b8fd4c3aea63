"""The operator's client for programs without an event loop: verbs, lists and the live feed."""

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from duenotice.client.exchange import Show
from duenotice.client.operator.base import IN_PROCESS, Explain, as_it_is, context_of, feed_talk
from duenotice.client.operator.feed import FeedTalk, OnFound, OnLost
from duenotice.client.operator.listing import Listing
from duenotice.client.operator.place import chosen_place, chosen_token
from duenotice.client.operator.request import OperatorRequest, QueryValue
from duenotice.client.operator.socket_carrier import Carrier, Conversation, SocketCarrier
from duenotice.client.operator.talks import BUDGET_SECONDS, TIMEOUT_SECONDS, Ended, Manner, T, call
from duenotice.client.operator.verbs import Verbs
from duenotice.client.patience import Patience
from duenotice.errors import Refused
from duenotice.wire.operator import Record

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from ssl import SSLContext

    from duenotice.client.operator.in_process import App


class OperatorClient(Verbs):
    """Asks and operates one service.

    >>> with OperatorClient() as client:
    ...     for vm in client.vms(group="set/web"):
    ...         print(vm.name, vm.state)
    ...     client.restart_vm("web-0")

    By default it asks DUENOTICE_ENDPOINT or http://127.0.0.1:16926, with the token of DUENOTICE_TOKEN, of the file
    DUENOTICE_TOKEN_FILE, or of the default data directory. `timeout` seconds are for one try of a call, `budget` for
    all its tries; 0 means one try. Only what may be done twice is tried again: a GET, and a POST with an
    Idempotency-Key, which the client makes itself, and only if it may try again at all.

    Errors are those of `duenotice.errors`, with the service's own message and hint, and those on the way there: the
    tree and its statuses are in `duenotice.client.operator.errors`. `explain` is given each of them before it is
    raised and returns the one to raise: the place for other words, such as a hint for another door.

    May be used by several threads at once: each call has a connection to itself. Do not use it across a fork.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        budget: float = BUDGET_SECONDS,
        tls: "SSLContext | None" = None,
        explain: Explain = as_it_is,
    ) -> None:
        place = chosen_place(endpoint)
        carrier = SocketCarrier(place, chosen_token(token), context_of(place, tls))
        self._begin(carrier, place.url, Patience(timeout, budget), explain)

    @classmethod
    def in_process(
        cls,
        app: "App",
        token: str,
        loop: "AbstractEventLoop",
        *,
        timeout: float = TIMEOUT_SECONDS,
        explain: Explain = as_it_is,
    ) -> Self:
        """A client of a service in this process, whose loop runs in another thread; there is no network in between."""
        from duenotice.client.operator.in_process import BlockingAppCarrier

        client = cls.__new__(cls)
        client._begin(BlockingAppCarrier(app, token, loop), IN_PROCESS, Patience(timeout, 0), explain)
        return client

    def _begin(self, carrier: Carrier, where: str, patience: Patience, explain: Explain) -> None:
        self.endpoint = where
        self._carrier, self._explain, self._closed = carrier, explain, False
        self._manner = Manner(where, patience)

    def feed(
        self, after: int | None = None, *, on_lost: OnLost | None = None, on_found: OnFound | None = None
    ) -> "RecordFeed":
        """What happens, record by record, as it is committed: from a position of the journal on, or from now.

        A lost connection is tried again until it works, and goes on where it was lost; `on_lost` and `on_found` are
        told, each once. With `with client.feed() as feed:` nothing is missed from there on.
        """
        talk = feed_talk(self._manner, after, on_lost, on_found)
        return RecordFeed(talk, self._conversation())

    def close(self) -> None:
        """End all idle connections. The client cannot be used afterwards."""
        self._closed = True
        self._carrier.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, request: OperatorRequest[T]) -> T:
        value = self._conversation().carry(call(request, self._manner))
        assert not isinstance(value, Show)
        return value

    def _all(self, kind: type[T], *path: str, **query: QueryValue) -> Listing[T]:
        return Listing(self._do, kind, path, query)

    def _conversation(self) -> Conversation:
        if self._closed:
            raise Refused("This client is closed.", hint="Make a new one.")
        return Conversation(self._carrier, self._explain)


class RecordFeed:
    """An iterator of records; waits for the next one, and never ends by itself."""

    def __init__(self, talk: FeedTalk[Record], conversation: Conversation) -> None:
        self._talk, self._conversation, self._running = talk, conversation, talk.run()

    @property
    def position(self) -> int | None:
        """How far it has come in the journal: give it as `after` to go on there another day."""
        return self._talk.position

    def open(self) -> None:
        """Connect, if it is not yet connected: from then on nothing is missed."""
        if not self._talk.is_open:
            with suppress(Ended):
                self._conversation.carry(self._running)

    def close(self) -> None:
        """Listen no longer. Another thread that waits for the next record comes to the end of the feed."""
        self._conversation.end()

    def __enter__(self) -> "RecordFeed":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> "RecordFeed":
        return self

    def __next__(self) -> Record:
        self.open()
        try:
            shown = self._conversation.carry(self._running)
        except Ended:
            self._conversation.close()
            raise StopIteration from None
        if not isinstance(shown, Show):  # an error has ended it
            raise StopIteration
        record: Record = shown.shown
        return record
