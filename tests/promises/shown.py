"""S10 and S11 as a VM could check them: from nothing but the documents and from where VMs are declared to stand.

They hold where no VM changes its update domain while an event hits it; the fleet of `rollout` keeps to that.
"""

from typing import Any

from duenotice.domain import records as t
from duenotice.domain.window import Window, WindowSpan
from simulator.history import Moment, scope_of

FAILURE = "Virtual machine has encountered a failure."
MAINTENANCE = ("Freeze", "Reboot", "Redeploy")


class _Domains:
    """The update domain of every VM that ever was."""

    def __init__(self) -> None:
        self._domains: dict[str, tuple[str, int | None]] = {}

    def follow(self, moment: Moment) -> None:
        for committed in moment.committed:
            if isinstance(committed.record.transition, t.VmsPut):
                for vm in committed.record.transition.vms:
                    self._domains[vm.name] = scope_of(vm), vm.update_domain

    def hit_by(self, event: dict[str, Any]) -> set[tuple[str, int | None]]:
        return {self._domains[name] for name in event["Resources"]}


class S10Shown:
    """Resources of an event lie in one update domain."""

    def __init__(self) -> None:
        self._domains = _Domains()

    def see(self, moment: Moment) -> None:
        self._domains.follow(moment)
        for vm, event in moment.shown():
            domains = self._domains.hit_by(event)
            assert len(domains) == 1, f"{vm} reads {event['EventId']}, which hits {domains}"


class S11Shown:
    """Of one availability set at most one update domain is under maintenance at a time."""

    def __init__(self) -> None:
        self._domains = _Domains()

    def see(self, moment: Moment) -> None:
        self._domains.follow(moment)
        hit: dict[str, set[int | None]] = {}
        for _, event in moment.shown():
            if is_maintenance(event):
                for scope, domain in self._domains.hit_by(event):
                    hit.setdefault(scope, set()).add(domain)
        for scope, domains in hit.items():
            assert len(domains) == 1, f"the update domains {domains} of {scope} are under maintenance at once"


def is_maintenance(event: dict[str, Any]) -> bool:
    """Whether the platform works on its VMs right now: a failure asks nobody, what users do is their own business."""
    planned = event["EventType"] in MAINTENANCE and event["EventSource"] == "Platform"
    return planned and event["EventStatus"] == "Started" and event["Description"] != FAILURE


class InsideWindow:
    """An event of a plan with a window starts inside a span of it, approved or not (decision 0014)."""

    def __init__(self) -> None:
        self._spans: dict[str, tuple[WindowSpan, ...]] = {}

    def see(self, moment: Moment) -> None:
        for committed in moment.committed:
            match committed.record.transition:
                case t.MaintenanceStarted(plan) if plan.window is not None:
                    self._spans[plan.id] = plan.window.spans
                case t.MaintenanceChanged(plan_id, window=Window(spans)) | t.MaintenanceRetried(
                    plan_id, _, Window(spans)
                ):
                    self._spans[plan_id] = (*self._spans.get(plan_id, ()), *spans)
                case t.EventStarted(event) if event.maintenance in self._spans:
                    at, spans = committed.record.at, self._spans[event.maintenance]
                    inside = any(span.begins <= at and not span.is_over(at) for span in spans)
                    assert inside or event.opening is None, f"{event.id} started at {at}, outside of {spans}"
