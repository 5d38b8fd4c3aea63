"""What clients were told, kept outside the server, and held against it whenever it has come back.

The rule is simple: an answer binds. What got no answer may have happened, once; when the server is back the ledger
looks which it was, and from then on that binds too.
"""

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any

from tests.crash.server import STARTED_LASTS

SHORTEST_NOTICE = 600.0
REMEMBERED = 500
"""Incarnations of each scope whose bytes are kept: far more than go by between two kills."""
_TOLERANCE = 0.05


@dataclass
class Promise:
    """An event the server has answered for; `approvals` are when those were sent that were not refused."""

    scope: str
    raised: float = field(default_factory=monotonic)
    approvals: list[float] = field(default_factory=list)
    approved: bool = False
    cancels_in_doubt: int = 0

    def may_be_over(self) -> bool:
        """Whether it can have started, and ended, since."""
        begun = min(self.approvals, default=self.raised + SHORTEST_NOTICE)
        return monotonic() >= begun + STARTED_LASTS - _TOLERANCE


class Ledger:
    """All promises of one server through all its lives; safe to use from every client thread."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.answers: Counter[str] = Counter()
        self._lock = Lock()
        self._live: dict[str, Promise] = {}
        self._gone: set[str] = set()
        self._unanswered: Counter[str] = Counter()
        self._incarnations: dict[str, int] = {}
        self._bytes: dict[tuple[str, str], dict[int, bytes]] = {}

    # While clients are at work

    def live(self, scope: str = "") -> list[str]:
        """Events that are not known to be gone, of one scope or all."""
        with self._lock:
            return [event_id for event_id, known in self._live.items() if scope in ("", known.scope)]

    def waiting(self) -> list[str]:
        """Events that nobody was told to have approved."""
        with self._lock:
            return [event_id for event_id, known in self._live.items() if not known.approved]

    def raised(self, key: str, events: list[dict[str, Any]] | None) -> None:
        """An ask that raises an event was answered with it, or not at all; `key` tells the ask from others."""
        with self._lock:
            if events is None:
                self._unanswered[key] += 1
            for event in events or ():
                self.answers["raised"] += 1
                self._live[event["id"]] = Promise(event["scope"])
                if event["approved_by"] or event["phase"] != "scheduled":
                    self.broken.append(f"VMs listen, but their event goes ahead without them: {event}")

    def approving(self, event_id: str) -> float:
        """An approval is on its way; give back the time when its answer is there."""
        with self._lock:
            sent = monotonic()
            if known := self._live.get(event_id):
                known.approvals.append(sent)
            return sent

    def approved(self, event_id: str, sent: float, accepted: bool) -> None:
        """An approval was answered."""
        with self._lock:
            self.answers["approved" if accepted else "not approved"] += 1
            if known := self._live.get(event_id):
                known.approved |= accepted
                known.approvals = [each for each in known.approvals if accepted or each != sent]

    def cancelling(self, event_id: str) -> None:
        """A cancel is on its way."""
        with self._lock:
            if known := self._live.get(event_id):
                known.cancels_in_doubt += 1

    def cancelled(self, event_id: str, accepted: bool) -> None:
        """A cancel was answered."""
        with self._lock:
            self.answers["cancelled" if accepted else "not cancelled"] += 1
            if known := self._live.get(event_id):
                known.cancels_in_doubt -= 1
            if accepted:
                self._live.pop(event_id, None)
                self._gone.add(event_id)

    def read(self, vm: str, scope: str, version: str, incarnation: int, body: bytes) -> None:
        """A VM was shown a document; calls for one VM come in the order of its polls (S3, S4)."""
        with self._lock:
            self.answers["read"] += 1
            highest = self._incarnations.get(vm, 0)
            if incarnation < highest:
                self.broken.append(f"{vm} had seen incarnation {highest} and was shown {incarnation}")
            self._incarnations[vm] = max(highest, incarnation)
            pages = self._bytes.setdefault((scope, version), {})
            known = pages.setdefault(incarnation, body)
            if known != body:
                self.broken.append(f"{scope} at {incarnation} in {version} was {known!r} and became {body!r}")
            if len(pages) > REMEMBERED:
                del pages[next(iter(pages))]

    def unexpected(self, what: str) -> None:
        """Something that no client should ever meet."""
        with self._lock:
            self.broken.append(what)

    # When the server is back and nobody else is asking

    def settle(self, listed: list[dict[str, Any]]) -> None:
        """Hold the server's list of live events against everything it has answered (S5, S6, S7)."""
        with self._lock:
            there = {event["id"]: event for event in listed}
            for event_id in self._live.keys() - there.keys():
                self._settle_missing(event_id, self._live.pop(event_id))
            for event_id, event in there.items():
                if event_id in self._gone:
                    self.broken.append(f"it was gone and is back: {event}")
                elif event_id in self._live:
                    self._settle_known(event, self._live[event_id])
                else:
                    self._settle_unanswered(event)
            self._unanswered.clear()

    def _settle_missing(self, event_id: str, known: Promise) -> None:
        self._gone.add(event_id)
        if not known.cancels_in_doubt and not known.may_be_over():
            self.broken.append(f"{event_id} was answered for and is lost: {known}")

    def _settle_known(self, event: dict[str, Any], known: Promise) -> None:
        """What was in doubt is so no longer: either it shows, or it never happened."""
        moved_on = event["phase"] == "started" or event["approved_by"] is not None
        if known.approved and not moved_on:
            self.broken.append(f"it was approved, which is lost: {event}")
        known.cancels_in_doubt = 0
        known.approved = moved_on
        known.approvals = known.approvals if moved_on else []

    def _settle_unanswered(self, event: dict[str, Any]) -> None:
        key = key_of(event)
        if not self._unanswered[key]:
            self.broken.append(f"nobody asked for this, or it was raised twice: {event}")
        self._unanswered[key] -= 1
        self.answers["raised, but nobody was told"] += 1
        self._live[event["id"]] = Promise(event["scope"])


def key_of(event: dict[str, Any]) -> str:
    """Tells which ask an event came of: each schedule has a description of its own, restarts are told by their VM."""
    return f"restart {event['resources'][0]}" if event["cause"] == "user" else str(event["description"])
