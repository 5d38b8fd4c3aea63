"""What a VM is told about itself: the instance document of the metadata service (A12). Pure."""

from typing import TypeGuard
from uuid import UUID, uuid5

import msgspec

from duenotice.domain.fleet import Group, GroupKind, Site, Vm
from duenotice.errors import NotFound
from duenotice.wire.api_versions import BY_NAME
from duenotice.wire.azure import id_of_vm

INSTANCE_VERSIONS = (
    "2017-03-01",
    "2017-04-02",
    "2017-08-01",
    "2017-10-01",
    "2017-12-01",
    "2018-02-01",
    "2018-04-02",
    "2018-10-01",
    "2019-02-01",
    "2019-03-11",
    "2019-04-30",
    "2019-06-01",
    "2019-06-04",
    "2019-08-01",
    "2019-08-15",
    "2019-11-01",
    "2020-06-01",
    "2020-07-15",
    "2020-09-01",
    "2020-10-01",
    "2020-12-01",
    "2021-01-01",
    "2021-02-01",
    "2021-03-01",
    "2021-05-01",
    "2021-08-01",
    "2021-10-01",
    "2021-11-01",
    "2021-11-15",
    "2021-12-13",
    "2023-07-01",
    "2023-11-15",
    "2024-03-15",
    "2024-07-17",
    "2025-04-07",
)
"""The api-versions of the instance document, oldest first; all show the same."""

ANSWERED_VERSIONS = tuple(sorted({*INSTANCE_VERSIONS, *BY_NAME}))
"""The versions it may be asked for in. Those of the events are included, for clients that use one version for both."""

_NAMESPACE = UUID("6f0bd3a5-57a4-4b0e-9d43-0f2b8f1f6c11")
_MAC_PREFIX = "000D3A"

Node = str | dict[str, "Node"] | list["Node"]


def describe(vm: Vm, group: Group | None, site: Site) -> Node:
    """The whole instance document; every leaf is a string, as in the real one."""
    return {"compute": _compute(vm, group, site), "network": _network(vm)}


def find(node: Node, path: tuple[str, ...]) -> Node:
    """The node under a path of keys, in upper or lower case, and of positions in lists."""
    for part in path:
        children = _children(node)
        if part.lower() not in children:
            raise NotFound(f"Not found. There is no {'/'.join(path)}.", hint="Ask for /metadata/instance.")
        node = children[part.lower()]
    return node


def as_json(node: Node) -> bytes:
    """The node in JSON."""
    return msgspec.json.encode(node)


def as_text(node: Node) -> bytes:
    """A leaf as it is; other nodes as the names in them, one a line, with a slash after names that contain more."""
    if isinstance(node, str):
        return node.encode()
    if isinstance(node, list):
        node = {str(place): child for place, child in enumerate(node)}
    return "\n".join(name if isinstance(child, str) else f"{name}/" for name, child in node.items()).encode()


def vm_id(vm: Vm) -> str:
    """Always the same for a name, so that a client may store it."""
    return str(uuid5(_NAMESPACE, f"vm/{vm.name}"))


def _children(node: Node) -> dict[str, Node]:
    if isinstance(node, dict):
        return {name.lower(): child for name, child in node.items()}
    return {str(place): child for place, child in enumerate(node)} if isinstance(node, list) else {}


def _compute(vm: Vm, group: Group | None, site: Site) -> dict[str, Node]:
    return {
        "azEnvironment": "AzurePublicCloud",
        "customData": "",
        "evictionPolicy": "Delete" if vm.spot else "",
        "location": site.location,
        "name": vm.name,
        "offer": "",
        "osProfile": {"adminUsername": "", "computerName": vm.name, "disablePasswordAuthentication": "true"},
        "osType": vm.os,
        "placementGroupId": _placement_group_id(vm),
        "plan": {"name": "", "product": "", "publisher": ""},
        "platformFaultDomain": str(vm.fault_domain or 0),
        "platformUpdateDomain": str(vm.update_domain or 0),
        "priority": "Spot" if vm.spot else "Regular",
        "provider": "Microsoft.Compute",
        "publicKeys": [],
        "publisher": "",
        "resourceGroupName": site.resource_group,
        "resourceId": id_of_vm(vm, group, site),
        "sku": "",
        "subscriptionId": site.subscription_id,
        "tags": ";".join(f"{name}:{value}" for name, value in vm.tags),
        "tagsList": [{"name": name, "value": value} for name, value in vm.tags],
        "userData": "",
        "version": "",
        "vmId": vm_id(vm),
        "vmScaleSetName": group.name if _is_scale_set(group) else "",
        "vmSize": vm.size,
        "zone": vm.zone or "",
    }


def _is_scale_set(group: Group | None) -> TypeGuard[Group]:
    return group is not None and group.kind is GroupKind.SCALE_SET


def _placement_group_id(vm: Vm) -> str:
    """One GUID per placement group; empty for a VM that is in none."""
    if vm.placed_in is None:
        return ""
    return str(uuid5(_NAMESPACE, f"placement-group/{vm.group}/{vm.placed_in}"))


def _network(vm: Vm) -> dict[str, Node]:
    address: Node = {"privateIpAddress": vm.address, "publicIpAddress": ""}
    is_ipv6 = ":" in vm.address
    subnet: Node = {"address": f"{vm.address.rpartition('.')[0]}.0", "prefix": "24"}
    interface: Node = {
        "ipv4": {"ipAddress": [] if is_ipv6 else [address], "subnet": [] if is_ipv6 else [subnet]},
        "ipv6": {"ipAddress": [address] if is_ipv6 else []},
        "macAddress": _MAC_PREFIX + uuid5(_NAMESPACE, f"mac/{vm.name}").hex[:6].upper(),
    }
    return {"interface": [interface]}
