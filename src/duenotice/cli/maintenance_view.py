"""How one maintenance looks: a line, its steps, and, while it is watched, a bar and a countdown."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import click

from duenotice.cli.errors import Failed
from duenotice.cli.following import looks
from duenotice.cli.output import Column
from duenotice.cli.session import Session
from duenotice.cli.views import MAINTENANCES, STEPS

OPEN = ("running", "paused")
WATCHED = STEPS._replace(
    columns=(*STEPS.columns[:5], Column("NOT BEFORE", "not_before", "when"), *STEPS.columns[5:]),
)


def show_plan(session: Session, plan: Any) -> None:
    """Print a maintenance; a table also has its steps."""
    session.show_one(plan, MAINTENANCES)
    if session.output == "table":
        click.echo()
        session.show(plan["steps"], STEPS)


def follow_plan(session: Session, plan_id: str, span: str, also_show: bool = False) -> None:
    """Look until it is over; one that failed or was cancelled is a failure."""
    plan: Any = None
    with _live(session) as draw:
        for plan in looks(lambda: session.api.get("maintenances", plan_id), span, "The maintenance is"):
            draw(plan)
            if plan["status"] not in OPEN:
                break
    if also_show:
        show_plan(session, plan)
    if plan["status"] != "done":
        reason = f": {plan['reason']}" if plan.get("reason") else ""
        raise Failed(f"Maintenance {plan_id} is {plan['status']}{reason}.", hint="Its steps say which VMs were hit.")


@contextlib.contextmanager
def _live(session: Session) -> Iterator[Callable[[Any], None]]:
    from duenotice.cli import tables

    console = tables.console(stderr=True)
    if not console.is_terminal:
        yield lambda plan: None
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda plan: live.update(_picture(session, plan), refresh=True)


def _picture(session: Session, plan: Any) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    from duenotice.cli import looks as look
    from duenotice.cli import tables

    total, over = len(plan["steps"]), sum(plan["progress"][key] for key in ("done", "failed", "skipped"))
    head = Table.grid(padding=(0, 2, 0, 0))
    bar = ProgressBar(total=max(total, 1), completed=over, width=40)
    head.add_row(f"{plan['type']} {plan['id'][: look.SHORT_ID]}", look.state(plan["status"]), bar, f"{over}/{total}")
    return Group(head, "", tables.table(_with_countdown(session, plan), WATCHED, session.now()))


def _with_countdown(session: Session, plan: Any) -> list[Any]:
    """The steps, those under way with the NotBefore of their event."""
    events = {event["id"]: event for event in session.api.pages("events")}
    return [step | {"not_before": events.get(step["event_id"], {}).get("not_before")} for step in plan["steps"]]
