"""What both doors call the types, states and sources of events."""

from duenotice.domain.event import EventType, Phase, Source

TYPE_NAMES = {
    EventType.FREEZE: "Freeze",
    EventType.REBOOT: "Reboot",
    EventType.REDEPLOY: "Redeploy",
    EventType.PREEMPT: "Preempt",
    EventType.TERMINATE: "Terminate",
}
STATUS_NAMES = {Phase.SCHEDULED: "Scheduled", Phase.STARTED: "Started"}
SOURCE_NAMES = {Source.PLATFORM: "Platform", Source.USER: "User"}
