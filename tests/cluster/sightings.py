"""What VMs have read at all nodes, and what must hold of it (S2, S3, S4, S7, S27)."""

import json
import threading
from collections import defaultdict
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

_ORDER = {"Scheduled": 0, "Started": 1}


class Sightings:
    """One history for each scope, whichever node was asked. Any thread may add to it."""

    def __init__(self) -> None:
        self.polls = self.refused = self.failed = 0
        self.wrong: list[str] = []
        self.slowest = 0.0
        self._lock = threading.Lock()
        self._newest: dict[str, int] = defaultdict(int)
        self.documents: dict[str, dict[int, bytes]] = defaultdict(dict)

    def newest(self, scope: str) -> int:
        """The newest incarnation that anybody has read by now: a poll that begins now must not read an older one."""
        with self._lock:
            return self._newest[scope]

    def saw(self, scope: str, node: str, floor: int, body: bytes) -> None:
        """A poll that began when `floor` was the newest has read this (S3, S4, S27)."""
        incarnation = json.loads(body)["DocumentIncarnation"]
        with self._lock:
            self.polls += 1
            if incarnation < floor:
                self.wrong.append(f"S27: {node} showed {scope} at {incarnation} after {floor} was read")
            if (first := self.documents[scope].setdefault(incarnation, body)) != body:
                told = f"S4: {node} showed another document of {scope} at {incarnation}: {body!r}, not {first!r}"
                self.wrong.append(told)
            self._newest[scope] = max(self._newest[scope], incarnation)

    def missed(self, status: int) -> None:
        """A poll got no document."""
        with self._lock:
            self.refused += status != 0
            self.failed += status == 0
            if status not in (0, 503):
                self.wrong.append(f"a poll was answered with {status}")

    def check(self) -> None:
        """All that was seen so far is one history of each scope."""
        with self._lock:
            wrong = [*self.wrong]
            for scope, documents in self.documents.items():
                wrong += _misfits(scope, dict(sorted(documents.items())))
        assert not wrong, "\n".join(wrong[:5])


def _time(event: dict[str, Any]) -> datetime:
    """When a scheduled event may start; a started one has no time any more."""
    return parsedate_to_datetime(event["NotBefore"]) if event["NotBefore"] else datetime.max.replace(tzinfo=UTC)


def _misfits(scope: str, documents: dict[int, bytes]) -> list[str]:
    wrong: list[str] = []
    before: dict[str, Any] = {}
    gone: set[str] = set()
    last = -1
    for incarnation, body in documents.items():
        events: dict[str, Any] = {event["EventId"]: event for event in json.loads(body)["Events"]}
        if incarnation == last + 1 and last >= 0 and events == before:
            wrong.append(f"S4: {scope} went from {last} to {incarnation} although nothing changed")
        wrong += [f"S7: {event} of {scope} came back at {incarnation}" for event in events.keys() & gone]
        wrong += [
            f"S7: {event} of {scope} went back to {seen['EventStatus']} at {incarnation}"
            for event, seen in events.items()
            if event in before and _ORDER[seen["EventStatus"]] < _ORDER[before[event]["EventStatus"]]
        ]
        wrong += [
            f"S2: {event} of {scope} moved from {before[event]['NotBefore']} to {seen['NotBefore']} at {incarnation}"
            for event, seen in events.items()
            if event in before and _time(seen) < _time(before[event])
        ]
        gone |= before.keys() - events.keys()
        before, last = events, incarnation
    return wrong
