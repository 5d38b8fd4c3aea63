"""The pages of maintenances: all of them, one with its steps, and the form that shows what a plan would do."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from starlette.responses import Response

from duenotice.client.operator.client import AsyncOperatorClient
from duenotice.client.operator.errors import Denied
from duenotice.console import gantt, plan_views, silence, tracks
from duenotice.console.pages import PageRoute, Visit, form_of, go, status_of
from duenotice.console.shown_rows import ShownRows, page_of
from duenotice.console.words import address
from duenotice.errors import DuenoticeError, Malformed, NotFound
from duenotice.wire.operator import FailedEvent, Maintenance, MaintenanceRequest, Page, Step, Timeline

TURNS: dict[str, tuple[Callable[..., Awaitable[object]], str]] = {
    "pause": (
        AsyncOperatorClient.pause_maintenance,
        "Paused: events that were announced go on, no new step begins.",
    ),
    "cancel": (AsyncOperatorClient.cancel_maintenance, "Cancelled."),
    "acknowledge": (
        AsyncOperatorClient.acknowledge_maintenance,
        "Acknowledged: what has failed needs nobody any more.",
    ),
}
FORWARD: dict[str, tuple[Callable[..., Awaitable[object]], str]] = {
    "resume": (AsyncOperatorClient.resume_maintenance, "Resumed."),
    "retry": (AsyncOperatorClient.retry_maintenance, "Failed steps are tried again."),
}
"""Those that can be given a new window."""

TYPES = ("Reboot", "Freeze", "Redeploy")
ORDERS = (("update-domain", "update domain"), ("fault-domain", "fault domain (Freeze only)"))
CONSENTS = (("scope", "its own scope"), ("host", "all scopes on its host"))
CAUSES = (("maintenance", "host maintenance"), ("live-migration", "live migration"))
DEFAULTS = {
    "on": "", "type": TYPES[0], "cause": CAUSES[0][0], "settle": "5m", "at_once": "0", "failures_allowed": "0",
    "description": "", "start": "", "window": "", "consent": CONSENTS[0][0],
    "by": ORDERS[0][0],
}  # fmt: skip
MOST_TARGETS = 500
MOST_PLANS = 200
MOST_STEPS = 200
"""Steps on one page, and coming steps in its picture."""


class PlanTarget(NamedTuple):
    """Something that can be chosen for a maintenance."""

    kind: str
    name: str
    vms: int

    @property
    def on(self) -> str:
        """How it is chosen: `set=web`."""
        return f"{self.kind}={self.name}"


class MaintenancePages:
    """Shows plans, previews one while its form is filled in, and begins, pauses, resumes and cancels them."""

    def pages(self) -> list[PageRoute]:
        """The rows of the table."""
        return [
            PageRoute("GET", "/maintenances", self.index),
            PageRoute("GET", "/maintenances/new", self.form),
            PageRoute("GET", "/maintenances/preview", self.preview),
            PageRoute("POST", "/maintenances", self.begin, "operator"),
            PageRoute("GET", "/maintenances/{id}", self.plan),
            PageRoute("POST", "/maintenances/{id}/{turn}", self.turn, "operator"),
        ]

    async def index(self, visit: Visit) -> Response:
        """All plans: those that have failed and need a person, then the newest."""
        failed = {each.maintenance for each in _failures(visit)}
        plans = (await visit.client.maintenances().all())[::-1]
        plans = sorted(plans, key=lambda plan: plan.id not in failed)[:MOST_PLANS]
        ends = {plan.id: None for plan in plans} | _expected_ends(visit)
        return visit.page("maintenances.html", "Maintenance", "maintenances", plans=plans, ends=ends)

    async def form(self, visit: Visit) -> Response:
        """The form; the preview follows what is typed."""
        if not visit.may("operator"):
            raise Denied("Your token may not plan a maintenance.", hint="Ask for an operator's token.")
        return await _form(visit, DEFAULTS | {"on": visit.query("on")})

    async def preview(self, visit: Visit) -> Response:
        """The timeline that the form's plan would make; nothing changes."""
        given = DEFAULTS | dict(visit.request.query_params)
        try:
            ahead = await visit.client.preview_maintenance(_asked(given))
        except Denied:
            raise
        except DuenoticeError as problem:
            nothing = _NOTHING | {"problem": f"{problem.message} {problem.hint}", "question": visit.query("asked")}
            return visit.parts("maintenance_preview.html", **nothing)
        picture = _picture(visit, ahead, given["type"])
        later = {"left_out": ahead.left_out, "later": bool(given["start"] or given["window"].strip())}
        return visit.parts("maintenance_preview.html", **picture | later | {"question": visit.query("asked")})

    async def begin(self, visit: Visit) -> Response:
        """Begin it and show it; if it is refused, the form stays filled in."""
        given = DEFAULTS | await form_of(visit.request)
        try:
            ahead = await visit.client.preview_maintenance(_asked(given), limit=1)
            if not given.get("sure") and (question := silence.question(ahead)):
                return await _form(visit, given, question=question)
            plan = await visit.client.begin_maintenance(_asked(given))
        except Denied:
            raise
        except DuenoticeError as problem:
            return await _form(visit, given, f"{problem.message} {problem.hint}", status_of(problem))
        return go(f"/maintenances/{plan.id}", said=silence.begun(ahead))

    async def plan(self, visit: Visit) -> Response:
        """One maintenance: its progress, its past, its coming steps, and a page of all of its steps."""
        plan = await visit.client.maintenance(visit.name("id"))
        steps, page = await _steps(visit, plan)
        begun = [await _life(visit, step.event_id) for step in steps.items if step.event_id]
        ahead = await visit.client.outlook(plan.id, limit=MOST_STEPS)
        coming = [gantt.planned(step, plan.type, plan.id) for step in ahead.timeline]
        lives = [life for life in begun if life] + coming
        seen = gantt.around(lives, visit.now)
        if plan.status == "paused":
            waiting = await visit.client.steps(plan.id, status="waiting").first(MOST_STEPS)
            lives += tracks.paused(plan, waiting, seen, visit.now)
        return visit.page(
            "maintenance.html",
            plan_views.title_of(plan),
            f"maintenance:{plan.id} events",
            plan=plan,
            steps=[(plan_views.step_state(plan, step), step) for step in steps.items],
            paging=ShownRows(page, sum(plan.progress.values()), MOST_STEPS),
            ends_at=_expected_ends(visit).get(plan.id),
            left_out=ahead.left_out,
            unresolved=[each for each in _failures(visit) if each.maintenance == plan.id],
            lanes=tracks.lanes(lives, seen, visit.now, lambda life: [life.scope]),
            ticks=gantt.ticks(seen),
            days=gantt.days(seen),
            seen=seen,
            here=seen.mark(visit.now),
            link=partial(address, f"/maintenances/{plan.id}", {}),
        )

    async def turn(self, visit: Visit) -> Response:
        """Pause, resume, retry, acknowledge or cancel it."""
        plan_id, turn = visit.name("id"), visit.name("turn")
        if turn in FORWARD:
            forward, said = FORWARD[turn]
            window = (await form_of(visit.request)).get("window", "")
            return await visit.done(
                f"/maintenances/{plan_id}", lambda: forward(visit.client, plan_id, window=window), said
            )
        if turn not in TURNS:
            raise NotFound(f"There is no action {turn}.", hint="Use the buttons of the maintenance's page.")
        do, said = TURNS[turn]
        given = {"note": (await form_of(visit.request)).get("note", "")} if turn == "acknowledge" else {}
        return await visit.done(f"/maintenances/{plan_id}", lambda: do(visit.client, plan_id, **given), said)


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
    return visit.page("maintenance_new.html", "Plan a maintenance", "", status, **_NOTHING | form)


