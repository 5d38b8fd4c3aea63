"""How one maintenance looks: a line, its steps, and bars and a countdown while it is watched."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from duenotice.cli.errors import Failed, TimedOut
from duenotice.cli.feed import Record
from duenotice.cli.live import is_dumb, screen, watch
from duenotice.cli.saying import say, tell
from duenotice.cli.service_clock import ServiceClock
from duenotice.cli.session import Session
from duenotice.cli.views import MAINTENANCES, STEPS
from duenotice.errors import NotFound, Unavailable

OPEN = ("running", "paused")


def show_plan(session: Session, plan: Any) -> None:
    """Print a maintenance; a table also has its steps."""
    session.show_one(plan, MAINTENANCES)
    if session.output == "table":
        say()
        session.show(plan["steps"], STEPS)


def newest(session: Session) -> str:
    """The id of the maintenance that began last."""
    plans = [plan["id"] for plan in session.api.pages("maintenances")]
    if not plans:
        raise NotFound("There is no maintenance yet.", hint="Begin one with 'duenotice maintenance start'.")
    return str(plans[-1])


class WatchedPlan:
    """One maintenance until it is over. It is read again when the feed shows a change of it or of its events."""

    def __init__(self, session: Session, plan_id: str, tell: Callable[[str], None] = lambda line: None) -> None:
        self.plan: Any = None
        self._tell, self._states = tell, dict[str, str]()
        self._session, self._id, self._stale = session, plan_id, False
        self._events: dict[str, Any] = {}
        self._told_at: dict[str, str] = {}
        self._clock = ServiceClock(lambda: session.api.get("clock"))

    @property
    def over(self) -> bool:
        """Whether it is over."""
        return self.plan["status"] not in OPEN

    def begin(self) -> None:
        """The plan, and those of its events that are not over."""
        self.plan = self._session.api.get("maintenances", self._id)
        ours = {step["event_id"] for step in self.plan["steps"] if step["status"] == "under-way"}
        events = self._session.api.pages("events") if ours else ()
        self._events = {event["id"]: event for event in events if event["id"] in ours}
        self._tell_steps()

    def take(self, records: list[Record]) -> None:
        """Read it again if a record is about this plan."""
        for record in records:
            if record["action"] == "event-raised":
                self._told_at[record["event_id"]] = record["at"]
        self._stale = self._stale or any(self._concerns(record) for record in records)
        if self._stale:
            with suppress(Unavailable, TimedOut):  # the feed reports a lost connection; we try again in a second
                self.begin()
                self._told_at = {key: at for key, at in self._told_at.items() if key in self._events}
                self._stale = False

    def picture(self) -> Any:
        """Its state, a bar, and a row for each step."""
        from duenotice.cli.plan_picture import picture

        return picture(self.plan, self._events, self._told_at, self._clock.now(), self._clock.name)

    def _tell_steps(self) -> None:
        """A line for each step that has changed."""
        for step in self.plan["steps"]:
            vms = " ".join(step["resources"])
            if self._states.get(vms, "waiting") != step["status"]:
                self._tell(f"{step['status']:<9}  {step['lane']}  UD {step['turn']}  {vms}")
            self._states[vms] = step["status"]

    def _concerns(self, record: Record) -> bool:
        return record["event_id"] in self._events or record["details"].get("maintenance_id") == self.plan["id"]


def follow_plan(session: Session, plan_id: str, span: str, also_show: bool = False) -> None:
    """Watch until it is over; it is a failure if it failed or was cancelled."""
    watched = WatchedPlan(session, plan_id, tell) if is_dumb() else WatchedPlan(session, plan_id)
    with screen() as on:
        watch(session, watched, on, span, "The maintenance is")
    if also_show:
        show_plan(session, watched.plan)
    if watched.plan["status"] != "done":
        reason = f": {watched.plan['reason']}" if watched.plan.get("reason") else ""
        what = f"Maintenance {plan_id} is {watched.plan['status']}{reason}."
        raise Failed(what, hint="Its steps say which VMs were hit.")
    if session.output == "table" and not also_show:
        tell(f"Maintenance {plan_id} is done.")
