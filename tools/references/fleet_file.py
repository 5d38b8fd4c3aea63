"""The table of keys in docs/fleet-file.md: what the reader of fleet files takes, noted while it reads one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from duenotice.wire import fleet_file
from tools.references.words import COMMAND, code, table

PAGE = Path(__file__).parents[2] / "docs" / "fleet-file.md"
BEGIN, END = f"<!-- keys: made by `{COMMAND}` -->\n", "<!-- /keys -->"

EVERYTHING = """
[site]
[[hosts]]
name = "h"
[[vms]]
name = "v"
address = "127.0.0.1"
[[availability_sets]]
name = "s"
vms = [{ name = "s-0", address = "127.0.0.2" }]
[[cloud_services]]
name = "c"
vms = [{ name = "c-0", address = "127.0.0.3" }]
[[scale_sets]]
name = "b"
capacity = 1
addresses = "127.0.1.0/30"
"""
"""A file in which each table is there once."""

MEANT = {
    "location": "what instance metadata says about every VM; so do the next two",
    "resource_group": "",
    "subscription_id": "",
    "name": "",
    "hosts.name": "a physical machine",
    "scale_sets.name": "instances are `NAME_0`, `NAME_1` …",
    "address": "VMs are told apart by their address",
    "zone": "makes it a zonal VM",
    "scale_sets.zone": "of all instances",
    "spot": "it can be evicted",
    "scale_sets.spot": "of all instances",
    "host": "where it runs; one of `[[hosts]]`",
    "size": "instance metadata; so are the next two",
    "os": "",
    "tags": "texts by name",
    "policy": "what its owner approves beforehand, see [policies](#policies)",
    "vms": "its VMs",
    "update_domains": "how many there are",
    "fault_domains": "how many there are",
    "update_domain": "where in the set",
    "fault_domain": "where in the set",
    "capacity": "how many instances there are",
    "addresses": "a network whose usable addresses are given out in order",
    "tells_only_hit": "only the VMs that an event hits are told of it; for scale sets with `fault_domains = 1`",
    "os_image_notice": "whether instances are told before their OS image is replaced (M15)",
    "terminate_notice": "`PT5M` to `PT15M`; leaving it out turns terminate notifications off",
}
"""What each key is for; `TABLE.KEY` where it differs."""
TURN = {"update_domain": "in turn", "fault_domain": "in turn"}
KINDS = {str: "text", int: "number", bool: "true or false", dict: "table", list: "list"}
ABOVE = {"hosts", "vms", "availability_sets", "cloud_services", "scale_sets", "site"}


class Taken(NamedTuple):
    """A key that the reader asked for."""

    table: str
    key: str
    kind: type
    default: Any
    bounds: str


def taken() -> list[Taken]:
    """Every key that a fleet file may have, in the order in which it is read."""
    noted: dict[tuple[str, str], Taken] = {}
    with _noting(noted):
        fleet_file.read_fleet(EVERYTHING)
    return [one for one in noted.values() if one.table or one.key not in ABOVE]


@contextmanager
def _noting(noted: dict[tuple[str, str], Taken]) -> Iterator[None]:
    usual = fleet_file._Table

    class Noting(usual):  # type: ignore[misc, valid-type]
        """A table that notes what is asked of it."""

        def take(self, key: str, kind: type, default: Any = ..., bounds: str = "") -> Any:
            where = ".".join(str(part) for part in self.path if isinstance(part, str))
            noted.setdefault((where, key), Taken(where, key, kind, default, bounds))
            return super().take(key, kind) if default is ... else super().take(key, kind, default)

        def within(self, key: str, low: int, high: int, default: Any = ...) -> int:
            self.take(key, int, default, f"{low} to {high}")
            self._values.setdefault(key, low if default is ... else default)
            return int(super().within(key, low, high, default))

    fleet_file._Table = Noting  # type: ignore[misc]
    try:
        yield
    finally:
        fleet_file._Table = usual  # type: ignore[misc]


def keys() -> str:
    """The table."""
    tables: dict[str, list[tuple[str, ...]]] = {}
    for one in taken():
        if not one.table.endswith("policy"):
            tables.setdefault(one.table, []).append((code(one.key), _kind(one), _default(one), _meant(one)))
    rows: list[tuple[str, ...]] = []
    for name, mine in tables.items():
        same = next((other for other in tables if tables[other] == mine), name)
        rows += (
            [(_table(name), f"as {_table(same)}", "", "", "")]
            if same != name
            else [(_table(name) if first is mine[0] else "", *first) for first in mine]
        )
    return table(("table", "key", "value", "default", "what"), rows)


def _table(path: str) -> str:
    name, _, inner = path.partition(".")
    return code("[site]" if name == "site" else f"[[{name}]]" + (f".{inner}" if inner else ""))


def _kind(one: Taken) -> str:
    return f"{KINDS[one.kind]}, {one.bounds}" if one.bounds and one.key not in TURN else KINDS[one.kind]


def _default(one: Taken) -> str:
    if one.default is ...:
        return "needed"
    if one.key in TURN:
        return TURN[one.key]
    return (
        ""
        if one.default in (None, "", {}, [])
        else code(str(one.default).lower() if one.kind is bool else str(one.default))
    )


def _meant(one: Taken) -> str:
    found = MEANT.get(f"{one.table}.{one.key}", MEANT.get(one.key))
    assert found is not None, f"say what {one.key} of {one.table} is for, in MEANT"
    return found


def page() -> str:
    """The page with its table as it should be."""
    before, rest = PAGE.read_text().split(BEGIN)
    return before + BEGIN + keys() + END + rest.split(END)[1]
