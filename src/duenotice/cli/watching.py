"""`events watch`: a live table on a terminal, elsewhere one line per change."""

import json
import sys
from collections.abc import Callable
from typing import Any

from duenotice.cli.following import WatchedEvents
from duenotice.cli.live import NOBODY_LOOKS, screen, watch
from duenotice.cli.saying import say
from duenotice.cli.session import Session
from duenotice.plain_text import one_line


def watch_events(session: Session, ids: list[str], ends: bool, span: str) -> None:
    """Look until the events are over, or for ever."""
    if session.output == "table" and sys.stdout.isatty():
        with screen(stderr=False) as on:
            watch(session, WatchedEvents(session, ids, ends, lambda event: None), on, span, "The events are")
        return
    line = LINES.get(session.output, json.dumps)
    watched = WatchedEvents(session, ids, ends, lambda event: say(one_line(line(event))))
    watch(session, watched, NOBODY_LOOKS, span, "The events are")


def _line(event: Any) -> str:
    what = f"{event['id']}  {event['type']:<9}  {event['phase']:<9}"
    return f"{what}  {event['not_before'] or '-':<20}  {' '.join(event['resources'])}"


LINES: dict[str, Callable[[Any], str]] = {"table": _line, "name": lambda event: str(event["id"])}
