"""`events watch`: a live table on a terminal, elsewhere one line per change."""

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from duenotice.cli.following import WatchedEvents, check_outcomes, line_of
from duenotice.cli.live import NOBODY_LOOKS, is_dumb, screen, watch
from duenotice.cli.saying import say
from duenotice.cli.session import Session
from duenotice.plain_text import one_line


def watch_events(session: Session, ids: list[str], ends: bool, span: str) -> None:
    """Watch until the events are over, or for ever; it is a failure if one of `ids` did not complete."""
    is_live = session.output == "table" and sys.stdout.isatty() and not is_dumb(stderr=False)
    line = LINES.get(session.output, json.dumps)
    watched = WatchedEvents(session, ids, ends, lambda event: None if is_live else say(one_line(line(event))))
    with screen(stderr=False) if is_live else nullcontext(NOBODY_LOOKS) as on:
        watch(session, watched, on, span, "The events are")
    check_outcomes(watched.outcomes)


LINES: dict[str, Callable[[Any], str]] = {"table": line_of, "name": lambda event: str(event["id"])}
