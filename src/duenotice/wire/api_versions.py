"""Every api-version of Scheduled Events as one row (B10, S8), and what the doors call types and states of events."""

from dataclasses import dataclass

from duenotice.domain.event import EventType, Phase, Source

ADVICE = "SpotRebalanceRecommendation"
"""Is not a deadline. Only api-version 2024-07-09 shows it, and only services that have that."""

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


_FIRST_TYPES = frozenset({EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY})
_WITH_PREEMPT = _FIRST_TYPES | {EventType.PREEMPT}
_ALL_TYPES = _WITH_PREEMPT | {EventType.TERMINATE}
_WITH_ADVICE = _ALL_TYPES | {EventType.SPOT_REBALANCE_RECOMMENDATION}


@dataclass(frozen=True, slots=True)
class ApiVersion:
    """One version. `index` is its place in `EVERY_VERSION`, oldest first."""

    index: int
    name: str
    types: frozenset[EventType]
    needs_header: bool = True
    underscore: bool = False
    iso_dates: bool = False
    description: bool = False
    source: bool = False
    duration: bool = False


API_VERSIONS = (
    ApiVersion(0, "2017-03-01", _FIRST_TYPES, needs_header=False, underscore=True, iso_dates=True),
    ApiVersion(1, "2017-08-01", _FIRST_TYPES),
    ApiVersion(2, "2017-11-01", _WITH_PREEMPT),
    ApiVersion(3, "2019-01-01", _ALL_TYPES),
    ApiVersion(4, "2019-04-01", _ALL_TYPES, description=True),
    ApiVersion(5, "2019-08-01", _ALL_TYPES, description=True, source=True),
    ApiVersion(6, "2020-07-01", _ALL_TYPES, description=True, source=True, duration=True),
)
"""Those that every service has."""

SPOT_REBALANCE = ApiVersion(7, "2024-07-09", _WITH_ADVICE, description=True, source=True, duration=True)
"""Only a service with the setting `spot_rebalance` has it."""

EVERY_VERSION = (*API_VERSIONS, SPOT_REBALANCE)


def versions_of(spot_rebalance: bool) -> tuple[ApiVersion, ...]:
    """The versions of a service, oldest first."""
    return EVERY_VERSION if spot_rebalance else API_VERSIONS


BY_NAME = {version.name: version for version in API_VERSIONS}
