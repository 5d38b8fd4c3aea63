"""Converts stored VMs that are away from a drained host: that was a field of its own, now it is in `declared_host`."""

from typing import Any

Plain = dict[str, Any]


def record_with_homes(record: Plain) -> Plain:
    """A record of format 9 as one of format 10."""
    change = record["transition"]
    return record | {"transition": _with_homes(change)} if change["change"] == "vms-put" else record


def snapshot_with_homes(snapshot: Plain) -> Plain:
    """A snapshot of format 8 as one of format 9."""
    return _with_homes(snapshot)


def _with_homes(thing: Plain) -> Plain:
    return thing | {"vms": [_with_home(vm) if "away_from" in vm else vm for vm in thing.get("vms", ())]}


def _with_home(vm: Plain) -> Plain:
    rest = {name: value for name, value in vm.items() if name != "away_from"}
    return rest | {"declared_host": {"away_from": vm["away_from"], "declared_host": vm.get("declared_host")}}
