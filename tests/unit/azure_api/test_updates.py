"""What becomes of each property that Azure's requests carry for the calls that there are (M16)."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from azure.mgmt.compute import models

from duenotice.azure_api.compute import AskedOwned
from duenotice.azure_api.compute_json import AskedScaleSet, scale_set_shown, set_shown, vm_shown
from duenotice.azure_api.shape import AzureProblem
from duenotice.azure_api.updates import AVAILABILITY_SET, SCALE_SET, VM, Fate, Fates, requested_change
from tests.unit.domain.build import listening

STATE = listening()
WEB, BATCH = STATE.fleet.groups["set/web"], STATE.fleet.groups["scale-set/batch"]
CALLS: dict[str, tuple[Any, Fates, Any]] = {
    "VirtualMachine": (vm_shown(STATE.fleet.vms["alone"], STATE), VM, AskedOwned),
    "VirtualMachineUpdate": (vm_shown(STATE.fleet.vms["alone"], STATE), VM, AskedOwned),
    "AvailabilitySet": (set_shown(WEB, [], STATE.fleet.site), AVAILABILITY_SET, AskedOwned),
    "AvailabilitySetUpdate": (set_shown(WEB, [], STATE.fleet.site), AVAILABILITY_SET, AskedOwned),
    "VirtualMachineScaleSet": (scale_set_shown(BATCH, STATE), SCALE_SET, AskedScaleSet),
    "VirtualMachineScaleSetUpdate": (scale_set_shown(BATCH, STATE), SCALE_SET, AskedScaleSet),
}
PARTS = {"properties", "sku", "virtualMachineProfile", "scheduledEventsProfile"}


def carried(model: str, path: str = "") -> Iterator[str]:
    """The path of each property that requests of this model can carry, as the SDK of Azure knows them."""
    kind = getattr(models, model)
    kind.__new__(kind)  # with its first one it learns its fields
    hints = {
        name: hint for each in reversed(kind.__mro__) for name, hint in vars(each).get("__annotations__", {}).items()
    }
    for name, field in kind._attr_to_rest_field.items():
        below = f"{path}.{field._rest_name}" if path else field._rest_name
        inner = re.search(r"_models\.(\w+)", str(hints.get(name, "")))
        if field._rest_name in PARTS and inner is not None and below.count(".") < 4:
            yield from carried(inner[1], below)
        else:
            yield below


EVERY = [(model, path) for model in CALLS for path in carried(model)]


def body(path: str, value: object) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: body(rest, value) if rest else value}


@pytest.mark.parametrize(("model", "path"), EVERY)
def test_nothing_that_changes_behaviour_is_taken_and_dropped(model: str, path: str) -> None:
    """Kept, ignored because Azure ignores it, or refused by name."""
    present, fates, kind = CALLS[model]
    if fates.get(path) is Fate.KEPT:
        with pytest.raises(AzureProblem, match="The body is not valid"):  # it is looked at
            requested_change(body(path, ["odd"]), present, fates, kind)
    elif fates.get(path) is Fate.IGNORED:
        assert requested_change(body(path, ["odd"]), present, fates, kind) == kind() or path.startswith("properties.")
    else:
        with pytest.raises(AzureProblem) as refused:
            requested_change(body(path, ["odd"]), present, fates, kind)
        assert (refused.value.status, refused.value.target) == (400, path)
        assert path in refused.value.message


def test_the_list_is_that_of_azure() -> None:
    """It is read from the SDK, and the tables below it name nothing else."""
    known = {path for _, path in EVERY}
    assert len(EVERY) > 150
    named = {path for _, fates, _ in CALLS.values() for path in fates}
    assert named - known == set()


@pytest.mark.parametrize("model", CALLS)
def test_what_get_shows_can_be_written_back_and_asks_for_nothing(model: str) -> None:
    present, fates, kind = CALLS[model]
    assert requested_change(msgspec.json.decode(msgspec.json.encode(present)), present, fates, kind) in (
        kind(),
        msgspec.convert({"properties": {}, "sku": {}}, kind),
        msgspec.convert({"properties": {}}, kind),
    )


def test_what_is_there_cannot_be_taken_away_by_null() -> None:
    present, fates, kind = CALLS["VirtualMachineUpdate"]
    with pytest.raises(AzureProblem, match=r"does not keep properties\.scheduledEventsPolicy\."):
        requested_change({"properties": {"scheduledEventsPolicy": None}}, present, fates, kind)
    assert requested_change({"identity": None, "properties": None} | {"properties": {}}, present, fates, kind)


def test_a_refusal_names_some_and_counts_the_rest() -> None:
    present, fates, kind = CALLS["VirtualMachineUpdate"]
    with pytest.raises(AzureProblem, match="does not keep a0, a1, a2 and 997 more"):
        requested_change({f"a{number}": 1 for number in range(1000)}, present, fates, kind)


def test_a_region_has_two_names() -> None:
    present, fates, kind = CALLS["VirtualMachine"]
    assert requested_change({"location": "LO CAL"}, present, fates, kind) is not None


def test_however_deep_it_is_it_is_named() -> None:
    present, fates, kind = CALLS["VirtualMachine"]
    with pytest.raises(AzureProblem) as refused:
        requested_change(body(".".join("x" * 500), 1), present, fates, kind)
    assert refused.value.target == ".".join("x" * 9)
