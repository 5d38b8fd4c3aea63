"""What both doors call the types, states and sources of events."""

from duenotice.domain.event import EventType, Phase, Source

TYPE_NAMES = {
    EventType.FREEZE: "Freeze",
    EventType.REBOOT: "Reboot",
    EventType.REDEPLOY: "Redeploy",
    EventType.PREEMPT: "Preempt",
    EventType.TERMINATE: "Terminate",
    EventType.SPOT_REBALANCE_RECOMMENDATION: "SpotRebalanceRecommendation",
}
ADVICE = TYPE_NAMES[EventType.SPOT_REBALANCE_RECOMMENDATION]
"""The type that is not a deadline: nothing starts at its NotBefore."""
STATUS_NAMES = {Phase.SCHEDULED: "Scheduled", Phase.STARTED: "Started"}
SOURCE_NAMES = {Source.PLATFORM: "Platform", Source.USER: "User"}
