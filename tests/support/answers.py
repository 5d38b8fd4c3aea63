"""Answers of the operator's API as values, for tests that only care about some of their fields."""

from datetime import UTC, datetime
from typing import Any

from duenotice.wire import operator as w

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def an_event(*resources: str, **more: Any) -> w.Event:
    """A Reboot that was scheduled; a VM without a group is its own scope."""
    return w.Event(**event_fields(resources, more))


def a_life(*resources: str, **more: Any) -> w.Life:
    """The same with its moments."""
    moments: dict[str, Any] = {"raised_at": NOW, "approved_at": None, "ended_at": None, "outcome": None, "reason": ""}
    moments |= {"state": more.get("outcome") or "scheduled", "maintenance": None}
    return w.Life(**event_fields(resources, moments | more))


def event_fields(resources: tuple[str, ...], more: dict[str, Any]) -> dict[str, Any]:
    usual = {
        "id": "A",
        "type": "Reboot",
        "phase": "scheduled",
        "scope": f"vm/{resources[0]}" if resources else "vm/a",
        "resources": resources or ("a",),
        "update_domain": None,
        "cause": "maintenance",
        "source": "Platform",
        "description": "Why.",
        "duration": 9,
        "not_before": NOW,
        "approved_by": None,
        "started_at": None,
        "ends_at": None,
        "consent": "scope",
        "awaited": (),
        "awaited_in_all": 0,
    }
    return usual | more


def a_vm(name: str, **more: Any) -> w.Vm:
    """A VM; alone unless it has a group."""
    usual: dict[str, Any] = {
        "state": "fine",
        "address": "127.0.0.1",
        "scope": f"vm/{name}",
        "listens": True,
        "group": None,
        "placement_group": None,
        "update_domain": None,
        "fault_domain": None,
        "zone": None,
        "host": None,
        "spot": False,
        "size": "",
        "os": "Linux",
        "tags": {},
        "policy": None,
        "failure": None,
    }
    return w.Vm(name, **usual | more)


def a_step(*resources: str, **more: Any) -> w.Step:
    """A step of a maintenance."""
    usual: dict[str, Any] = {
        "group": "set/web",
        "domain": 0,
        "scope": "set/web",
        "host": None,
        "resources": resources,
        "status": "waiting",
        "event_id": None,
        "reason": "",
    }
    return w.Step(**usual | more)


def a_plan(*steps: w.Step, **more: Any) -> w.Maintenance:
    """A maintenance that runs."""
    usual: dict[str, Any] = {
        "id": "M",
        "type": "Reboot",
        "cause": "maintenance",
        "status": "running",
        "reason": "",
        "description": None,
        "settle": 0.0,
        "at_once": 0,
        "failures_allowed": 0,
        "progress": {},
        "vms": {"waiting": sum(len(step.resources) for step in steps)},
        "groups": tuple(dict.fromkeys(step.group for step in steps)),
        "groups_in_all": len({step.group for step in steps}),
    }
    return w.Maintenance(**usual | more)


def a_record(action: str, event_id: str | None = None, **details: Any) -> w.Record:
    """A record of the journal."""
    return w.Record(7, NOW, "token/ann", action, event_id, w.Details(**details))
