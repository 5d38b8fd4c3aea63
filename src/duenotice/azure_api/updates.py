"""What of a PUT or PATCH is kept, ignored as Azure ignores it, or refused by name (M16).

A body may carry all that a GET shows: `az` reads, changes one thing and writes the whole back. So a property with the
value that is there already changes nothing. One with another value is refused, unless a table below names it. Pure.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from duenotice.azure_api.shape import AzureProblem, misfit

T = TypeVar("T", bound=Struct)


class Fate(Enum):
    """What happens to a property."""

    KEPT = "kept"
    IGNORED = "ignored, because Azure ignores it too"


Fates = Mapping[str, Fate]
"""By the path of the property; what is not named is refused if it would change anything."""

_READ_ONLY: Fates = {
    "id": Fate.IGNORED,
    "name": Fate.IGNORED,
    "type": Fate.IGNORED,
    "etag": Fate.IGNORED,
    "systemData": Fate.IGNORED,
    "properties.provisioningState": Fate.IGNORED,
    "properties.timeCreated": Fate.IGNORED,
    "properties.instanceView": Fate.IGNORED,
}
POLICY = "properties.scheduledEventsPolicy"
EVENTS_PROFILE = "properties.virtualMachineProfile.scheduledEventsProfile"
VM: Fates = {
    **_READ_ONLY,
    POLICY: Fate.KEPT,
    "managedBy": Fate.IGNORED,
    "resources": Fate.IGNORED,
    "properties.vmId": Fate.IGNORED,
}
AVAILABILITY_SET: Fates = {
    **_READ_ONLY,
    POLICY: Fate.KEPT,
    "properties.statuses": Fate.IGNORED,
    "properties.virtualMachines": Fate.IGNORED,
    "properties.virtualMachineScaleSetMigrationInfo": Fate.IGNORED,
}
SCALE_SET: Fates = {
    **_READ_ONLY,
    POLICY: Fate.KEPT,
    "sku.capacity": Fate.KEPT,
    f"{EVENTS_PROFILE}.terminateNotificationProfile": Fate.KEPT,
    f"{EVENTS_PROFILE}.osImageNotificationProfile": Fate.KEPT,
    "properties.uniqueId": Fate.IGNORED,
    "properties.virtualMachineProfile.timeCreated": Fate.IGNORED,
}
DEEPEST = 8
"""Names of a path; nothing that GET shows is deeper."""
_NAMED = 3
"""Properties that a refusal names."""


def requested_change(body: Mapping[str, Any], present: Struct, fates: Fates, kind: type[T]) -> T:
    """What a client wants to change of what is there; refused if a part of it would not be kept."""
    there = msgspec.json.decode(msgspec.json.encode(present))  # as GET shows it: all lists are lists
    unkept = list(_unkept(body, there, fates, ""))
    if unkept:
        names = ", ".join(path[:100] for path in unkept[:_NAMED])
        more = f" and {len(unkept) - _NAMED} more" if len(unkept) > _NAMED else ""
        raise AzureProblem.of(
            400,
            "InvalidParameter",
            f"This service does not keep {names}{more}.",
            hint="Leave it out, or send the value that GET shows. docs/azure.md lists what is kept.",
            target=unkept[0][:100],
        )
    try:
        return msgspec.convert(_changed(body, there), kind)
    except msgspec.ValidationError as error:
        raise misfit(error) from None


def _unkept(asked: object, there: object, fates: Fates, path: str) -> Iterator[str]:
    if asked == there or fates.get(path) is Fate.IGNORED or (path == "location" and _region(asked) == _region(there)):
        return
    if asked is None:
        if there is not None:
            yield path  # nothing that is there can be taken away
    elif fates.get(path) is Fate.KEPT:
        return
    elif isinstance(asked, dict) and path.count(".") < DEEPEST:
        below = there if isinstance(there, dict) else {}
        for name, value in asked.items():
            yield from _unkept(value, below.get(name), fates, f"{path}.{name}" if path else name)
    else:
        yield path


def _changed(asked: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is there already: what nobody has changed is not said again."""
    left = dict[str, Any]()
    for name, value in asked.items():
        present = there.get(name)
        if value is None or value == present:
            continue
        is_part = isinstance(value, dict) and isinstance(present, dict) and name in _PARTS
        left[name] = _changed(value, present) if is_part and isinstance(present, dict) else value
    return left


_PARTS = {"properties", "virtualMachineProfile", "scheduledEventsProfile", "sku"}
"""Properties that are only the place of others. What is kept is taken whole."""


def _region(name: object) -> object:
    """Azure knows a region by its name with or without blanks: `West Europe`."""
    return name.replace(" ", "").lower() if isinstance(name, str) else name
