"""The real `duenotice serve` as a process of its own, with everybody who talks to it; for tests of what it runs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from duenotice.wire.operator import Event, Record
from tests.crash.server import Server
from tests.support.node import SECONDS, Outside


class Served(Outside):
    """`with Served(data_dir, fleet, impact="command", …) as node:` — on a manual clock, unless told otherwise."""

    def __init__(self, data_dir: Path, fleet: Path, **settings: Any) -> None:
        self.server = Server(data_dir, fleet, **{"clock": "manual", **settings})

    def __enter__(self) -> "Served":
        try:
            self.server.wait_until_serving()
        except BaseException:
            self.__exit__()
            raise
        self.metadata_address, self.operator_address = self.server.metadata, self.server.operator
        self.token = self.server.token
        return self

    def __exit__(self, *_: object) -> None:
        if self.server.alive():
            self.server.stop()

    def address(self, vm: str) -> str:
        """The source address of a VM by its name."""
        with self.client() as client:
            return client.vm(vm).address

    def history(self, event_id: str) -> list[Record]:
        """All records of an event."""
        with self.client() as client:
            return list(client.event_history(event_id))

    def live(self) -> list[Event]:
        """All events that are not over."""
        with self.client() as client:
            return list(client.events())

    def end_of(self, event_id: str) -> str:
        """What became of an event, once it is over."""
        wait_until(lambda: not any(event.id == event_id for event in self.live()))
        return self.history(event_id)[-1].action


def wait_until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)
