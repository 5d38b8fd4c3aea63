"""The rows of a timeline: of each lane one bar for each update domain, which can be unfolded into its events. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from duenotice.console.gantt import PAUSED, Drawn, GanttLane, GanttTrack, Stretch, bar_of, packed, state_of
from duenotice.console.words import natural
from duenotice.wire.operator import Maintenance, Step

URGENT = ("failed", "started", "approved", "scheduled", PAUSED, "planned", "completed", "cancelled")
"""How a bar of several events is coloured: like the most urgent of them."""

MOST_PAUSED = 50

TrackOf = Callable[[Drawn], str]


def lanes(
    lives: Iterable[Drawn],
    seen: Stretch,
    now: datetime,
    lanes_of: Callable[[Drawn], Iterable[str]],
    track_of: TrackOf | None = None,
) -> list[GanttLane]:
    """The picture: `lanes_of` tells for each event the lanes it is drawn in, `track_of` its row there."""
    found: dict[str, dict[str, list[Drawn]]] = {}
    for life in lives:
        bar = bar_of(life, seen, now)
        if bar.notice is None and bar.started is None:
            continue
        for key in lanes_of(life):
            found.setdefault(key, {}).setdefault((track_of or track)(life), []).append(life)
    return [
        GanttLane(key, [_track(name, found[key][name], seen, now) for name in sorted(found[key], key=natural)])
        for key in sorted(found, key=natural)
    ]


def track(life: Drawn) -> str:
    """The update domain of an event, or its VM when that stands alone."""
    if life.outcome == PAUSED:
        return PAUSED
    return life.resources[0] if life.update_domain is None and life.resources else f"UD {life.update_domain}"


def merged(lives: Sequence[Drawn]) -> Drawn:
    """Several events of one update domain as if they were one, as urgent as the most urgent of them."""
    if len(lives) == 1:
        return lives[0]
    first = min(lives, key=lambda life: URGENT.index(state_of(life)))
    names = tuple(dict.fromkeys(name for life in lives for name in life.resources))
    ended = [life.ended_at for life in lives if life.ended_at is not None]
    return first._replace(
        id=f"{first.id}-and-{len(lives) - 1}",
        href="",
        type=first.type if len({life.type for life in lives}) == 1 else "Several events",
        resources=names,
        description=f"{len(lives)} events. Unfold the row to see each.",
        raised_at=_first(life.raised_at for life in lives),
        not_before=min(life.not_before for life in lives),
        started_at=_first(life.started_at for life in lives),
        ended_at=max(ended) if len(ended) == len(lives) else None,
        approved_at=None,
        expected_end=max((life.expected_end for life in lives if life.expected_end is not None), default=None),
    )


def paused(plan: Maintenance, steps: Iterable[Step], seen: Stretch, now: datetime) -> list[Drawn]:
    """What waits in a plan until somebody resumes it, the `steps`: one bar for each of its sets, from now on."""
    waiting: dict[str, list[str]] = {}
    for step in steps:
        waiting.setdefault(step.scope, []).extend(step.resources)
    return [_paused(plan, scope, names, seen, now) for scope, names in list(waiting.items())[:MOST_PAUSED]]


def _paused(plan: Maintenance, scope: str, names: list[str], seen: Stretch, now: datetime) -> Drawn:
    begins = max(now, seen.begin)
    return Drawn(
        id=f"{plan.id}-{scope}-paused",
        href=f"/maintenances/{plan.id}",
        type=plan.type,
        scope=scope,
        resources=tuple(names),
        description="Paused: it begins when somebody resumes the maintenance.",
        raised_at=None,
        not_before=begins,
        started_at=begins,
        ended_at=max(seen.end, begins + timedelta(seconds=1)),
        approved_at=None,
        approved_by=None,
        outcome=PAUSED,
    )


def _track(key: str, lives: list[Drawn], seen: Stretch, now: datetime) -> GanttTrack:
    clusters = _clusters(lives, now)
    row = [bar_of(merged(cluster), seen, now) for cluster in clusters]
    if all(len(cluster) == 1 for cluster in clusters):
        return GanttTrack(key, row, [], 0)
    inside, left_out = packed([bar_of(life, seen, now) for life in lives])
    return GanttTrack(key, row, inside, left_out)


def _clusters(lives: list[Drawn], now: datetime) -> list[list[Drawn]]:
    """Those that overlap in time belong together."""
    clusters: list[list[Drawn]] = []
    until: datetime | None = None
    for life in sorted(lives, key=_begin):
        end = life.ended_at or max(life.not_before, now)
        if until is None or _begin(life) >= until:
            clusters.append([life])
            until = end
        else:
            clusters[-1].append(life)
            until = max(until, end)
    return clusters


def _begin(life: Drawn) -> datetime:
    return life.raised_at or life.started_at or life.not_before


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
