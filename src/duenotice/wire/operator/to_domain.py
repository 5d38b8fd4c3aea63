"""What requests to the operator's API mean to the domain: roles, types, causes, moments, and which VMs are chosen."""

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar, cast

from msgspec import structs

from duenotice.domain.event import By, Cause, Consent, EventType
from duenotice.domain.fleet import EventsPolicy, Vm
from duenotice.domain.subscription import PushFormat
from duenotice.domain.token import Role
from duenotice.errors import DuenoticeError, Malformed, NotFound
from duenotice.toml import did_you_mean
from duenotice.wire.api_versions import BY_NAME, TYPE_NAMES
from duenotice.wire.operator.fleet import PolicyRequest
from duenotice.wire.operator.words import (
    CAUSES_TO_GIVE,
    CONSENTS,
    EVENT_TYPES,
    ORDERS,
    PUSH_FORMATS,
    ROLES,
    SELECTOR_KINDS,
)

T = TypeVar("T")

_TYPES = {name.lower(): event_type for event_type, name in TYPE_NAMES.items()}
_SAME_TYPE = {"evict": "Preempt", "restart": "Reboot", "delete": "Terminate"}
"""What the command line calls these operations."""
_CAUSES = {cause: Cause(cause) for cause in CAUSES_TO_GIVE}

MOST_LOOKED_AT = 100_000
"""VMs that are looked at for a hint."""
MOST_SELECTORS = 10_000
"""How many different selectors one request may have."""


def parse_role(text: str) -> Role:
    """`viewer`, `operator`, `admin` or `follower`."""
    return _named(text, {role.value: role for role in Role}, "a role", ROLES)


def parse_format(text: str) -> PushFormat:
    """`eventgrid` or `cloudevents`."""
    return _named(text, {known.value: known for known in PushFormat}, "a format", PUSH_FORMATS)


def parse_type(text: str) -> EventType:
    """`Reboot`, in any case; what operators say of some types counts too."""
    return _named(_SAME_TYPE.get(text.lower(), text), _TYPES, "an event type", EVENT_TYPES)


def parse_cause(text: str) -> Cause:
    """A cause an operator may give."""
    return _named(text, _CAUSES, "a cause", CAUSES_TO_GIVE)


def parse_order(text: str) -> By:
    """`update-domain` or `fault-domain`."""
    return _named(text, {known.value: known for known in By}, "an order", ORDERS)


def parse_consent(text: str) -> Consent:
    """`scope` or `host`."""
    return _named(text, {known.value: known for known in Consent}, "a consent", CONSENTS)


def _named(text: str, table: dict[str, T], what: str, known: Iterable[str]) -> T:
    if text.lower() not in table:
        raise Malformed(f"{text!r} is not {what}.", hint=f"Use one of {', '.join(known)}.")
    return table[text.lower()]


def events_policy(asked: PolicyRequest) -> EventsPolicy:
    """What an owner wants."""
    check_api_version(asked.scheduled_events_api_version)
    return EventsPolicy(*structs.astuple(asked))


def check_api_version(name: str | None) -> None:
    """Refuse a version that no document has."""
    if name is not None and name not in BY_NAME:
        raise Malformed(f"{name[:40]!r} is not an api-version.", hint=f"Use one of {', '.join(BY_NAME)}.")


def parse_moment(moment: datetime | None, named: str = "not_before") -> datetime | None:
    """A moment with its offset; without one it would be ambiguous."""
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise Malformed(f"{named} {moment.isoformat()} has no offset.", hint="Write it in UTC, with a Z.")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise Malformed(f"{named} {moment.isoformat()} is out of range.", hint="Write it in UTC.") from None


def select(on: Iterable[str], vms: Collection[Vm]) -> tuple[str, ...]:
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
    for selector in selectors:
        if not chosen[_place(selector)]:
            raise _none_there(selector, vms)
    return tuple(dict.fromkeys(name for selector in selectors for name in chosen[_place(selector)]))


def chooses(selector: str) -> Callable[[Vm], bool]:
    """Whether a VM is one that a selector such as `host=h1` chooses; it may choose none, now or ever."""
    place = _place(selector)
    if place is _NOWHERE:
        raise _chooses_nothing(selector)
    look = _LOOKS[place[0]]
    return lambda vm: place in look(vm)


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
    if kind not in SELECTOR_KINDS or not name:
        return _NOWHERE
    if kind == "tag":
        key, _, value = name.partition("=")
        return "tag", (key, value)
    return (kind, name) if kind in _LOOKS else ("group", f"{kind}/{name}")


def _none_there(selector: str, vms: Iterable[Vm]) -> DuenoticeError:
    """A selector of which no VM is there, with the selectors of its kind that there are."""
    if _place(selector) is _NOWHERE:
        return _chooses_nothing(selector)
    look = _LOOKS[_place(selector)[0]]
    there = dict.fromkeys(_written(place) for vm in islice(vms, MOST_LOOKED_AT) for place in look(vm) if place[1])
    return NotFound(f"No VM is chosen by {selector[:80]!r}.", hint=did_you_mean(selector, there))


def _written(place: _Place) -> str:
    """A place as a selector."""
    kind, value = place
    if kind == "tag":
        key, worth = cast(tuple[str, str], value)
        return f"tag={key}={worth}"
    return str(value).replace("/", "=", 1) if kind == "group" else f"{kind}={value}"


def _chooses_nothing(selector: str) -> Malformed:
    hint = f"Write KIND=NAME, with {', '.join(SELECTOR_KINDS)} as KIND."
    return Malformed(f"{selector!r} chooses nothing.", hint=hint)
