"""`events watch`: a live table on a terminal, elsewhere one line per change."""

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from duenotice.cli.following import Events, live_events, looks, outcome, progress
from duenotice.cli.session import Session


def watch_events(session: Session, ids: list[str], ends: bool, span: str) -> None:
    """Look until the events are over, or for ever."""
    before: Events = {}
    drawn = session.output == "table" and sys.stdout.isatty()
    with progress(session, stderr=not drawn) as show:
        for now in looks(lambda: _seen(session, ids), span, "The events are"):
            if drawn:
                show(list(now.values()))
            else:
                _lines(session, before, now)
            if ends and not now:
                return
            before = now


def _seen(session: Session, ids: list[str]) -> Events:
    return live_events(session, ids) if ids else {event["id"]: event for event in session.api.pages("events")}


def _lines(session: Session, before: Events, now: Events) -> None:
    for event in changes(session, before, now):
        click.echo(LINES.get(session.output, json.dumps)(event))


def changes(session: Session, before: Events, now: Events) -> list[Any]:
    """What is new or has changed, and what is gone, with how it ended as its phase."""
    gone = [event | {"phase": outcome(session, key)} for key, event in before.items() if key not in now]
    return gone + [event for key, event in now.items() if before.get(key) != event]


def _line(event: Any) -> str:
    what = f"{event['id']}  {event['type']:<9}  {event['phase']:<9}"
    return f"{what}  {event['not_before'] or '-':<20}  {' '.join(event['resources'])}"


LINES: dict[str, Callable[[Any], str]] = {"table": _line, "name": lambda event: str(event["id"])}
