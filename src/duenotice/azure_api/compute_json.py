"""VMs and groups as Microsoft.Compute shows them (M06-M09). Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import UNSET, UnsetType

from duenotice.azure_api.policy_json import ScheduledEventsPolicy, policy_shown
from duenotice.azure_api.shape import AzureJson
from duenotice.domain.event import PLANNED, Event, EventType, Phase
from duenotice.domain.fleet import Group, GroupKind, Vm
from duenotice.domain.rules.creation import in_force
from duenotice.domain.state import State
from duenotice.wire.azure import id_of_group, id_of_vm, instance_id, kind_of_vm
from duenotice.wire.instance import vm_id


class SubResource(AzureJson, frozen=True):
    """A link to another resource."""

    id: str


class InstanceStatus(AzureJson, frozen=True):
    """One thing that is true of a VM."""

    code: str
    display_status: str
    level: str = "Info"


class MaintenanceRedeployStatus(AzureJson, frozen=True):
    """What is planned for a VM, and whether its owner may have it now."""

    is_customer_initiated_maintenance_allowed: bool
    maintenance_window_start_time: datetime
    pre_maintenance_window_end_time: datetime
    maintenance_window_end_time: datetime | UnsetType = UNSET
    last_operation_result_code: str = "None"


class InstanceView(AzureJson, frozen=True):
    """A VM as it is now."""

    computer_name: str
    os_name: str
    statuses: tuple[InstanceStatus, ...]
    platform_update_domain: int | UnsetType = UNSET
    platform_fault_domain: int | UnsetType = UNSET
    maintenance_redeploy_status: MaintenanceRedeployStatus | UnsetType = UNSET


class HardwareProfile(AzureJson, frozen=True):
    """Its size."""

    vm_size: str


class OsDisk(AzureJson, frozen=True):
    """Only its system is known."""

    os_type: str
    create_option: str = "FromImage"


class StorageProfile(AzureJson, frozen=True):
    """Disks as far as they are known."""

    os_disk: OsDisk
    data_disks: tuple[()] = ()


class OsProfile(AzureJson, frozen=True):
    """Its name inside."""

    computer_name: str


class VmProperties(AzureJson, frozen=True):
    """All about a VM."""

    vm_id: str
    hardware_profile: HardwareProfile
    storage_profile: StorageProfile
    os_profile: OsProfile
    priority: str
    scheduled_events_policy: ScheduledEventsPolicy
    provisioning_state: str = "Succeeded"
    eviction_policy: str | UnsetType = UNSET
    availability_set: SubResource | UnsetType = UNSET
    instance_view: InstanceView | UnsetType = UNSET


class VmShown(AzureJson, frozen=True):
    """A VM, or an instance of a scale set."""

    id: str
    name: str
    type: str
    location: str
    properties: VmProperties
    tags: Mapping[str, str]
    zones: tuple[str, ...] | UnsetType = UNSET
    instance_id: str | UnsetType = UNSET


def vm_shown(vm: Vm, state: State, view: InstanceView | UnsetType = UNSET) -> VmShown:
    """As clients read it; with `view` also as it is now."""
    fleet = state.fleet
    group = fleet.groups.get(vm.group) if vm.group else None
    return VmShown(
        id=id_of_vm(vm, group, fleet.site),
        name=vm.name,
        type=kind_of_vm(group),
        location=fleet.site.location,
        properties=_properties(vm, group, state, view),
        tags=dict(vm.tags),
        zones=(vm.zone,) if vm.zone else UNSET,
        instance_id=instance_id(vm, group) if group is not None and group.kind is GroupKind.SCALE_SET else UNSET,
    )


def _properties(vm: Vm, group: Group | None, state: State, view: InstanceView | UnsetType) -> VmProperties:
    in_set = group is not None and group.kind is GroupKind.AVAILABILITY_SET
    return VmProperties(
        vm_id=vm_id(vm),
        hardware_profile=HardwareProfile(vm.size),
        storage_profile=StorageProfile(OsDisk(vm.os)),
        os_profile=OsProfile(vm.name),
        priority="Spot" if vm.spot else "Regular",
        eviction_policy="Delete" if vm.spot else UNSET,
        availability_set=SubResource(id_of_group(group, state.fleet.site)) if group is not None and in_set else UNSET,
        instance_view=view,
        scheduled_events_policy=policy_shown(in_force(state, vm)),
    )


_PROVISIONED = InstanceStatus("ProvisioningState/succeeded", "Provisioning succeeded")
_RUNNING = InstanceStatus("PowerState/running", "VM running")
_LEAVING = InstanceStatus("PowerState/stopping", "VM stopping")
_LEAVES = (EventType.PREEMPT, EventType.TERMINATE)


def view_of(vm: Vm, state: State) -> InstanceView:
    """A VM as it is now, with what is planned for it."""
    events = state.events_of(vm)
    leaves = any(event.type in _LEAVES and event.phase is Phase.STARTED for event in events)
    return InstanceView(
        computer_name=vm.name,
        os_name=vm.os,
        statuses=(_PROVISIONED, _LEAVING if leaves else _RUNNING),
        platform_update_domain=UNSET if vm.update_domain is None else vm.update_domain,
        platform_fault_domain=UNSET if vm.fault_domain is None else vm.fault_domain,
        maintenance_redeploy_status=_planned(events),
    )


def _planned(events: list[Event]) -> MaintenanceRedeployStatus | UnsetType:
    """The first that is planned, if any."""
    event = min((event for event in events if event.cause in PLANNED), key=lambda event: event.not_before, default=None)
    if event is None:
        return UNSET
    ends = UNSET if event.duration < 0 else event.not_before + timedelta(seconds=event.duration)
    may_go = event.phase is Phase.SCHEDULED and not event.approved_by
    return MaintenanceRedeployStatus(may_go, event.not_before, event.not_before, ends)
