"""The small fleet that the state machine plays with: one of everything, on three hosts."""

from duenotice.domain.fleet import Declaration, Group, GroupKind, Host, Vm
from tests.promises.model import Place, group_of

HOSTS = ["host-1", "host-2", "host-3"]
HOME = {
    "solo": Place("vm/solo", host="host-1"),
    "spot": Place("vm/spot", spot=True, host="host-2"),
    "zonal": Place("vm/zonal", host="host-1"),
    "web-0": Place("set/web", 0, host="host-1"),
    "web-1": Place("set/web", 0, host="host-2"),
    "web-2": Place("set/web", 1, host="host-1"),
    "web-3": Place("set/web", 1, host="host-3"),
    "Shop_IN_0": Place("service/shop", 0),
    "Shop_IN_1": Place("service/shop", 1, host="host-3"),
    "batch_0": Place("scale-set/batch/0", 0, host="host-2"),
    "batch_1": Place("scale-set/batch/0", 1, spot=True),
    "batch_2": Place("scale-set/batch/1", 0),
}
ELSEWHERE = [("set/web", 0), ("set/web", 1), ("service/shop", 0), ("scale-set/batch/0", 0), ("scale-set/batch/1", 1)]
NAMES = list(HOME)

To = str | tuple[str, int]
"""Where a VM may be declared: at home, alone, gone, or in a scope and update domain from `ELSEWHERE`."""


def place_of(name: str, to: To) -> Place | None:
    """What a VM's place becomes; None when it is to be gone."""
    home = HOME[name]
    known = {"home": home, "gone": None, "alone": Place(f"vm/{name}", None, home.spot, home.host)}
    return known[to] if isinstance(to, str) else Place(*to, home.spot, home.host)


def declaration(names: list[str], terminate_notice: int | None, places: dict[str, Place]) -> Declaration:
    groups = (
        Group(GroupKind.AVAILABILITY_SET, "web"),
        Group(GroupKind.CLOUD_SERVICE, "shop"),
        Group(GroupKind.SCALE_SET, "batch", terminate_notice=terminate_notice),
    )
    inhabited = {group_of(place.scope) for place in places.values()}
    declared = tuple(_vm(name, place) for name, place in places.items())
    digest = repr((names, terminate_notice, places))
    return Declaration(
        digest,
        hosts=tuple(map(Host, names)),
        groups=tuple(group for group in groups if group.key in inhabited),
        vms=declared,
    )


def _vm(name: str, place: Place) -> Vm:
    kind, group, *placement_group = place.scope.split("/")
    return Vm(
        name=name,
        address=f"10.0.0.{NAMES.index(name)}",
        group=None if kind == "vm" else f"{kind}/{group}",
        placement_group=int(placement_group[0]) if placement_group else None,
        update_domain=place.domain,
        zone="1" if name == "zonal" else None,
        host=place.host,
        spot=place.spot,
    )


def on_known_host(place: Place, names: list[str]) -> Place:
    return place if place.host in names else Place(place.scope, place.domain, place.spot)
