"""The pages of maintenances: all of them, one with its steps, and the form that shows what a plan would do."""

from datetime import datetime
from typing import Any

from starlette.responses import Response

from duenotice.console import gantt
from duenotice.console.api import ApiProblem
from duenotice.console.pages import Page, Visit, form_of, go
from duenotice.console.timeline_page import steps_to_come

TURNS = {
    "pause": "Paused: events that were announced go on, no new step begins.",
    "resume": "Resumed.",
    "cancel": "Cancelled.",
}
TYPES = ("Reboot", "Freeze", "Redeploy")
CAUSES = (("maintenance", "host maintenance"), ("live-migration", "live migration"))
DEFAULTS = {
    "on": "", "type": TYPES[0], "cause": CAUSES[0][0], "settle": "5m", "at_once": "0", "failures_allowed": "0",
    "description": "",
}  # fmt: skip
MOST_TARGETS = 500
MOST_STEPS = 200


class MaintenancePages:
    """Shows plans, previews one while its form is filled in, and begins, pauses, resumes and cancels them."""

    def pages(self) -> list[Page]:
        """The rows of the table."""
        return [
            Page("GET", "/maintenances", self.index),
            Page("GET", "/maintenances/new", self.form),
            Page("GET", "/maintenances/preview", self.preview),
            Page("POST", "/maintenances", self.begin),
            Page("GET", "/maintenances/{id}", self.plan),
            Page("POST", "/maintenances/{id}/{turn}", self.turn),
        ]

    async def index(self, visit: Visit) -> Response:
        """All plans, the newest first."""
        plans = await visit.api.all("maintenances")
        return visit.page("maintenances.html", "Maintenance", "maintenances", plans=plans[::-1][:MOST_STEPS])

    async def form(self, visit: Visit) -> Response:
        """The form; the preview follows what is typed."""
        if not visit.may("operator"):
            raise ApiProblem("Your token may not plan a maintenance.", hint="Ask for an operator's token.", status=403)
        return await _form(visit, DEFAULTS | {"on": visit.query("on")})

    async def preview(self, visit: Visit) -> Response:
        """The timeline that the form's plan would make; nothing changes."""
        given = DEFAULTS | dict(visit.request.query_params)
        try:
            timeline = (await visit.api.post("maintenances", body=_asked(given), dry_run="true"))["timeline"]
        except ApiProblem as problem:
            if problem.status in (401, 403):
                raise
            return visit.parts(
                "maintenance_preview.html", **_NOTHING | {"problem": f"{problem.message} {problem.hint}"}
            )
        return visit.parts("maintenance_preview.html", **_picture(visit, timeline, given["type"]))

    async def begin(self, visit: Visit) -> Response:
        """Begin it and show it; if it is refused, the form stays filled in."""
        given = DEFAULTS | await form_of(visit.request)
        try:
            plan = await visit.api.post("maintenances", body=_asked(given))
        except ApiProblem as problem:
            if problem.status in (401, 403):
                raise
            return await _form(visit, given, f"{problem.message} {problem.hint}", problem.status)
        return go(f"/maintenances/{plan['id']}", said="The maintenance has begun.")

    async def plan(self, visit: Visit) -> Response:
        """One maintenance: its progress, its past and its coming steps."""
        plan = await visit.api.get("maintenances", visit.name("id"))
        begun = [await _life(visit, step) for step in plan["steps"][:MOST_STEPS] if step["event_id"]]
        lives = [life for life in begun if life] + await steps_to_come(visit, plan)
        seen = gantt.around(lives, visit.now)
        lane_of = {tuple(step["resources"]): _lane(step) for step in plan["steps"]}
        return visit.page(
            "maintenance.html",
            f"Maintenance {plan['id'][:8]}",
            f"maintenance:{plan['id']} events",
            plan=plan,
            lanes=gantt.lanes(
                lives, seen, visit.now, lambda life: [lane_of.get(tuple(life["resources"]), str(life["scope"]))]
            ),
            ticks=gantt.ticks(seen),
            seen=seen,
            here=seen.mark(visit.now),
            most=MOST_STEPS,
        )

    async def turn(self, visit: Visit) -> Response:
        """Pause, resume or cancel it."""
        plan_id, turn = visit.name("id"), visit.name("turn")
        if turn not in TURNS:
            raise ApiProblem(
                f"There is no action {turn}.", hint="Use the buttons of the maintenance's page.", status=404
            )
        return await visit.done(
            f"/maintenances/{plan_id}", lambda: visit.api.post("maintenances", plan_id, turn), TURNS[turn]
        )


async def _form(visit: Visit, given: dict[str, str], problem: str = "", status: int = 200) -> Response:
    targets = [f"{group['kind']}={group['name']}" for group in await visit.api.all("groups", most=MOST_TARGETS)]
    targets += [f"host={host['name']}" for host in await visit.api.all("hosts", most=MOST_TARGETS)]
    values = _NOTHING | {"targets": targets, "types": TYPES, "causes": CAUSES, "given": given, "refused": problem}
    return visit.page("maintenance_new.html", "Plan a maintenance", status=status, **values)


def _asked(given: dict[str, str]) -> dict[str, Any]:
    """The body of the API's call from the fields of the form."""
    asked: dict[str, Any] = {key: given[key].strip() for key in DEFAULTS if given.get(key, "").strip()}
    asked["on"] = [part.strip() for part in given["on"].split(",") if part.strip()]
    for key in ("at_once", "failures_allowed"):
        if (text := asked.get(key, "0")).isdecimal() and len(text) < 10:
            asked[key] = int(text)
        else:
            raise ApiProblem(f"{text[:20]!r} is not a number.", hint="Use whole numbers.", status=400)
    return asked


async def _life(visit: Visit, step: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return dict(await visit.api.get("timeline", step["event_id"]))
    except ApiProblem:
        return None  # so long ago that only its outcome is known


_NOTHING: dict[str, Any] = {"lanes": [], "ticks": [], "timeline": [], "problem": "", "here": None, "silent": 0}


def _picture(visit: Visit, timeline: list[dict[str, Any]], type_: str) -> dict[str, Any]:
    """A planned timeline drawn like a real one."""
    if not timeline:
        return _NOTHING
    lives = [gantt.planned(step, {"id": "", "type": type_}) for step in timeline]
    seen = gantt.around(lives, visit.now)
    lane_of = {life["id"]: _lane(step) for life, step in zip(lives, timeline, strict=True)}
    return {
        "lanes": gantt.lanes(lives, seen, visit.now, lambda life: [lane_of[life["id"]]]),
        "ticks": gantt.ticks(seen),
        "timeline": timeline,
        "ends_at": max(step["ends_at"] for step in timeline),
        "vms": sum(len(step["resources"]) for step in timeline),
        "silent": sum(_is_silent(step) for step in timeline),
        "here": seen.mark(visit.now),
        "problem": "",
    }


def _is_silent(step: dict[str, Any]) -> bool:
    """Whether it would start at once without notice, apart from rounding."""
    told, starts = (datetime.fromisoformat(step[key]) for key in ("scheduled_at", "starts_at"))
    return (starts - told).total_seconds() <= 1


def _lane(step: dict[str, Any]) -> str:
    return f"{step['lane']} UD {step['turn']}" if step["turn"] is not None else str(step["lane"])
