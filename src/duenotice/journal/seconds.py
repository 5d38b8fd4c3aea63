"""Converts stored steady time from seconds, as floats, to microseconds.

Nothing may become due earlier through this (S1): moments that are waited for are rounded up, the time of the clock is
rounded down, both exactly from the float. So the time between the two never gets shorter.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from duenotice.clock import MICROS

Plain = dict[str, Any]
_Lift = Callable[[Any], Any]


def record_in_micros(record: Plain) -> Plain:
    """A record of format 2 as one of format 3."""
    return _lifted(record, {"transition": lambda change: _lifted(change, _CHANGES.get(change["change"], {}))})


def snapshot_in_micros(snapshot: Plain) -> Plain:
    """A snapshot of format 2 as one of format 3."""
    return _lifted(snapshot, _SNAPSHOT)


def _up(seconds: float) -> int:
    return math.ceil(Fraction(seconds) * MICROS)


def _down(seconds: float) -> int:
    return math.floor(Fraction(seconds) * MICROS)


def _lifted(thing: Plain, lifts: Mapping[str, _Lift]) -> Plain:
    """The same with these fields converted, if they are there and have a value."""
    return thing | {name: lift(thing[name]) for name, lift in lifts.items() if thing.get(name) is not None}


def _each(lifts: Mapping[str, _Lift]) -> _Lift:
    return lambda things: [_lifted(thing, lifts) for thing in things]


def _event(event: Plain) -> Plain:
    return _lifted(event, _EVENT)


def _mark(mark: list[Any]) -> list[Any]:
    """The upper bound of the time since boot: what has passed since then is counted from it."""
    at, steady, *rest = mark
    return [at, _down(steady), *rest[:1], *map(_up, rest[1:2]), *rest[2:]]


_EVENT: dict[str, _Lift] = {"notice_ends": _up, "impact_ends": _up}
_PLAN: dict[str, _Lift] = {"settle": _up, "steps": _each({"ended": _up})}
_CHANGES: dict[str, dict[str, _Lift]] = {
    "event-raised": {"event": _event},
    "event-moved": {"event": _event},
    "event-postponed": {"event": _event},
    "event-started": {"event": _event},
    "step-ended": {"ended": _up},
    "maintenance-started": {"maintenance": lambda plan: _lifted(plan, _PLAN)},
    "clock-marked": {"mark": _mark},
}
_SNAPSHOT: dict[str, _Lift] = {"events": _each(_EVENT), "maintenances": _each(_PLAN), "mark": _mark}
