"""What the operator's side reads and writes: events as JSON with names of our own, times in RFC 3339."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, TypeVar

import msgspec

from duenotice.clock import Instant, seconds
from duenotice.domain.event import LONGEST_DESCRIPTION, LONGEST_DURATION, Cause, Event, EventType
from duenotice.domain.fleet import Group, GroupKind, Host, Vm
from duenotice.domain.maintenance import Maintenance, Step, StepStatus
from duenotice.domain.preview import PlannedStep
from duenotice.domain.scope import scope_of
from duenotice.domain.token import Role, Token
from duenotice.errors import Malformed, NotFound
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.event_names import SOURCE_NAMES, TYPE_NAMES
from duenotice.wire.times import format_iso

T = TypeVar("T")

_TYPES = {name.lower(): event_type for event_type, name in TYPE_NAMES.items()}
_CAUSES = {cause.value: cause for cause in (Cause.MAINTENANCE, Cause.LIVE_MIGRATION, Cause.USER)}
_A_MOMENT = timedelta(seconds=2)
"""How far the two faces of time may differ without a message."""
_KINDS = ("vm", "host", *(kind.value for kind in GroupKind), "zone", "tag")

MOST_SELECTORS = 10_000
"""How many different selectors one request may have."""


def _said(**schema: object) -> msgspec.Meta:
    """What the description says about a value; the rules and parsers enforce it: their errors can give a hint."""
    return msgspec.Meta(extra_json_schema=schema)


_MOMENT = r"^20[0-9]{2}-(0[1-9]|1[0-2])-([01][1-9]|2[0-8])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}(Z|[+-]0[0-9]:00)$"
"""The usual form of an RFC 3339 time; other forms are read as well."""

Selector = Annotated[str, _said(pattern=f"^({'|'.join(_KINDS)})=.+$", examples=["set=web"])]


Span = Annotated[
    str,
    _said(
        pattern=r"^([0-9]{1,4}(\.[0-9]{1,3})?(ms|[smhd])){1,3}$|^[0-9]{1,9}$|^PT[0-9]{1,4}[HMS]$",
        examples=["30s", "1h30m", "PT5M"],
    ),
]
"""A span of time in a request."""

AskedType = Annotated[str, _said(enum=list(TYPE_NAMES.values()))]
AskedCause = Annotated[str, _said(enum=list(_CAUSES))]
Asked = Annotated[int, _said(minimum=0)]


class ScheduleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to schedule an event."""

    type: AskedType
    resources: Annotated[tuple[str, ...], _said(minItems=1, uniqueItems=True)]
    not_before: Annotated[datetime, _said(pattern=_MOMENT, examples=["2030-01-15T10:00:00Z"])] | None = None
    description: Annotated[str, _said(maxLength=LONGEST_DESCRIPTION)] | None = None
    duration: Annotated[int, _said(minimum=-1, maximum=LONGEST_DURATION)] | None = None
    cause: AskedCause = Cause.MAINTENANCE.value


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request to cancel something."""

    reason: str = ""


class ReportRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a report on an impact; no failure means that it is over."""

    failure: str = ""


class MaintenanceRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request for a maintenance; `on` names what: `set=web`, `vm=db-0`, `zone=1`, `tag=role=db`."""

    on: Annotated[tuple[Selector, ...], _said(minItems=1)]
    type: AskedType
    settle: Span = "0s"
    at_once: Asked = 0
    failures_allowed: Asked = 0
    description: Annotated[str, _said(maxLength=LONGEST_DESCRIPTION)] | None = None
    cause: AskedCause = Cause.MAINTENANCE.value


def select(on: Iterable[str], vms: Iterable[Vm]) -> tuple[str, ...]:
    """The names of the VMs that selectors such as `set=web` choose; a selector that chooses none is a mistake.

    All selectors are answered in one look at each VM: a plan may name thousands, of a fleet of a million.
    """
    selectors = dict.fromkeys(on)
    if len(selectors) > MOST_SELECTORS:
        hint = f"Use {MOST_SELECTORS} at the most; a set, a host or a tag chooses many VMs at once."
        raise Malformed(f"{len(selectors)} selectors are too many.", hint=hint)
    chosen: dict[_Place, list[str]] = {_place(selector): [] for selector in selectors}
    kinds = {kind for kind, _ in chosen}
    looks = [look for kind, look in _LOOKS.items() if kind in kinds]
    for vm in vms:
        for place in (place for look in looks for place in look(vm)):
            if place in chosen:
                chosen[place].append(vm.name)
    return tuple(dict.fromkeys(name for selector in selectors for name in _found(selector, chosen[_place(selector)])))


_Place = tuple[str, object]
"""What a selector is about, and the value there."""

_NOWHERE: _Place = ("", None)

_LOOKS: dict[str, Callable[[Vm], list[_Place]]] = {
    "vm": lambda vm: [("vm", vm.name)],
    "host": lambda vm: [("host", vm.host)],
    "group": lambda vm: [("group", vm.group)],
    "zone": lambda vm: [("zone", vm.zone)],
    "tag": lambda vm: [("tag", tag) for tag in vm.tags],
}


def _place(selector: str) -> _Place:
    kind, _, name = selector.partition("=")
    if kind not in _KINDS or not name:
        return _NOWHERE
    if kind == "tag":
        key, _, value = name.partition("=")
        return "tag", (key, value)
    return (kind, name) if kind in _LOOKS else ("group", f"{kind}/{name}")


def _found(selector: str, names: list[str]) -> list[str]:
    if _place(selector) is _NOWHERE:
        raise Malformed(f"{selector!r} chooses nothing.", hint=f"Write KIND=NAME, with {', '.join(_KINDS)} as KIND.")
    if not names:
        raise NotFound(f"No VM is chosen by {selector!r}.", hint="List the fleet for its names.")
    return names


def maintenance_to_json(plan: Maintenance) -> shapes.Maintenance:
    """One maintenance as the operator sees it."""
    return {
        "id": plan.id,
        "type": TYPE_NAMES[plan.type],
        "cause": plan.cause.value,
        "status": plan.status.value,
        "reason": plan.reason,
        "description": plan.description,
        "settle": seconds(plan.settle),
        "at_once": plan.at_once,
        "failures_allowed": plan.failures_allowed,
        "progress": {status.value: plan.count(status) for status in StepStatus},
        "steps": [_step_to_json(step) for step in plan.steps],
    }


def planned_to_json(planned: PlannedStep) -> shapes.PlannedStep:
    """One step of a timeline."""
    return {
        **_step_to_json(planned.step),
        "status": StepStatus.WAITING.value,
        "scheduled_at": format_iso(planned.scheduled_at),
        "not_before": format_iso(planned.not_before),
        "starts_at": format_iso(planned.starts_at),
        "ends_at": format_iso(planned.ends_at),
    }


def _step_to_json(step: Step) -> shapes.Step:
    return {
        "lane": step.lane,
        "turn": step.turn,
        "scope": step.scope,
        "host": step.host,
        "resources": list(step.resources),
        "status": step.status.value,
        "event_id": step.event_id,
        "reason": step.reason,
    }


def vm_to_json(vm: Vm, listens: bool, state: str) -> shapes.Vm:
    """One VM as the operator sees it."""
    return {
        "name": vm.name,
        "state": state,
        "address": vm.address,
        "scope": scope_of(vm),
        "listens": listens,
        "group": vm.group,
        "placement_group": vm.placement_group,
        "update_domain": vm.update_domain,
        "fault_domain": vm.fault_domain,
        "zone": vm.zone,
        "host": vm.host,
        "spot": vm.spot,
        "size": vm.size,
        "os": vm.os,
        "tags": dict(vm.tags),
    }


def group_to_json(group: Group, vms: int) -> shapes.Group:
    """One group as the operator sees it."""
    return {
        "key": group.key,
        "kind": group.kind.value,
        "name": group.name,
        "update_domains": group.update_domains,
        "fault_domains": group.fault_domains,
        "terminate_notice": group.terminate_notice,
        "vms": vms,
    }


def host_to_json(host: Host, vms: int) -> shapes.Host:
    """One host as the operator sees it."""
    return {"name": host.name, "condition": host.condition.value, "vms": vms}


def token_to_json(token: Token) -> shapes.Token:
    """One token as an admin sees it: nothing that could be used in its place."""
    created = format_iso(token.created_at)
    return {"id": token.id, "name": token.name, "role": token.role.value, "created_at": created}


def parse_role(text: str) -> Role:
    """`viewer`, `operator` or `admin`."""
    return _named(text, {role.value: role for role in Role}, "a role", [role.value for role in Role])


def parse_type(text: str) -> EventType:
    """`Reboot`, in any case."""
    return _named(text, _TYPES, "an event type", [TYPE_NAMES[event_type] for event_type in EventType])


def parse_cause(text: str) -> Cause:
    """A cause an operator may give."""
    return _named(text, _CAUSES, "a cause", list(_CAUSES))


def parse_moment(moment: datetime | None) -> datetime | None:
    """A moment with its offset; without one it would be ambiguous."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise Malformed(f"not_before {moment.isoformat()} has no offset.", hint="Write it in UTC, with a Z.")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise Malformed(f"not_before {moment.isoformat()} is out of range.", hint="Write it in UTC.") from None


def event_to_json(event: Event, now: Instant | None = None) -> shapes.Event:
    """One event as the operator sees it; give `now` for a live event, because time may have stood still (S25)."""
    return {
        "id": event.id,
        "type": TYPE_NAMES[event.type],
        "phase": event.phase.value,
        "scope": event.scope,
        "resources": list(event.resources),
        "update_domain": event.update_domain,
        "cause": event.cause.value,
        "source": SOURCE_NAMES[event.source],
        "description": event.description,
        "duration": event.duration,
        "not_before": format_iso(event.not_before),
        "approved_by": event.approved_by or None,
        "started_at": None if event.started_at is None else format_iso(event.started_at),
        "ends_at": _ends_at(event, now),
    }


def _ends_at(event: Event, now: Instant | None) -> str | None:
    """When Started will be over, if that is known."""
    if event.impact_ends is None:
        return None
    ends = event.not_before + timedelta(microseconds=event.impact_ends - event.notice_ends)
    ends_from_now = ends if now is None else now.after(event.impact_ends - now.steady).at
    return format_iso(ends if abs(ends_from_now - ends) <= _A_MOMENT else ends_from_now)


def _named(text: str, table: dict[str, T], what: str, known: list[str]) -> T:
    if text.lower() not in table:
        raise Malformed(f"{text!r} is not {what}.", hint=f"Use one of {', '.join(known)}.")
    return table[text.lower()]
