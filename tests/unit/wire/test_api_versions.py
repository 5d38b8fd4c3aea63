"""The table of api-versions, one row each (B10)."""

import itertools

from duenotice.domain.event import EventType
from duenotice.wire.api_versions import API_VERSIONS, BY_NAME, EVERY_VERSION, SPOT_REBALANCE, ApiVersion, versions_of

FIRST = {EventType.FREEZE, EventType.REBOOT, EventType.REDEPLOY}


def test_the_versions_are_those_of_the_contract_oldest_first() -> None:
    assert [version.name for version in API_VERSIONS] == [
        "2017-03-01",
        "2017-08-01",
        "2017-11-01",
        "2019-01-01",
        "2019-04-01",
        "2019-08-01",
        "2020-07-01",
    ]


def test_each_version_knows_its_place_and_is_found_by_name() -> None:
    assert [version.index for version in EVERY_VERSION] == list(range(len(EVERY_VERSION)))
    assert all(BY_NAME[version.name] is version for version in API_VERSIONS)


def test_the_version_with_advice_is_the_last_and_only_where_it_is_asked_for() -> None:
    assert versions_of(True) == (*versions_of(False), SPOT_REBALANCE)
    assert SPOT_REBALANCE.name not in BY_NAME


def test_a_version_never_knows_fewer_types_than_the_one_before() -> None:
    for older, newer in itertools.pairwise(EVERY_VERSION):
        assert older.types <= newer.types


def test_preempt_came_with_2017_11_and_terminate_with_2019_01() -> None:
    assert BY_NAME["2017-08-01"].types == FIRST
    assert BY_NAME["2017-11-01"].types == FIRST | {EventType.PREEMPT}
    assert BY_NAME["2020-07-01"].types == set(EventType) - {EventType.SPOT_REBALANCE_RECOMMENDATION}
    assert SPOT_REBALANCE.types == set(EventType)


def test_fields_that_came_stayed() -> None:
    def shown(version: ApiVersion) -> tuple[bool, bool, bool]:
        return version.description, version.source, version.duration

    assert [sum(shown(version)) for version in API_VERSIONS] == [0, 0, 0, 0, 1, 2, 3]
    assert shown(BY_NAME["2019-04-01"]) == (True, False, False)
    assert shown(BY_NAME["2019-08-01"]) == (True, True, False)


def test_only_the_preview_has_its_own_ways() -> None:
    """No header needed, an underscore before names, ISO dates."""
    assert [version.name for version in API_VERSIONS if not version.needs_header] == ["2017-03-01"]
    assert [version.name for version in API_VERSIONS if version.underscore] == ["2017-03-01"]
    assert [version.name for version in API_VERSIONS if version.iso_dates] == ["2017-03-01"]
