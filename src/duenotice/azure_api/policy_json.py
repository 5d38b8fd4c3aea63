"""`scheduledEventsPolicy` as Microsoft.Compute has it, and as the domain does (M09). Pure."""

from duenotice.azure_api.shape import AzureJson
from duenotice.domain.fleet import EventsPolicy
from duenotice.wire.operator.to_domain import check_api_version


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
        user_initiated_reboot=_asked(said.user_initiated_reboot),
        user_initiated_redeploy=_asked(said.user_initiated_redeploy),
        all_instances_down=_asked(said.all_instances_down),
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


def _asked(approving: Approving | None) -> bool | None:
    return None if approving is None else approving.automatically_approve
