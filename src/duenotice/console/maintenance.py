"""The pages of maintenances: all of them, one with its steps, the form with its preview, and the calendar."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import NamedTuple

from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied
from duenotice.console import timeline
from duenotice.console.attention import count
from duenotice.console.formats import address, some, some_of, thousands
from duenotice.console.visit import ShownRows, Visit, form_of, page_of, redirect, refusal_text, status_of
from duenotice.errors import DuenoticeError, Malformed, NotFound
from duenotice.wire.operator import (
    Event,
    FailedEvent,
    Maintenance,
    MaintenanceRequest,
    Page,
    PlannedStep,
    Step,
    Timeline,
)

ACTIONS: dict[str, tuple[Callable[..., Awaitable[object]], str, str]] = {
    "pause": (
        AsyncOperatorClient.pause_maintenance,
        "",
        "Paused: events that were announced go on, no new step begins.",
    ),
    "resume": (AsyncOperatorClient.resume_maintenance, "window", "Resumed."),
    "retry": (AsyncOperatorClient.retry_maintenance, "window", "Failed steps are tried again."),
    "acknowledge": (
        AsyncOperatorClient.acknowledge_maintenance,
        "note",
        "Acknowledged: what has failed needs nobody any more.",
    ),
    "cancel": (AsyncOperatorClient.cancel_maintenance, "", "Cancelled."),
}
"""What each button asks for, the field of the form that goes with it, and what is said then."""

TYPES = ("Reboot", "Freeze", "Redeploy")
ORDERS = (("update-domain", "update domain"), ("fault-domain", "fault domain (Freeze only)"))
CONSENTS = (("scope", "its own scope"), ("host", "all scopes on its host"))
CAUSES = (("maintenance", "host maintenance"), ("live-migration", "live migration"))
DEFAULTS = {
    "on": "", "type": TYPES[0], "cause": CAUSES[0][0], "settle": "5m", "at_once": "0", "failures_allowed": "0",
    "description": "", "start": "", "window": "", "consent": CONSENTS[0][0],
    "by": ORDERS[0][0],
}  # fmt: skip
WHEN_EMPTY = {
    "type": "", "settle": "0s", "at_once": "0", "failures_allowed": "0", "cause": CAUSES[0][0],
    "consent": CONSENTS[0][0], "by": ORDERS[0][0],
}  # fmt: skip
"""What an empty field of the form means."""

MOST_TARGETS = 500
MOST_PLANS = 200
MOST_STEPS = 200
"""Steps on one page, and coming steps in its picture."""
MOST_STEPS_AHEAD = 2000
"""Steps left up to which a plan of the calendar is looked ahead."""

MOST_IN_CALENDAR = 20
MOST_EVENTS = 500
OPEN = ("running", "paused")
WEEKS = 5
"""How many weeks a calendar shows."""


async def maintenances_page(visit: Visit) -> Response:
    """All plans: those that have failed and need a person, then the newest."""
    failed = {each.maintenance for each in _failures(visit)}
    plans = (await visit.client.maintenances().all())[::-1]
    plans = sorted(plans, key=lambda plan: plan.id not in failed)[:MOST_PLANS]
    ends = {plan.id: None for plan in plans} | _expected_ends(visit)
    return visit.page("maintenances.html", "Maintenance", "maintenances", plans=plans, ends=ends)


async def maintenance_page(visit: Visit) -> Response:
    """One maintenance: its progress, its past, its coming steps, and a page of all of its steps."""
    plan = await visit.client.maintenance(visit.name("id"))
    steps, page = await _steps(visit, plan)
    begun = [await _event_of_step(visit, step.event_id) for step in steps.items if step.event_id]
    ahead = await visit.client.outlook(plan.id, limit=MOST_STEPS)
    coming = [timeline.of_step(step, plan.type, plan.id) for step in ahead.timeline]
    events = [event for event in begun if event] + coming
    axis = timeline.axis_around(events, visit.now)
    if plan.status == "paused":
        waiting = await visit.client.steps(plan.id, status="waiting").first(MOST_STEPS)
        events += timeline.of_paused_plan(plan, waiting, axis, visit.now)
    return visit.page(
        "maintenance.html",
        title_of(plan),
        f"maintenance:{plan.id} events",
        plan=plan,
        steps=[(step_state(plan, step), step) for step in steps.items],
        paging=ShownRows(page, sum(plan.progress.values()), MOST_STEPS),
        ends_at=_expected_ends(visit).get(plan.id),
        left_out=ahead.left_out,
        unresolved=[each for each in _failures(visit) if each.maintenance == plan.id],
        picture=timeline.picture(events, axis, visit.now, lambda event: [event.scope]),
        link=partial(address, f"/maintenances/{plan.id}", {}),
    )


async def maintenance_action(visit: Visit) -> Response:
    """Pause, resume, retry, acknowledge or cancel it."""
    plan_id, action = visit.name("id"), visit.name("action")
    if action not in ACTIONS:
        raise NotFound(f"There is no action {action}.", hint="Use the buttons of the maintenance's page.")
    act, field, done = ACTIONS[action]
    given = {field: (await form_of(visit.request)).get(field, "")} if field else {}
    return await visit.submit(f"/maintenances/{plan_id}", lambda: act(visit.client, plan_id, **given), done)


def _failures(visit: Visit) -> Sequence[FailedEvent]:
    """What has failed, and nobody has dealt with it: the newest."""
    return visit.attention.failures if visit.attention else ()


def _expected_ends(visit: Visit) -> dict[str, datetime | None]:
    """When plans that run should be over, as far as that is known."""
    return {plan.id: plan.ends_at for plan in visit.attention.plans} if visit.attention else {}


async def _steps(visit: Visit, plan: Maintenance) -> tuple[Page[Step], int]:
    """The steps of the page that the address asks for, and its number."""
    if not plan.steps_kept:
        return Page((), None), 1
    page = page_of(visit)
    listing, begin = visit.client.steps(plan.id), (page - 1) * MOST_STEPS
    found = await listing.page(str(begin), MOST_STEPS)
    while found.next is not None and len(found.items) < MOST_STEPS:  # a page ends at its bytes
        more = await listing.page(found.next, MOST_STEPS - len(found.items))
        found = Page((*found.items, *more.items), more.next)
    return found, page


async def _event_of_step(visit: Visit, event_id: str) -> timeline.TimelineEvent | None:
    try:
        return timeline.of_event(await visit.client.event_life(event_id))
    except DuenoticeError:
        return None  # so long ago that only its outcome is known


class PlanTarget(NamedTuple):
    """Something that can be chosen for a maintenance."""

    kind: str
    name: str
    vms: int

    @property
    def on(self) -> str:
        """How it is chosen: `set=web`."""
        return f"{self.kind}={self.name}"


async def new_page(visit: Visit) -> Response:
    """The form; the preview follows what is typed."""
    if not visit.may("operator"):
        raise Denied("Your token may not plan a maintenance.", hint="Ask for an operator's token.")
    return await _form(visit, DEFAULTS | {"on": visit.query("on")})


async def preview_part(visit: Visit) -> Response:
    """The timeline that the form's plan would make; nothing changes."""
    given = DEFAULTS | dict(visit.request.query_params)
    preview = NO_PREVIEW | {"question": visit.query("asked")}
    try:
        ahead = await visit.client.preview_maintenance(_request(given))
    except DuenoticeError as problem:
        return visit.parts("maintenance_preview.html", **preview | {"problem": refusal_text(problem)})
    if ahead.timeline:
        events = [timeline.of_step(step, given["type"]) for step in ahead.timeline]
        axis = timeline.axis_around(events, visit.now)
        preview["ahead"] = ahead
        preview["picture"] = timeline.picture(events, axis, visit.now, lambda event: [event.scope])
    preview["later"] = bool(given["start"] or given["window"].strip())
    return visit.parts("maintenance_preview.html", **preview)


