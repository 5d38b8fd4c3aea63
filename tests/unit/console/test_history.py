"""Numbers of days as bars."""

from typing import Any

import pytest

from duenotice.console.history import Chart, _top, charts
from duenotice.wire.operator import PastDay


def day(date: str, **fields: Any) -> PastDay:
    nothing: dict[str, Any] = {
        "types": {},
        "outcomes": {},
        "promised": None,
        "given": None,
        "to_approval": None,
        "impact": None,
    }
    return PastDay(date, **nothing | {"impact_in_all": 0.0, "whole": 0, "cut": 0, "silent": 0} | fields)


def chart(key: str, *days: PastDay) -> Chart:
    return next(one for one in charts(days) if one.key == key)


def test_types_stand_on_each_other() -> None:
    drawn = chart("events", day("2026-03-01", types={"Reboot": 3, "Freeze": 1}), day("2026-03-02"))
    assert [(block.key, block.y, block.height) for block in drawn.blocks] == [("freeze", 75, 25), ("reboot", 0, 75)]
    assert {block.x for block in drawn.blocks} == {6.0}
    assert drawn.legend == [("freeze", "Freeze"), ("reboot", "Reboot")]
    assert drawn.says == "Events: Freeze 1, Reboot 3."


def test_promised_and_given_stand_beside_each_other() -> None:
    drawn = chart("notice", day("2026-03-01", promised=900.0, given=300.0))
    assert [(block.key, block.y, block.width) for block in drawn.blocks] == [("promised", 25, 38), ("given", 75, 38)]
    assert drawn.blocks[0].says == "2026-03-01: promised 15m"
    assert drawn.scale == [(50, "10m"), (0, "20m")]


def test_days_without_anything_make_an_empty_chart() -> None:
    drawn = chart("failures", day("2026-03-01"))
    assert (drawn.is_empty, drawn.says) == (True, "Failed and cancelled: nothing.")


def test_a_year_has_few_labels() -> None:
    days = [day(f"2026-{month:02}-{number:02}") for month in range(1, 13) for number in range(1, 29)]
    assert len(chart("impact", *days).labels) <= 8


def test_no_days_make_no_picture() -> None:
    assert all(one.is_empty and not one.labels for one in charts([]))


@pytest.mark.parametrize(
    ("most", "is_span", "top"),
    [
        (1, False, 2),
        (3, False, 4),
        (5, False, 6),
        (11, False, 20),
        (7000, True, 7200),
    ],
)
def test_the_scale_ends_at_a_round_number(most: float, is_span: bool, top: float) -> None:
    assert _top(most, is_span) == top
