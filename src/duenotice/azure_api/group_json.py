"""Scale sets and availability sets as Microsoft.Compute shows and takes them (M07-M09). Pure."""

from uuid import UUID, uuid5

from msgspec import UNSET, UnsetType

from duenotice.azure_api.compute_json import InstanceStatus, SubResource
from duenotice.azure_api.policy_json import ScheduledEventsPolicy, policy_shown
from duenotice.azure_api.shape import AzureJson, AzureProblem
from duenotice.domain.fleet import PLACEMENT_GROUP_SIZE, Group, Site, Vm
from duenotice.domain.rules.scale_sets import staying
from duenotice.domain.state import State
from duenotice.errors import Malformed
from duenotice.wire.azure import KINDS, id_of_group, id_of_vm
from duenotice.wire.spans import parse_duration

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