NO_PREVIEW: dict[str, object] = {"ahead": None, "picture": None, "problem": "", "later": False, "question": ""}


async def begin(visit: Visit) -> Response:
    """Begin it and show it; if it is refused, the form stays filled in."""
    given = DEFAULTS | await form_of(visit.request)
    try:
        ahead = await visit.client.preview_maintenance(_request(given), limit=1)
        if not given.get("sure") and (question := without_notice(ahead)):
            return await _form(visit, given, question=question)
        plan = await visit.client.begin_maintenance(_request(given))
    except DuenoticeError as problem:
        return await _form(visit, given, refusal_text(problem), status_of(problem))
    return redirect(f"/maintenances/{plan.id}", done=begun_message(ahead))


def without_notice(ahead: Timeline) -> str:
    """What has to be asked first; empty when every VM gets its notice."""
    if not ahead.silent:
        return ""
    now = "it happens now" if ahead.steps == 1 else "it happens as soon as their step begins"
    return f"Nobody listens on {thousands(ahead.silent)} of {count(ahead.vms, 'VM')}: there {now}, without notice."


def begun_message(ahead: Timeline) -> str:
    """What has happened."""
    return "The maintenance has begun." + (f" {count(ahead.silent, 'VM')} without notice." if ahead.silent else "")


