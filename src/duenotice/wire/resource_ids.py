"""The resource ids of a fleet: how the metadata service, the Azure door and what is pushed name a VM or a group."""

from duenotice.domain.fleet import Group, GroupKind, Site, Vm

KINDS = {
    GroupKind.AVAILABILITY_SET: "Microsoft.Compute/availabilitySets",
    GroupKind.CLOUD_SERVICE: "Microsoft.Compute/cloudServices",
    GroupKind.SCALE_SET: "Microsoft.Compute/virtualMachineScaleSets",
}
VM = "Microsoft.Compute/virtualMachines"
INSTANCE = "Microsoft.Compute/virtualMachineScaleSets/virtualMachines"


def id_of_resource_group(site: Site) -> str:
    """What all resource ids begin with: there is one subscription with one resource group."""
    return f"/subscriptions/{site.subscription_id}/resourceGroups/{site.resource_group}"


def id_of_group(group: Group, site: Site) -> str:
    """The id of an availability set, a cloud service or a scale set."""
    return f"{id_of_resource_group(site)}/providers/{KINDS[group.kind]}/{group.name}"


def id_of_vm(vm: Vm, group: Group | None, site: Site) -> str:
    """The id of a VM; an instance of a scale set is below its scale set."""
    if group is not None and group.kind is GroupKind.SCALE_SET:
        return f"{id_of_group(group, site)}/virtualMachines/{instance_id(vm, group)}"
    return f"{id_of_resource_group(site)}/providers/{VM}/{vm.name}"


def instance_id(vm: Vm, group: Group) -> str:
    """The name of an instance within its scale set: `3` for `web_3`."""
    return vm.name.removeprefix(f"{group.name}_")


def kind_of_vm(group: Group | None) -> str:
    """The resource type of a VM that is in this group."""
    return INSTANCE if group is not None and group.kind is GroupKind.SCALE_SET else VM