def _asked(given: Mapping[str, str]) -> MaintenanceRequest:
    """The plan from the fields of the form; what is empty is as usual."""
    asked = {key: given[key].strip() or default for key, default in _USUAL.items()}
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


_USUAL = {
    "type": "", "settle": "0s", "at_once": "0", "failures_allowed": "0", "cause": CAUSES[0][0],
    "consent": CONSENTS[0][0], "by": ORDERS[0][0],
}  # fmt: skip


def _start(text: str) -> datetime | None:
    """A planned start as browsers write it: without an offset, and here in UTC."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Malformed(f"{text[:30]!r} is not a time.", hint="Write it like 2026-11-22T02:00.") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _failures(visit: Visit) -> Sequence[FailedEvent]:
    """What has failed, and nobody has dealt with it: the newest."""
    return visit.attention.failures if visit.attention else ()


def _expected_ends(visit: Visit) -> dict[str, datetime | None]:
    """When plans that run should be over, as far as that is known."""
    return {plan.id: plan.ends_at for plan in visit.attention.plans} if visit.attention else {}


def _number(text: str) -> int:
    if text.isdecimal() and len(text) < 10:
        return int(text)
    raise Malformed(f"{text[:20]!r} is not a number.", hint="Use whole numbers.")


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


async def _life(visit: Visit, event_id: str) -> gantt.Drawn | None:
    try:
        return gantt.drawn(await visit.client.event_life(event_id))
    except DuenoticeError:
        return None  # so long ago that only its outcome is known


_NOTHING: dict[str, object] = {
    "lanes": [],
    "days": [],
    "ticks": [],
    "steps": 0,
    "drawn": 0,
    "problem": "",
    "here": None,
    "silent": 0,
    "vms": 0,
    "left_out": 0,
    "later": False,
    "question": "",
}


def _picture(visit: Visit, ahead: Timeline, type_: str) -> dict[str, object]:
    """A planned timeline drawn like a real one."""
    if not ahead.timeline:
        return _NOTHING
    lives = [gantt.planned(step, type_) for step in ahead.timeline]
    seen = gantt.around(lives, visit.now)
    return {
        "lanes": tracks.lanes(lives, seen, visit.now, lambda life: [life.scope]),
        "ticks": gantt.ticks(seen),
        "days": gantt.days(seen),
        "steps": ahead.steps,
        "drawn": len(lives),
        "ends_at": ahead.ends_at,
        "vms": ahead.vms,
        "silent": ahead.silent,
        "here": seen.mark(visit.now),
        "problem": "",
        "question": "",
    }