async def _form(
    visit: Visit, given: dict[str, str], problem: str = "", status: int = 200, question: str = ""
) -> Response:
    groups, hosts = await visit.client.groups().first(MOST_TARGETS), await visit.client.hosts().first(MOST_TARGETS)
    targets = [PlanTarget(group.kind, group.name, group.vms) for group in groups]
    targets += [PlanTarget("host", host.name, host.vms) for host in hosts]
    form = {
        "targets": targets,
        "more_targets": MOST_TARGETS in (len(groups), len(hosts)),
        "types": TYPES,
        "causes": CAUSES,
        "consents": CONSENTS,
        "orders": ORDERS,
        "given": given,
        "refused": problem,
        "question": question,
    }
    return visit.page("maintenance_new.html", "Plan a maintenance", "", status, **NO_PREVIEW | form)


def _request(given: Mapping[str, str]) -> MaintenanceRequest:
    """The plan from the fields of the form; what is empty is as usual."""
    asked = {key: given[key].strip() or default for key, default in WHEN_EMPTY.items()}
    return MaintenanceRequest(
        on=tuple(part.strip() for part in given["on"].split(",") if part.strip()),
        type=asked["type"],
        settle=asked["settle"],
        at_once=_number(asked["at_once"]),
        failures_allowed=_number(asked["failures_allowed"]),
        description=given["description"].strip() or None,
        cause=asked["cause"],
        start=_start(given["start"].strip()),
        window=given["window"].strip(),
        consent=asked["consent"],
        by=asked["by"],
    )


def _start(text: str) -> datetime | None:
    """A planned start as browsers write it: without an offset, and here in UTC."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(f"{text[:30]!r} is not a time.", hint="Write it like 2026-11-22T02:00.") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _number(text: str) -> int:
    if text.isdecimal() and len(text) < 10:
        return int(text)
    raise Malformed(f"{text[:20]!r} is not a number.", hint="Use whole numbers.")


def title_of(plan: Maintenance) -> str:
    """`Drain host-1` when that was asked for, else `Reboot of set/web`."""
    return plan.title or f"{plan.type} of {some_of(plan.groups, plan.groups_in_all, 2)}"


def step_state(plan: Maintenance, step: Step) -> str:
    """How a step stands; one that waits in a plan that is over was not run, and will not be."""
    return "not run" if step.status == "waiting" and plan.status not in OPEN else step.status


class StepShare(NamedTuple):
    """How many steps stand alike; `left` and `width` in percent of all."""

    state: str
    word: str
    number: int
    left: float
    width: float


def step_shares(plan: Maintenance) -> list[StepShare]:
    """Done, failed and skipped apart, then what is under way and what is left."""
    words = {"done": "done", "failed": "failed", "skipped": "skipped", "under-way": "under way"}
    words["waiting"] = "to come" if plan.status in OPEN else "not run"
    found, left, all_ = [], 0.0, max(1, sum(plan.progress.values()))
    for state, word in words.items():
        if number := plan.progress.get(state, 0):
            width = round(100 * number / all_, 2)
            found.append(StepShare(state, word, number, round(left, 2), width))
            left += width
    return found


def can_retry(plan: Maintenance) -> bool:
    """Whether failed steps can be tried again now."""
    may_go_on = plan.steps_kept and plan.status not in ("running", "cancelled")
    return may_go_on and bool(plan.progress["failed"]) and not plan.progress["under-way"]


def needs_window(plan: Maintenance) -> bool:
    """Whether it can only go on in a new window."""
    return bool(plan.window) and plan.window_begins is None


FILTERS: dict[str, Callable[..., object]] = {
    "title_of": title_of,
    "step_shares": step_shares,
    "can_retry": can_retry,
    "needs_window": needs_window,
}


class Entry(NamedTuple):
    """What a plan, or an event without one, does on one day; `vms` is how many VMs are hit."""

    day: date
    begins: datetime
    ends: datetime
    title: str
    href: str
    vms: int


class Day(NamedTuple):
    """A day of the calendar."""

    day: date
    is_past: bool
    is_today: bool
    entries: list[Entry]


async def calendar_page(visit: Visit) -> Response:
    """Some weeks, from the present one or another on."""
    today = visit.now.date()
    first = first_day(visit.query("from"), today)
    plans = (await visit.client.maintenances(status="running").all())[-MOST_IN_CALENDAR:]
    entries = [entry for plan in plans for entry in await _calendar_entries(visit, plan)]
    events = [event for event in await visit.client.events().first(MOST_EVENTS) if event.phase == "scheduled"]
    return visit.page(
        "calendar.html",
        "Calendar",
        "events maintenances",
        weeks=weeks(first, today, [*entries, *entries_of_events(events)]),
        first=first,
        earlier=_moved(first, -WEEKS),
        later=_moved(first, WEEKS),
        waits=await visit.client.maintenances(status="paused").all(),
    )


def first_day(text: str, today: date) -> date:
    """The Monday that a calendar begins with."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = today
    timeline.check_distance(day, today)
    return day - timedelta(days=day.weekday())


