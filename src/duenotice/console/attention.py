"""What needs a person, in words: one line for each thing, with the page where it can be dealt with. Pure."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from duenotice.console.formats import some, some_of, thousands
from duenotice.wire import operator as w

OVER = ("done", "failed", "cancelled")
MOST_VMS = 20
"""VMs that one line names."""


class AttentionItem(NamedTuple):
    """One thing that needs a person, and since when if that is known; `kind` is bad or warn."""

    key: str
    kind: str
    says: str
    more: str
    href: str
    since: datetime | None = None


def attention_items(seen: w.Attention) -> list[AttentionItem]:
    """All of them, what has failed first."""
    found = [*_plans(seen), *_events(seen), *_hosts(seen), *_without_notice(seen)]
    return sorted(found, key=lambda item: item.kind != "bad")


def open_plans(seen: w.Attention | None) -> list[w.PlanGlance]:
    """The plans that go on or wait; while there is one, nobody may read that nothing is planned."""
    return [plan for plan in (seen.plans if seen else ()) if plan.status not in OVER]


def title_of(plan: w.PlanGlance) -> str:
    """`Drain host-1` when that was asked for, else `Reboot of set/web`."""
    return plan.title or f"{plan.type} of {some(plan.groups, 2)}"


def place(step: w.StepGlance) -> str:
    """`set/web, update domain 2 (3 VMs)`; a VM alone has no update domain."""
    alone = step.group.startswith("vm/")
    where = step.group.removeprefix("vm/") if alone else f"{step.group}, update domain {step.domain}"
    return where if alone else f"{where} ({count(step.vms, 'VM')})"


def places(steps: Sequence[w.StepGlance]) -> str:
    """The first of some steps."""
    return some([place(step) for step in steps], 2)


def count(number: int, what: str) -> str:
    """`1 VM`, `1,200 VMs`."""
    return f"{thousands(number)} {what}{'' if number == 1 else 's'}"


def _plans(seen: w.Attention) -> Iterator[AttentionItem]:
    for plan in seen.plans:
        href, left = f"/maintenances/{plan.id}", plan.progress["waiting"]
        if plan.status == "failed":
            failed = f"{plan.progress['failed']} of {count(plan.steps, 'step')} failed"
            not_run = f", {left} did not run" if left else ""
            yield AttentionItem(
                f"plan-{plan.id}", "bad", f"Maintenance failed: {title_of(plan)}", f"{failed}{not_run}.", href
            )
        elif plan.status == "paused":
            waits = f"{count(left, 'step')} wait{'s' if left == 1 else ''} until somebody resumes it."
            yield AttentionItem(f"plan-{plan.id}", "warn", f"Maintenance is paused: {title_of(plan)}", waits, href)


def _events(seen: w.Attention) -> Iterator[AttentionItem]:
    """A line for what failed alike: its VMs, why, and since when."""
    alike: dict[tuple[str, str], list[w.FailedEvent]] = {}
    for failure in seen.failures:
        alike.setdefault((failure.type, failure.reason), []).append(failure)
    for (kind, reason), failures in alike.items():
        first, vms = failures[0], [name for failure in failures for name in failure.resources]
        says = f"{kind} of {some_of(vms, sum(failure.vms for failure in failures), MOST_VMS)} failed"
        href = f"/events/{first.id}" if len(failures) == 1 else "/events?state=failed"
        yield AttentionItem(
            f"event-{first.id}", "bad", says, reason, href, min(failure.ended_at for failure in failures)
        )
    if more := seen.failed_events - len(seen.failures):
        yield AttentionItem("events", "bad", f"{count(more, 'more event')} failed", "", "/events?state=failed")


def _hosts(seen: w.Attention) -> Iterator[AttentionItem]:
    ill = sum(number for condition, number in seen.hosts.items() if condition != "healthy")
    for condition, kind, one, many in (
        ("failed", "bad", "has failed", "have failed"),
        ("degraded", "warn", "may fail", "may fail"),
        ("suspect", "warn", "is suspect: a VM has reported it", "are suspect: VMs have reported them"),
    ):
        number = seen.hosts.get(condition, 0)
        if number == 1 == ill:
            name = seen.ill_hosts[0]
            yield AttentionItem(f"hosts-{condition}", kind, f"Host {name} {one}", "", f"/hosts/{name}")
        elif number:
            says = f"{count(number, 'host')} {one if number == 1 else many}"
            yield AttentionItem(f"hosts-{condition}", kind, says, some(seen.ill_hosts), "/hosts")


def _without_notice(seen: w.Attention) -> Iterator[AttentionItem]:
    if seen.silent:
        says = f"{thousands(seen.silent)} of {count(seen.vms, 'VM')} would get no notice"
        yield AttentionItem(
            "silent", "warn", says, "Nobody there has asked for events in the last 24 hours.", "/?listens=false"
        )


FILTERS: dict[str, Callable[..., object]] = {
    "attention_items": attention_items,
    "plan_title": title_of,
    "place": place,
    "places": places,
    "count_of": count,
}
