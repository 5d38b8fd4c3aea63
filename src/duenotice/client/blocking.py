"""The client for programs without an event loop: runs the talks over plain sockets and decides nothing."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from duenotice.client.base import ClientBase, ids_of
from duenotice.client.contract import name_in
from duenotice.client.endpoint import Address, locate
from duenotice.client.exchange import Show, T, Talk
from duenotice.client.metadata_talks import Asker
from duenotice.client.socket_line import SocketLine
from duenotice.client.watch_talk import OnError, Watch
from duenotice.wire.seen_documents import SeenDocument, SeenEvent


class MetadataClient(ClientBase[SocketLine]):
    """Asks the metadata service of the VM it runs on.

    >>> with MetadataClient() as client:
    ...     me = client.instance_name()
    ...     for document in client.watch():
    ...         mine = [event for event in document.events if event.hits(me)]

    Every verb raises a `MetadataError` when it fails; see `duenotice.client.errors`. May be used by several threads
    at once: each call has a connection to itself. Do not use it across a fork.
    """

    def document(self) -> SeenDocument:
        """All events this VM is told of, now."""
        return self._carry(self._asker().document())

    def watch(self, on_error: OnError | None = None) -> Generator[SeenDocument, None, None]:
        """The document, and then each one that differs from the last; waits in between.

        Errors are retried as in `document()`; one that stays is raised and ends the watch. With `on_error` it is
        given to that instead, and the watch goes on.
        """
        talk = Watch(self._asker(), on_error).run()
        with self._line() as line:
            while isinstance(step := line.carry(talk), Show):
                yield step.shown

    def approve(self, *events: SeenEvent | str) -> None:
        """Let these events start now, for all the VMs they hit (C04). Approving again does no harm."""
        self._carry(self._asker().approve(ids_of(events)))

    def instance(self) -> dict[str, Any]:
        """All that the service knows of this VM."""
        return self._carry(self._asker().instance())

    def instance_name(self) -> str:
        """This VM's name, as `resources` has it."""
        return name_in(self.instance())

    def close(self) -> None:
        """End all idle connections. The client cannot be used afterwards."""
        self._end_all()

    def __enter__(self) -> "MetadataClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _asker(self) -> Asker:
        return self._located()[1]

    def _located(self) -> tuple[Address, Asker]:
        self._check_open()
        return self._known or self._found(locate(self._endpoint, self._patience.budget))

    def _carry(self, talk: Talk[T]) -> T:
        with self._line() as line:
            value = line.carry(talk)
            assert not isinstance(value, Show)
            return value

    @contextmanager
    def _line(self) -> Iterator[SocketLine]:
        """A connection for one call; kept for the next one unless something went wrong with it."""
        address, _ = self._located()
        line = self._idle.pop() if self._idle else SocketLine(address, self._source)
        try:
            yield line
        except BaseException:
            line.close()
            raise
        self._keep(line)
