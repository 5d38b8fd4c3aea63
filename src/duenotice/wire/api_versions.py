"""Every api-version of Scheduled Events as one row: what it shows and what it asks for (B10, S8)."""

from dataclasses import dataclass

from duenotice.domain.event import EventType

_FIRST_TYPES = frozenset({EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY})
_WITH_PREEMPT = _FIRST_TYPES | {EventType.PREEMPT}
_ALL_TYPES = _WITH_PREEMPT | {EventType.TERMINATE}


@dataclass(frozen=True, slots=True)
class ApiVersion:
    """One version. `index` is its place in `API_VERSIONS`, oldest first."""

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

BY_NAME = {version.name: version for version in API_VERSIONS}

NEWEST_NAMES = tuple(version.name for version in API_VERSIONS[:-4:-1])
"""What an answer to a wrong version recommends (A04)."""
