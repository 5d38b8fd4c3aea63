"""VMs that hold a poll with `wait=` for as long as they live, each on one connection that stays open."""

import json
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.support.node import Answer, Line, events_at
from tests.support.served import Served

WAIT = "30s"


class Holder:
    """One VM: asks with the document it has, and asks again as soon as it is answered."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self.document: dict[str, Any] = {}
        self._etag = '"0"'

    def hold(self) -> None:
        """Ask for news."""
        target = f"GET {events_at()}&wait={WAIT} HTTP/1.1"
        lines = (target, "Host: 169.254.169.254", "Metadata: true", f"If-None-Match: {self._etag}", "", "")
        self._line.send("\r\n".join(lines).encode())

    def hear(self) -> None:
        """Take the answer that has come, and hold the next poll."""
        self._take(self._line.answer())
        self.hold()

    def fileno(self) -> int:
        """For `select`."""
        return self._line.fileno()

    def knows_of(self, vm: str) -> bool:
        """Whether its document has an event that hits a VM."""
        return any(vm in event["Resources"] for event in self.document.get("Events", ()))

    def _take(self, answer: Answer) -> None:
        assert answer.status in (200, 304), answer
        self._etag = answer.headers["etag"]
        if answer.status == 200:
            self.document = json.loads(answer.body)


@contextmanager
def holding(node: Served, *names: str) -> Iterator[dict[str, Holder]]:
    """VMs by name, each of which holds a poll with the tag of a document that never had an event."""
    with ExitStack() as stack:
        holders = {name: Holder(stack.enter_context(node.connect(name))) for name in names}
        for holder in holders.values():
            holder.hold()
        settle(node, holders)
        yield holders


def settle(node: Served, holders: Mapping[str, Holder]) -> None:
    """Return when everybody has heard what was sent, and the service has read what everybody has asked."""
    ready = [*holders.values()]
    while ready:
        # The service reads connections in the order in which bytes came: once it answers these, it has read the others.
        for _ in range(2):
            node.get(next(iter(holders)))
        ready = select.select([*holders.values()], [], [], 0.0)[0]
        for holder in ready:
            holder.hear()


def untold(holders: Mapping[str, Holder], of: Mapping[str, str], seconds: float) -> list[str]:
    """Who has not been told within so long, where `of` says for each VM whose event it must know of."""
    until = time.monotonic() + seconds
    while missing := sorted(name for name in of if not holders[name].knows_of(of[name])):
        left = until - time.monotonic()
        ready = select.select([*holders.values()], [], [], max(0.0, left))[0]
        if not ready:
            return missing
        for holder in ready:
            holder.hear()
    return []
