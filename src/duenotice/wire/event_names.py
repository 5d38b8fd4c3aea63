"""What both doors call the types, states and sources of events."""

from duenotice.domain.event import EventType, Phase, Source
from duenotice.wire.advice import ADVICE

TYPE_NAMES = {
    EventType.FREEZE: "Freeze",
    EventType.REBOOT: "Reboot",
    EventType.REDEPLOY: "Redeploy",
    EventType.PREEMPT: "Preempt",
    EventType.TERMINATE: "Terminate",
    EventType.SPOT_REBALANCE_RECOMMENDATION: ADVICE,
}
STATUS_NAMES = {Phase.SCHEDULED: "Scheduled", Phase.STARTED: "Started"}
SOURCE_NAMES = {Source.PLATFORM: "Platform", Source.USER: "User"}