def _moved(first: date, weeks: int) -> str:
    try:
        return (first + timedelta(weeks=weeks)).isoformat()
    except OverflowError:
        return first.isoformat()


async def _calendar_entries(visit: Visit, plan: Maintenance) -> list[Entry]:
    if plan.progress["waiting"] > MOST_STEPS_AHEAD:
        return entries_of_window(plan)
    try:
        return entries_of_plan(plan, (await visit.client.outlook(plan.id)).timeline)
    except DuenoticeError:
        return entries_of_window(plan)  # too many look ahead at once


def entries_of_plan(plan: Maintenance, ahead: Iterable[PlannedStep]) -> list[Entry]:
    """The days of a plan: from the first step that starts there to the last that ends."""
    days: dict[date, list[PlannedStep]] = {}
    for step in ahead:
        days.setdefault(step.starts_at.date(), []).append(step)
    return [
        Entry(
            day,
            min(step.starts_at for step in steps),
            max(step.ends_at for step in steps),
            title_of(plan),
            f"/maintenances/{plan.id}",
            sum(len(step.resources) for step in steps),
        )
        for day, steps in days.items()
    ]


def entries_of_window(plan: Maintenance) -> list[Entry]:
    """A plan that is too large to look ahead has its window, if it has one."""
    begins, ends = plan.window_begins, plan.window_ends
    if begins is None:
        return []
    vms = plan.vms["waiting"]
    return [Entry(begins.date(), begins, ends or begins, title_of(plan), f"/maintenances/{plan.id}", vms)]


def entries_of_events(events: Iterable[Event]) -> list[Entry]:
    """Events that are announced, a line for each."""
    return [
        Entry(
            event.not_before.date(),
            event.not_before,
            event.not_before,
            f"{event.type} of {some(event.resources, 1)}",
            f"/events/{event.id}",
            len(event.resources),
        )
        for event in events
    ]


def weeks(first: date, today: date, entries: Iterable[Entry]) -> list[list[Day]]:
    """The calendar from a Monday on."""
    by_day: dict[date, list[Entry]] = {}
    for entry in sorted(entries, key=lambda one: (one.begins, one.title)):
        by_day.setdefault(entry.day, []).append(entry)
    days = [first + timedelta(days=number) for number in range(7 * WEEKS)]
    drawn = [Day(day, day < today, day == today, by_day.get(day, [])) for day in days]
    return [drawn[begin : begin + 7] for begin in range(0, len(drawn), 7)]
