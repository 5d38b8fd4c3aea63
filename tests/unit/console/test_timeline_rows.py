"""The rows of a timeline: one bar for each update domain, unfolded into its events."""

from datetime import UTC, datetime, timedelta
from typing import Any

from duenotice.console import timeline
from duenotice.wire.operator import Maintenance, Step
from tests.support.answers import a_life

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEEN = timeline.TimeAxis(NOW - timedelta(minutes=50), NOW + timedelta(minutes=50))


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def life(
    *names: str, raised: float = -10, not_before: float = 10, domain: int | None = 0, **more: Any
) -> timeline.TimelineEvent:
    moments = {key: at(more.pop(key)) for key in ("started_at", "ended_at") if key in more}
    told = {"raised_at": at(raised), "not_before": at(not_before), "update_domain": domain}
    return timeline.of_event(a_life(*names or ("web-0",), **told, **moments, **more))


def layout(*lives: timeline.TimelineEvent, key: str = "set/web") -> list[timeline.TimelineGroup]:
    return timeline.layout(lives, SEEN, NOW, lambda _: [key])


def test_events_of_one_update_domain_at_one_time_are_one_bar() -> None:
    (group,) = layout(life("web-0", id="A"), life("web-1", id="B", raised=-20), life("web-2", id="C", domain=1))
    assert [row.key for row in group.rows] == ["UD 0", "UD 1"]
    whole, alone = group.rows
    (bar,) = whole.bars
    assert (bar.notice, bar.href, bar.label) == ((30, 30), "", "Reboot, 2 VMs")
    assert "Reboot of web-1, web-0" in bar.description or "Reboot of web-0, web-1" in bar.description
    assert sorted(one.id for row in whole.inside for one in row) == ["A", "B"]
    assert (alone.inside, alone.bars[0].href) == ([], "/events/C")


def test_events_one_after_the_other_are_bars_of_their_own() -> None:
    over = life(id="A", raised=-40, not_before=-30, started_at=-30, ended_at=-20, outcome="completed")
    (group,) = layout(over, life(id="B"))
    assert [[bar.id for bar in row.bars] for row in group.rows] == [["A", "B"]]
    assert group.rows[0].inside == []


def test_the_bar_of_several_is_as_urgent_as_the_most_urgent() -> None:
    done = life(id="A", raised=-20, not_before=-10, started_at=-10, ended_at=-5, outcome="completed")
    lost = life(id="B", raised=-20, not_before=-10, started_at=-10, ended_at=-6, outcome="failed", type="Freeze")
    merged = timeline.merged_events([done, lost])
    assert (timeline.state_of(merged), merged.type, merged.ended_at) == ("failed", "Several events", at(-5))
    running = life(id="C", raised=-20, not_before=-10, started_at=-10, ends_at=at(5))
    merged = timeline.merged_events([done, running])
    assert (timeline.state_of(merged), merged.ended_at, merged.expected_end) == ("started", None, at(5))


def test_a_vm_alone_has_a_row_of_its_own() -> None:
    (group,) = layout(life("db-1", domain=None), life("db-0", domain=None, id="B"), key="on their own")
    assert [row.key for row in group.rows] == ["db-0", "db-1"]


def test_an_event_may_stand_in_several_lanes_and_out_of_sight_in_none() -> None:
    gone = life(raised=-200, not_before=-150, ended_at=-100, outcome="cancelled")
    found = timeline.layout([life(), gone], SEEN, NOW, lambda _: ["host-10", "host-9"])
    assert [group.key for group in found] == ["host-9", "host-10"]
    assert layout(gone) == []


def test_what_a_paused_plan_leaves_waiting_is_a_bar_from_now_on() -> None:
    steps = [Step("set/web", turn, "set/web", None, (f"web-{turn}",), "waiting", None, "") for turn in (1, 2)]
    plan = Maintenance("P", "Reboot", "maintenance", "paused", "", None, 0.0, 0, 0, {}, {}, ("set/web",), 1)
    (drawn,) = timeline.of_paused_plan(plan, steps, SEEN, NOW)
    (group,) = layout(drawn)
    (bar,) = group.rows[0].bars
    assert (bar.state, bar.started, bar.href, bar.not_before) == ("paused", (50, 50), "/maintenances/P", None)
    assert (group.rows[0].key, bar.label) == ("paused", "Paused: Reboot web-1, web-2")
    assert bar.description == "Reboot of web-1, web-2. Paused: it begins when somebody resumes the maintenance."
