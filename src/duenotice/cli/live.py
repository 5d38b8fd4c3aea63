"""Live views: records of the feed are taken in at once, and the countdown is drawn again every second."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from duenotice.cli.errors import TimedOut
from duenotice.cli.feed import Feed, Record
from duenotice.cli.saying import tell
from duenotice.cli.session import Session
from duenotice.clock import monotonic

REDRAW = 1.0
DUMB = ("dumb", "unknown")


class Screen(NamedTuple):
    """Draws pictures, each over the last one, and prints text above them."""

    draw: Callable[[Callable[[], Any]], None]
    say: Callable[[str], None]


NOBODY_LOOKS = Screen(lambda picture: None, tell)


class Watched(Protocol):
    """Something that changes until it is over."""

    def begin(self) -> None:
        """Read it for the first time; the feed is open already, so no change is missed."""

    def take(self, records: list[Record]) -> None:
        """Take in what has happened."""

    def picture(self) -> Any:
        """What a person sees of it now."""

    @property
    def over(self) -> bool:
        """Whether there is nothing more to wait for."""


def watch(session: Session, watched: Watched, on: Screen, span: str, what: str) -> None:
    """Stay until it is over, or for a span of real time."""
    from duenotice.wire.duration import parse_duration

    end = monotonic() + parse_duration(span)
    with Feed(session.api, on.say) as feed:
        watched.begin()
        while not watched.over:
            on.draw(watched.picture)
            left = end - monotonic()
            if left <= 0:
                hint = "It goes on in the service; wait longer with --wait-timeout."
                raise TimedOut(f"{what} not over after {span}.", hint=hint)
            watched.take(feed.next(min(REDRAW, left)))
        on.draw(watched.picture)


def is_dumb(stderr: bool = True) -> bool:
    """Whether the terminal of a person cannot redraw; it gets lines instead."""
    return (sys.stderr if stderr else sys.stdout).isatty() and os.environ.get("TERM", "").lower() in DUMB


@contextlib.contextmanager
def screen(stderr: bool = True) -> Iterator[Screen]:
    """The terminal that a person looks at, if any; a picture on standard error is removed at the end."""
    from duenotice.cli import tables

    console = tables.console(stderr)
    if not console.is_terminal or is_dumb(stderr):
        yield NOBODY_LOOKS
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False, transient=stderr, vertical_overflow="crop") as live:
        yield Screen(
            lambda picture: live.update(picture(), refresh=True),
            lambda text: console.print(text, style="yellow"),
        )
