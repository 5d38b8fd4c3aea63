"""The line between a node and its database: it can be cut, stand still, be slow, lose an answer or all news."""

import select
import socket
import threading
import time
from contextlib import suppress


class Line:
    """What comes in is carried to the server's socket, which is in a folder."""

    def __init__(self, listening: socket.socket, server: str) -> None:
        self._to = f"{server}/.s.PGSQL.5432"
        self.is_cut = self.loses_next_answer = self.is_deaf = False
        self.delay = 0.0
        self.lost = 0
        self._moves = threading.Event()
        self._moves.set()
        self._ends: set[socket.socket] = set()
        self._listening = listening
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """All connections break, and no new one is made."""
        self.is_cut = True
        for end in list(self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        """Nothing gets through, and nobody is told."""
        self._moves.clear()

    def mend(self) -> None:
        """As good as new; what was held gets through now."""
        self.is_cut, self.delay, self.loses_next_answer, self.is_deaf = False, 0.0, False, False
        self._moves.set()

    def close(self) -> None:
        self.mend()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                if self.is_cut:
                    client.close()
                else:
                    threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        self._ends.add(client)
        with client, server, suppress(OSError):
            server.connect(self._to)
            self._carry_on(client, server)
        self._ends.discard(client)

    def _carry_on(self, client: socket.socket, server: socket.socket) -> None:
        is_append = is_ear = False
        while True:
            for end in select.select([client, server], [], [])[0]:
                data = end.recv(65536)
                self._moves.wait()
                time.sleep(self.delay)
                if not data or self.is_cut:
                    return
                is_ear = is_ear or b"LISTEN duenotice" in data
                if end is server and is_ear and self.is_deaf:
                    continue
                if end is server and is_append and self.loses_next_answer:
                    self.loses_next_answer, self.lost = False, self.lost + 1
                    return
                # Only the first times: then the statement is prepared, and has another name.
                is_append = is_append or b"duenotice.append" in data
                (server if end is client else client).sendall(data)
