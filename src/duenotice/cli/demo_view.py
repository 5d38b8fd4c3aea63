"""What the demo shows: the newest maintenance, and below it the last few things that happened."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from duenotice.cli.api import Api
from duenotice.cli.event_fold import OUTCOMES
from duenotice.cli.feed import Record
from duenotice.cli.live import screen, watch
from duenotice.cli.maintenance_view import WatchedPlan, newest
from duenotice.cli.session import Session
from duenotice.errors import DuenoticeError
from duenotice.plain_text import one_line
from duenotice.settings import host_port

LINES = 8
FEW = 5


@asynccontextmanager
async def shown(service: Any) -> AsyncIterator[None]:
    """Draw the view in a thread; it asks the service over HTTP, like any client."""
    api = Api(f"http://{host_port(service.operator_address)}", service.token, 30.0)
    view = DemoView(Session(api))
    thread = threading.Thread(target=view.run, name="demo-view", daemon=True)
    thread.start()
    try:
        yield
    finally:
        view.over = True
        await asyncio.to_thread(thread.join, 5.0)


class DemoView:
    """The demo, watched until somebody ends it."""

    over = False

    def __init__(self, session: Session) -> None:
        self._session = session
        self._plan: WatchedPlan | None = None
        self._happened: deque[str] = deque(maxlen=LINES)
        self._events: dict[str, Any] = {}

    def run(self) -> None:
        """Until the service ends."""
        with suppress(DuenoticeError, OSError), screen(stderr=False) as on:
            watch(self._session, self, on, "365d", "The demo is")

    def begin(self) -> None:
        """The newest maintenance, if there is one already."""
        with suppress(DuenoticeError):
            self._follow(newest(self._session))

    def take(self, records: list[Record]) -> None:
        """Take in what happened; a new maintenance is followed from its start."""
        for record in records:
            if record["action"] == "maintenance-started":
                self._follow(record["details"]["maintenance"]["id"])
            if line := self._sentence(record):
                self._happened.append(one_line(f"{record['at'][11:19]}  {line}"))
        if self._plan is not None:
            self._plan.take(records)

    def picture(self) -> Any:
        """The maintenance, and the last lines below it."""
        from rich.console import Group
        from rich.text import Text

        story = Text("\n".join(self._happened), "dim")
        return Group(self._plan.picture(), "", story) if self._plan is not None else story

    def _follow(self, plan_id: str) -> None:
        self._plan = WatchedPlan(self._session, plan_id)
        self._plan.begin()

    def _sentence(self, record: Record) -> str:
        event_id, event = record["event_id"], record["details"].get("event")
        if event is not None:
            self._events[event_id] = event
        known = self._events.get(event_id)
        if record["action"] in OUTCOMES:
            self._events.pop(event_id, None)
        return sentence(record, known)


def sentence(record: Record, event: Any) -> str:
    """What happened, in words for a newcomer; empty if it is not worth a line."""
    details = record["details"]
    vms, type_ = (" ".join(event["resources"]), event["type"]) if event else ("", "")
    names = details.get("names", [])
    sentences = {
        "maintenance-started": f"maintenance begins: {details.get('maintenance', {}).get('type')}",
        "maintenance-changed": f"maintenance is {details.get('status')}",
        "event-raised": f"{vms}: told of a {type_}",
        "event-approved": f"{vms}: approved by {details.get('by')}",
        "event-started": f"{vms}: {type_} has started",
        "event-narrowed": f"{vms}: {type_} now hits only these",
        "event-completed": f"{vms}: {type_} is over",
        "event-cancelled": f"{vms}: {type_} was cancelled",
        "event-failed": f"{vms}: {type_} has failed",
        "vms-removed": f"{' '.join(names)}: gone",
        "vms-put": f"{' '.join(names)}: here",
    }
    about_nobody = record["action"].startswith("event-") and not vms
    return "" if about_nobody or len(names) > FEW else sentences.get(record["action"], "")
