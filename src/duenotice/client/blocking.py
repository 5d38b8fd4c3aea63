"""The client for programs without an event loop: runs the talks over plain sockets and decides nothing."""

import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, assert_never

from duenotice.client.asking import Asker
from duenotice.client.base import PIECE, ClientBase, ids_of, left
from duenotice.client.contract import name_in
from duenotice.client.endpoint import Address, locate
from duenotice.client.exchange import Close, Connect, Receive, Send, Show, Sleep, Step, T, Talk
from duenotice.client.watching import OnError, Watch
from duenotice.wire.seen_document import SeenDocument, SeenEvent


class MetadataClient(ClientBase["_Line"]):
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
                yield step.document

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
    def _line(self) -> Iterator["_Line"]:
        """A connection for one call; kept for the next one unless something went wrong with it."""
        address, _ = self._located()
        line = self._idle.pop() if self._idle else _Line(address, self._source)
        try:
            yield line
        except BaseException:
            line.close()
            raise
        self._keep(line)


class _Line:
    """A connection that does what a talk says."""

    def __init__(self, address: Address, source: tuple[str, int] | None) -> None:
        self._address = address
        self._source = source
        self._socket: socket.socket | None = None

    def carry(self, talk: Talk[T]) -> Show | T:
        """Carry a talk to its end, or to the next document it shows."""
        reply, failure = None, None
        while True:
            try:
                step = talk.send(reply) if failure is None else talk.throw(failure)
            except StopIteration as end:
                value: T = end.value
                return value
            if isinstance(step, Show):
                return step
            try:
                reply, failure = self._do(step), None
            except OSError as error:
                failure = error

    def _do(self, step: Step) -> Any:
        match step:
            case Connect(deadline, reuse):
                return self._connect(deadline, reuse)
            case Send(data, deadline):
                return self._open(deadline).sendall(data)
            case Receive(deadline):
                return self._open(deadline).recv(PIECE)
            case Close():
                return self.close()
            case Sleep(seconds):
                return time.sleep(seconds)
            case Show():
                return None
            case _:
                assert_never(step)

    def _connect(self, deadline: float, reuse: bool) -> bool:
        if reuse and self._is_quiet():
            return True
        self.close()
        self._socket = socket.create_connection(self._address, left(deadline), self._source)
        return False

    def _is_quiet(self) -> bool:
        """Whether the connection is open and quiet: it has not ended, and no unexpected bytes have come."""
        if self._socket is None:
            return False
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _open(self, deadline: float) -> socket.socket:
        if self._socket is None:
            raise ConnectionError("not connected")
        self._socket.settimeout(left(deadline))
        return self._socket

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
