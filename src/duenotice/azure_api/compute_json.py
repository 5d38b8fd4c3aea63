"""VMs, scale sets, availability sets and their policies as Microsoft.Compute shows and takes them (M06-M09). Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from msgspec import UNSET, UnsetType

from duenotice.azure_api.shape import AzureJson, AzureProblem
from duenotice.domain.event import PLANNED, Event, EventType, Phase
from duenotice.domain.fleet import PLACEMENT_GROUP_SIZE, EventsPolicy, Group, GroupKind, Site, Vm
from duenotice.domain.rules.creation import in_force
from duenotice.domain.rules.scale_sets import staying
from duenotice.domain.state import State
from duenotice.errors import Malformed
from duenotice.wire.azure import KINDS, id_of_group, id_of_vm, instance_id, kind_of_vm
from duenotice.wire.instance import vm_id
from duenotice.wire.operator.to_domain import check_api_version
from duenotice.wire.spans import parse_duration


class Approving(AzureJson, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Whether such events are approved as soon as they are raised."""

    automatically_approve: bool | None = None


class EventGridAndResourceGraph(AzureJson, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Whether others are told too, and in which version."""

    enable: bool | None = None
    scheduled_events_api_version: str | None = None


class PublishingTargets(AzureJson, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who else is told."""

    event_grid_and_resource_graph: EventGridAndResourceGraph | None = None


class ScheduledEventsPolicy(AzureJson, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What an owner says about events."""

    user_initiated_redeploy: Approving | None = None
    user_initiated_reboot: Approving | None = None
    scheduled_events_additional_publishing_targets: PublishingTargets | None = None
    all_instances_down: Approving | None = None


def policy_of(asked: ScheduledEventsPolicy | None) -> EventsPolicy:
    """What a client asks for, as rules know it."""
    said = asked or ScheduledEventsPolicy()
    targets = said.scheduled_events_additional_publishing_targets or PublishingTargets()
    others = targets.event_grid_and_resource_graph or EventGridAndResourceGraph()
    check_api_version(others.scheduled_events_api_version)
    return EventsPolicy(
        user_initiated_reboot=_is_approved(said.user_initiated_reboot),
        user_initiated_redeploy=_is_approved(said.user_initiated_redeploy),
        all_instances_down=_is_approved(said.all_instances_down),
        event_grid_and_resource_graph=others.enable,
        scheduled_events_api_version=others.scheduled_events_api_version,
    )


def policy_shown(policy: EventsPolicy) -> ScheduledEventsPolicy:
    """What counts: what an owner has said, and for the rest what is usual (M14)."""
    others = EventGridAndResourceGraph(policy.event_grid_and_resource_graph, policy.scheduled_events_api_version)
    return ScheduledEventsPolicy(
        user_initiated_redeploy=Approving(bool(policy.user_initiated_redeploy)),
        user_initiated_reboot=Approving(bool(policy.user_initiated_reboot)),
        scheduled_events_additional_publishing_targets=(
            None if others == EventGridAndResourceGraph() else PublishingTargets(others)
        ),
        all_instances_down=Approving(policy.all_instances_down is not False),
    )


def _is_approved(approving: Approving | None) -> bool | None:
    return None if approving is None else approving.automatically_approve


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


_NAMESPACE = UUID("0b4c6c0a-6a55-4c34-9b6e-2f4a5a1d7a77")


class Sku(AzureJson, frozen=True):
    """Its size, and how many there are or shall be."""

    name: str | None = None
    tier: str | None = None
    capacity: int | None = None


class Notification(AzureJson, frozen=True, forbid_unknown_fields=True):
    """Whether an instance is told before it is deleted or before its OS image is replaced, and how long before."""

    enable: bool | None = None
    not_before_timeout: str | None = None


class ScheduledEventsProfile(AzureJson, frozen=True):
    """What a scale set has set about events."""

    terminate_notification_profile: Notification | UnsetType | None = UNSET
    os_image_notification_profile: Notification | UnsetType | None = UNSET


class InstanceProfile(AzureJson, frozen=True):
    """What new instances are made with, as far as it is known."""

    scheduled_events_profile: ScheduledEventsProfile | UnsetType | None = UNSET
    priority: str | UnsetType = UNSET
    eviction_policy: str | UnsetType = UNSET


class UpgradePolicy(AzureJson, frozen=True):
    """Nothing is upgraded here."""

    mode: str = "Manual"


class ScaleSetProperties(AzureJson, frozen=True):
    """All about a scale set."""

    unique_id: str
    platform_fault_domain_count: int
    single_placement_group: bool
    virtual_machine_profile: InstanceProfile
    scheduled_events_policy: ScheduledEventsPolicy
    provisioning_state: str = "Succeeded"
    orchestration_mode: str = "Uniform"
    overprovision: bool = False
    upgrade_policy: UpgradePolicy = UpgradePolicy()


class ScaleSetShown(AzureJson, frozen=True):
    """As clients read it."""

    id: str
    name: str
    type: str
    location: str
    sku: Sku
    properties: ScaleSetProperties
    zones: tuple[str, ...] | UnsetType = UNSET


class AskedProfile(AzureJson, frozen=True):
    """The part of an instance profile that can be changed."""

    scheduled_events_profile: ScheduledEventsProfile | None = None


class AskedProperties(AzureJson, frozen=True):
    """The part of a scale set that can be changed."""

    virtual_machine_profile: AskedProfile | None = None
    scheduled_events_policy: ScheduledEventsPolicy | None = None


class AskedScaleSet(AzureJson, frozen=True):
    """What a client wants to change of a scale set."""

    sku: Sku | None = None
    properties: AskedProperties | None = None

    @property
    def capacity(self) -> int | None:
        """How many instances there shall be; None: as many as there are."""
        return None if self.sku is None else self.sku.capacity

    @property
    def policy(self) -> ScheduledEventsPolicy | None:
        """What is approved beforehand; None: as it is."""
        return None if self.properties is None else self.properties.scheduled_events_policy

    @property
    def terminate_notice(self) -> int | None:
        """In seconds, 0 for off; None: as it is."""
        notification = self._events.terminate_notification_profile
        return _seconds(notification) if isinstance(notification, Notification) else None

    @property
    def os_image_notice(self) -> bool | None:
        """Whether instances are told before their OS image is replaced (M15); None: as it is."""
        notification = self._events.os_image_notification_profile
        if not isinstance(notification, Notification):
            return None
        text = notification.not_before_timeout
        if text not in (None, _OS_IMAGE_NOTICE):
            message = f"{text[:40]!r} is not a time before the OS image is replaced."
            raise AzureProblem.of(
                400, "InvalidParameter", message, hint=f"Only {_OS_IMAGE_NOTICE} is one.", target=_OS_IMAGE_TIMEOUT
            )
        return notification.enable

    @property
    def _events(self) -> ScheduledEventsProfile:
        profile = None if self.properties is None else self.properties.virtual_machine_profile
        events = None if profile is None else profile.scheduled_events_profile
        return events or ScheduledEventsProfile()


def _seconds(asked: Notification) -> int | None:
    if asked.enable is False:
        return 0
    text = asked.not_before_timeout
    if text is None:
        return 300 if asked.enable else None
    try:
        seconds = parse_duration(text if text.startswith("P") else "")
    except Malformed:
        message = f"{text[:40]!r} is not a duration in ISO 8601."
        raise AzureProblem.of(400, "InvalidParameter", message, hint="Use PT5M to PT15M.", target=_TIMEOUT) from None
    # The rule itself is the domain's; a client that asks for 0 does not mean off.
    return max(1, int(seconds))


_TIMEOUT = "terminateNotificationProfile.notBeforeTimeout"
_OS_IMAGE_TIMEOUT = "osImageNotificationProfile.notBeforeTimeout"
_OS_IMAGE_NOTICE = "PT15M"
"""The only value: the notice of a Reboot (D01)."""


def scale_set_shown(group: Group, state: State) -> ScaleSetShown:
    """As clients read it."""
    vms, site = staying(state, group), state.fleet.site
    size = vms[0].size if vms else Vm("", "").size
    notice = group.terminate_notice
    notification = Notification(True, f"PT{notice // 60}M") if notice else Notification(False, "PT5M")
    profile = InstanceProfile(
        ScheduledEventsProfile(notification, Notification(group.os_image_notice, _OS_IMAGE_NOTICE)),
        "Spot" if group.spot else "Regular",
        "Delete" if group.spot else UNSET,
    )
    return ScaleSetShown(
        id=id_of_group(group, site),
        name=group.name,
        type=KINDS[group.kind],
        location=site.location,
        sku=Sku(size, "Standard", len(vms)),
        properties=ScaleSetProperties(
            unique_id=str(uuid5(_NAMESPACE, group.key)),
            platform_fault_domain_count=group.fault_domains,
            single_placement_group=len(vms) <= PLACEMENT_GROUP_SIZE,
            virtual_machine_profile=profile,
            scheduled_events_policy=policy_shown(group.events_policy),
        ),
        zones=(group.zone,) if group.zone else UNSET,
    )


class StatusCount(AzureJson, frozen=True):
    """How many instances have a status."""

    code: str
    count: int


class InstancesSummary(AzureJson, frozen=True):
    """The instances in numbers."""

    statuses_summary: tuple[StatusCount, ...]


class ScaleSetView(AzureJson, frozen=True):
    """A scale set as it is now."""

    virtual_machine: InstancesSummary
    statuses: tuple[InstanceStatus, ...]


def view_of_scale_set(group: Group, state: State) -> ScaleSetView:
    """Its instances in numbers."""
    count = sum(vm.group == group.key for vm in state.fleet.vms.values())
    statuses = (StatusCount("ProvisioningState/succeeded", count), StatusCount("PowerState/running", count))
    done = InstanceStatus("ProvisioningState/succeeded", "Provisioning succeeded")
    return ScaleSetView(InstancesSummary(statuses), (done,))


class SetProperties(AzureJson, frozen=True):
    """All about an availability set."""

    platform_update_domain_count: int
    platform_fault_domain_count: int
    virtual_machines: tuple[SubResource, ...]
    scheduled_events_policy: ScheduledEventsPolicy


class SetShown(AzureJson, frozen=True):
    """An availability set, with its VMs."""

    id: str
    name: str
    type: str
    location: str
    properties: SetProperties
    sku: Sku = Sku("Aligned")


def set_shown(group: Group, vms: list[Vm], site: Site) -> SetShown:
    """As clients read it."""
    members = tuple(SubResource(id_of_vm(vm, group, site)) for vm in vms)
    return SetShown(
        id=id_of_group(group, site),
        name=group.name,
        type=KINDS[group.kind],
        location=site.location,
        properties=SetProperties(group.update_domains, group.fault_domains, members, policy_shown(group.events_policy)),
    )
