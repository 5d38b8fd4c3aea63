"""The question before a plan hits VMs that nobody would warn, and what is said after it has begun."""

from collections.abc import Iterable
from datetime import timedelta

from duenotice.console.attention import count
from duenotice.console.words import thousands
from duenotice.wire.operator import PlannedStep


def without_notice(timeline: Iterable[PlannedStep]) -> int:
    """How many VMs would be hit although nobody there has read of it, or as soon as their step begins (F03)."""
    silent = (step for step in timeline if step.silent or step.starts_at - step.scheduled_at <= timedelta(seconds=1))
    return sum(len(step.resources) for step in silent)


def question(timeline: tuple[PlannedStep, ...]) -> str:
    """What has to be asked first; empty when every VM gets its notice."""
    silent, all_ = without_notice(timeline), sum(len(step.resources) for step in timeline)
    if not silent:
        return ""
    now = "it happens now" if len(timeline) == 1 else "it happens as soon as their step begins"
    return f"Nobody listens on {thousands(silent)} of {count(all_, 'VM')}: there {now}, without notice."


def begun(timeline: tuple[PlannedStep, ...]) -> str:
    """What has happened."""
    silent = without_notice(timeline)
    return "The maintenance has begun." + (f" {count(silent, 'VM')} without notice." if silent else "")
