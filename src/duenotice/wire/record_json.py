"""A record of the journal as the operator reads it: who did what when."""

from typing import Any, get_args

import msgspec

from duenotice.clock import seconds
from duenotice.domain import transitions as t
from duenotice.wire import operator_json
from duenotice.wire import operator_shapes as shapes
from duenotice.wire.stored_answer import unpacked
from duenotice.wire.times import format_iso

ACTIONS = tuple(str(kind.__struct_config__.tag) for kind in get_args(t.Transition))
"""All that can be in the journal."""

QUIET = frozenset({"clock-marked", "request-answered"})
"""Internal actions; shown only when asked for."""


def action_of(record: t.Record) -> str:
    """What happened, as the journal names it: `event-raised`."""
    return str(record.transition.__struct_config__.tag)


def event_id_of(record: t.Record) -> str | None:
    """The event that a record is about, if it is about one."""
    change = record.transition
    if isinstance(change, t.EventRaised | t.EventMoved | t.EventNarrowed | t.EventPostponed | t.EventStarted):
        return change.event.id
    return getattr(change, "event_id", None)


def record_to_json(record: t.Record) -> shapes.Record:
    """One record."""
    return {
        "position": record.position,
        "at": format_iso(record.at),
        "actor": record.actor,
        "action": action_of(record),
        "event_id": event_id_of(record),
        "details": _details(record.transition),
    }


def _details(change: t.Transition) -> dict[str, Any]:
    match change:
        case t.EventRaised(event) | t.EventNarrowed(event) | t.EventPostponed(event) | t.EventStarted(event):
            return {"event": operator_json.event_to_json(event)}
        case t.EventMoved(event, from_scope):
            return {"event": operator_json.event_to_json(event), "from_scope": from_scope}
        case t.VmsPut(vms):
            return {"names": [vm.name for vm in vms]}
        case t.MaintenanceStarted(plan):
            return {"maintenance": operator_json.maintenance_to_json(plan)}
        case t.RequestAnswered(answer=answer):
            said = unpacked(answer)
            return {"status": said.status, "location": said.location}
        case t.TokenCreated(token):
            return {"token": operator_json.token_to_json(token)}
        case t.StepEnded(ended=ended):
            return {**_plainly(change), "ended": seconds(ended)}
        case t.ClockMarked(mark):
            at, _, boot_id, _, *speeds = _plainly(change)["mark"]
            return {"mark": [at, seconds(mark.steady), boot_id, seconds(mark.boot_micros), *speeds]}
    return _plainly(change)


def _plainly(change: t.Transition) -> dict[str, Any]:
    details: dict[str, Any] = msgspec.to_builtins(change)
    return {key: value for key, value in details.items() if key not in ("change", "event_id")}
