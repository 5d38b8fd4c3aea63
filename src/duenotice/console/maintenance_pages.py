"""The pages of maintenances: all of them, one with its steps, and the form that shows what a plan would do."""

from datetime import datetime
from typing import Any

from starlette.responses import Response

from duenotice.console import gantt
from duenotice.console.api import ApiProblem
from duenotice.console.pages import Page, Visit, form_of, go

TURNS = {"pause": "Paused.", "resume": "Resumed.", "cancel": "Cancelled."}
TYPES = ("Reboot", "Freeze", "Redeploy")
FIELDS = ("on", "type", "settle", "at_once", "failures_allowed", "description", "cause")


class MaintenancePages:
    """Where plans are made and seen."""

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
        plans = await visit.api.all("maintenances", most=1000)
        return visit.page("maintenances.html", "Maintenance", plans=plans[::-1])

    async def form(self, visit: Visit) -> Response:
        """What to fill in; the preview follows what is typed."""
        targets = [f"{group['kind']}={group['name']}" for group in await visit.api.all("groups", most=5000)]
        targets += [f"host={host['name']}" for host in await visit.api.all("hosts", most=5000)]
        on = visit.query("on")
        return visit.page(
            "maintenance_new.html", "Plan a maintenance", targets=targets, types=TYPES, on=on, **_nothing()
        )

    async def preview(self, visit: Visit) -> Response:
        """The timeline that the form's plan would make; nothing changes."""
        try:
            asked = _asked(dict(visit.request.query_params))
            timeline = (await visit.api.post("maintenances", body=asked, dry_run="true"))["timeline"]
        except (ApiProblem, ValueError) as problem:
            hint = getattr(problem, "hint", "Use whole numbers.")
            return visit.parts("maintenance_preview.html", **_nothing() | {"problem": f"{problem} {hint}"})
        return visit.parts("maintenance_preview.html", problem="", **_picture(timeline))

    async def begin(self, visit: Visit) -> Response:
        """Begin it, and show it."""
        given = await form_of(visit.request)
        try:
            plan = await visit.api.post("maintenances", body=_asked(given))
        except ApiProblem as problem:
            if problem.status == 401:
                raise
            return go("/maintenances/new", on=given.get("on", ""), failed=f"{problem.message} {problem.hint}")
        return go(f"/maintenances/{plan['id']}", said="The maintenance has begun.")

    async def plan(self, visit: Visit) -> Response:
        """One plan with its progress."""
        plan = await visit.api.get("maintenances", visit.request.path_params["id"])
        return visit.page("maintenance.html", f"Maintenance {plan['id'][:8]}", plan=plan)

    async def turn(self, visit: Visit) -> Response:
        """Pause, resume or cancel it."""
        plan_id, turn = visit.request.path_params["id"], visit.request.path_params["turn"]
        if turn not in TURNS:
            raise ApiProblem(404, f"Nothing is called {turn}.", "Use the buttons of the maintenance's page.")
        return await visit.done(
            f"/maintenances/{plan_id}", lambda: visit.api.post("maintenances", plan_id, turn), TURNS[turn]
        )


def _asked(given: dict[str, str]) -> dict[str, Any]:
    """The body of the API's call from the fields of the form."""
    asked: dict[str, Any] = {key: given[key] for key in FIELDS if given.get(key)}
    asked["on"] = [part.strip() for part in given.get("on", "").split(",") if part.strip()]
    for key in ("at_once", "failures_allowed"):
        if key in asked:
            asked[key] = int(asked[key])
    return asked


def _nothing() -> dict[str, Any]:
    return {"lanes": [], "ticks": [], "timeline": [], "problem": "", "here": None}


def _picture(timeline: list[dict[str, Any]]) -> dict[str, Any]:
    """A planned timeline drawn like a real one."""
    if not timeline:
        return _nothing()
    begin = min(datetime.fromisoformat(step["scheduled_at"]) for step in timeline)
    end = max(datetime.fromisoformat(step["ends_at"]) for step in timeline)
    seen = gantt.Window(begin, begin + (end - begin) * 1.02)
    lives = [_as_life(step, number) for number, step in enumerate(timeline)]
    lane_of = {life["id"]: f"{step['lane']} · UD {step['turn']}" for life, step in zip(lives, timeline, strict=True)}
    return {
        "lanes": gantt.lanes(lives, seen, begin, lane_of),
        "ticks": gantt.ticks(seen),
        "timeline": timeline,
        "here": None,
    }


def _as_life(step: dict[str, Any], number: int) -> dict[str, Any]:
    return {
        "id": step["event_id"] or str(number),
        "type": "Step",
        "scope": step["scope"],
        "resources": step["resources"],
        "description": "",
        "raised_at": step["scheduled_at"],
        "not_before": step["not_before"],
        "started_at": step["starts_at"],
        "ended_at": step["ends_at"],
        "approved_at": None,
        "approved_by": None,
        "outcome": "planned",
    }
