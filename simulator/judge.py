"""Judges the answers that clients and operators got: what was promised to them, and what was refused.

S5, S6: what was answered as done is stored and stays; what was refused left nothing; what timed out came at most once.
S16, S17: approvals of one's own events count once, those of foreign ones never; foreign and unknown ids look alike.
S23: no request, however odd, is answered with a failure of the service.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from duenotice.domain import records as t
from duenotice.domain.plan import Status
from duenotice.domain.records import Record
from duenotice.http.fetch import HttpAnswer
from simulator.observatory import Observatory


class Judge:
    """Is told of answers, and follows the records."""

    def __init__(self, observatory: Observatory, broken: Callable[[str], None]) -> None:
        self._observatory, self._broken = observatory, broken
        self._scopes: dict[str, set[str]] = defaultdict(set)
        self._event_scopes: dict[str, set[str]] = defaultdict(set)
        self._approved: set[str] = set()
        self.gone: set[str] = set()
        self._looks: set[tuple[int, bytes]] = set()
        self._raised: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._refused: set[str] = set()
        self.promised_events: set[str] = set()
        self.promised_plans: set[str] = set()
        self.plans: set[str] = set()
        self._resting: set[str] = set()
        self.answers: Counter[int] = Counter()
        observatory.on_record.append(self.follow)
        observatory.on_stored.append(self.settle)

    def forget(self) -> None:
        """The store has lost its last commits, or an older one was put in place: it cannot keep what it lost."""
        self.promised_events, self.promised_plans = set(), set()
        self._raised.clear()
        self.plans.clear()
        self._resting.clear()

    def follow(self, record: Record) -> None:
        """A record that VMs can see now."""
        match record.transition:
            case t.VmsPut(vms):
                for vm in vms:
                    scope = vm.group if vm.placement_group is None else f"{vm.group}/{vm.placement_group}"
                    self._scopes[vm.address].add(scope or f"vm/{vm.name}")
            case t.EventRaised(event):
                self._event_scopes[event.id].add(event.scope)
                self._mark(event.description, event.resources)
            case t.EventMoved(event) | t.EventNarrowed(event):
                self._event_scopes[event.id].add(event.scope)
            case t.MaintenanceChanged(plan_id, status):
                self._resting.discard(plan_id)
                if status is not Status.RUNNING:
                    self._resting.add(plan_id)
            case t.StepBegun(plan_id) if plan_id in self._resting:
                self._broken(f"G01: the maintenance {plan_id} is paused or over, and begins another step")
            case t.MaintenanceStarted(plan):
                self.plans.add(plan.id)
                self._mark(plan.description or "", ())

    def settle(self, record: Record) -> None:
        """A record that is stored; it may be answered as done before it is seen."""
        match record.transition:
            case t.EventRaised(event):
                self._event_scopes[event.id].add(event.scope)
                if event.approved_by or event.started_at is not None or event.is_advice:
                    self._approved.add(event.id)
            case t.EventApproved(event_id):
                self._approved.add(event_id)
            case t.EventStarted(event):
                self._approved.add(event.id)
            case t.EventCompleted(event_id) | t.EventCancelled(event_id) | t.EventFailed(event_id):
                self.gone.add(event_id)

    def _mark(self, description: str, resources: tuple[str, ...]) -> None:
        """Each act of an operator says its number, so it can be told what came of it."""
        if not description.startswith(("plan ", "event ")):
            return
        self._raised[description, resources] += 1
        is_once = description.startswith("event ") or not resources  # a plan raises as many events as it needs
        if is_once and self._raised[description, resources] > 1:
            self._broken(f"S6: {description!r} was asked for once and came twice")
        if description in self._refused:
            self._broken(f"S6: {description!r} was refused, and came nevertheless")

    # --- what VMs were answered ---

    def approved(self, address: str, event_ids: Sequence[str], status: int, body: bytes) -> None:
        """An approval was answered; 0: it was not."""
        self.answers[status] += 1
        if status == 200:
            for event_id in event_ids:
                self._check_approved(address, event_id)
        elif 400 <= status < 429 and len(event_ids) == 1 and b"registered with the address" not in body:
            look = body.replace(event_ids[0].encode(), b"...")
            self._looks.add((status, look))
        elif status == 500:
            self._broken(f"S23: {address} approves {event_ids} and is answered {body!r}")

    def _check_approved(self, address: str, event_id: str) -> None:
        if event_id not in self._event_scopes:
            self._broken(f"S16: {address} approved {event_id}, which never was, and was told that it did")
        elif not self._scopes[address] & self._event_scopes[event_id]:
            self._broken(f"S16: {address} approved {event_id} of {self._event_scopes[event_id]}")
        elif event_id not in self._approved | self.gone:
            self._broken(f"S17: {address} approved {event_id} and was told so, but it still waits")

    # --- what operators were answered ---

    def answered(self, mark: str, method: str, target: str, answer: HttpAnswer) -> Any:
        """An operator was answered; the JSON of the answer."""
        self.answers[answer.status] += 1
        if answer.status >= 500 and answer.status != 503:
            self._broken(f"S23: {method} {target} is answered {answer.status} {answer.body[:300]!r}")
        try:
            value = json.loads(answer.body) if answer.body else None
        except ValueError:
            self._broken(f"S23: {method} {target} is answered with {answer.body[:300]!r}")
            return None
        if 400 <= answer.status < 500 and mark:
            self._refuse(mark)
        if answer.status in (200, 201) and method != "GET" and isinstance(value, dict):
            self._promise(target, value)
            self._check_event(target)
        return value

    def _refuse(self, mark: str) -> None:
        self._refused.add(mark)
        if any(said == mark for said, _ in self._raised):
            self._broken(f"S6: {mark!r} was refused, and has had effects")

    def _promise(self, target: str, value: dict[str, Any]) -> None:
        if "events" in value:
            self.promised_events |= {event["id"] for event in value["events"]}
        elif "steps" in value and "id" in value:
            self.promised_plans.add(value["id"])

    def _check_event(self, target: str) -> None:
        """S17, S19: an event that was cancelled or approved, as an operator was told, is so."""
        _, _, rest = target.partition("/v1/events/")
        event_id, _, verb = rest.partition("/")
        if verb == "cancel" and event_id not in self.gone:
            self._broken(f"S19: {event_id} was answered as cancelled, and is still there")
        if verb == "approve" and event_id not in self._approved | self.gone:
            self._broken(f"S17: {event_id} was answered as approved, and still waits")

    def check_promises(self) -> None:
        """S5: all that was answered as done is stored."""
        changes = [each.record.transition for each in self._observatory.log.values()]
        stored = {change.event.id for change in changes if isinstance(change, t.EventRaised)}
        if missing := sorted(self.promised_events - stored):
            self._broken(f"S5: the events {missing} were answered as raised, and are not stored")
        if missing := sorted(self.promised_plans - self.plans):
            self._broken(f"S5: the maintenances {missing} were answered as begun, and are not stored")

    def check_looks(self) -> None:
        """S16: all refused approvals looked the same."""
        if len(self._looks) > 1:
            self._broken(f"S16: refused approvals look different: {sorted(self._looks)}")
