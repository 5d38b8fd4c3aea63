"""What commands that talk to the service share: its options, the client, and what to do about failed events."""

import functools
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from duenotice.cli.errors import Failed, in_our_words
from duenotice.cli.output import WRITERS, TableView, confirm, print_note, write_one
from duenotice.client.operator.config import DEFAULT_ENDPOINT, found_token

if TYPE_CHECKING:
    from duenotice.client import OperatorClient

OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(list(WRITERS)),
    default="table",
    envvar="DUENOTICE_OUTPUT",
    help="How to print.  [default: table]",
)
_ENDPOINT = click.option(
    "--endpoint",
    metavar="URL",
    default=DEFAULT_ENDPOINT,
    envvar="DUENOTICE_ENDPOINT",
    help=f"The operator's port of the service.  [default: {DEFAULT_ENDPOINT}]",
)
_TIMEOUT = click.option(
    "--request-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=30.0,
    envvar="DUENOTICE_REQUEST_TIMEOUT",
    help="How long to wait for one answer.  [default: 30]",
)
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


class Session:
    """One call of the command line."""

    def __init__(self, client: "OperatorClient", output: str = "table") -> None:
        self.client = client
        self.output = output

    def show(self, items: Iterable[object], view: TableView) -> None:
        """Print a list; forms with one line per item print each item as it arrives."""
        WRITERS[self.output](items, view, self.now)

    def show_one(self, item: object, view: TableView) -> None:
        """Print one thing."""
        write_one(self.output, item, view, self.now)

    def now(self) -> datetime:
        """What time it is on the service's clock, for relative times."""
        return self.client.clock().now


def with_client(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first argument is a Session, with the options of one."""

    @functools.wraps(command)
    def with_session(endpoint: str, output: str, request_timeout: float, **rest: object) -> None:
        with connected(endpoint, found_token(), request_timeout) as client:
            command(Session(client, output), **rest)

    for add in (_TIMEOUT, _ENDPOINT, OUTPUT):
        with_session = add(with_session)
    return with_session


def connected(endpoint: str, token: str, timeout: float) -> "OperatorClient":
    """A client whose errors say what to do on the command line; a call is tried once, and a person tries again."""
    from duenotice.client import OperatorClient  # costs milliseconds that --help should not pay

    return OperatorClient(endpoint, token, timeout=timeout, budget=0.0, explain=functools.partial(in_our_words, token))


def make_sure(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone; a script is not asked."""
    if not yes and sys.stdin.isatty() and not confirm(question):
        raise Failed("Nothing was done.", hint="Answer y, or use --yes.")


MOST_COMMANDS = 5
"""Commands that are shown, of each kind."""


class FailedEvent(NamedTuple):
    """An event that has failed: what it was to do to which VMs, and the maintenance that it belongs to."""

    event_id: str
    type: str
    vms: tuple[str, ...]
    maintenance: str | None


def number_of_failed(client: "OperatorClient", maintenance: str = "") -> int:
    """How many events have failed, or those of a maintenance, with which nobody has dealt."""
    from duenotice.wire.operator import EventQuery  # costs milliseconds that --help should not pay

    return client.event_table(EventQuery(state="failed", maintenance=maintenance), limit=1).total


def print_next_steps(failed: Iterable[FailedEvent]) -> None:
    """How to retry or acknowledge these, as commands to paste; a maintenance tries all of its failed steps again."""
    from duenotice.cli.views import SHORT_ID  # `views` is not needed where no table is shown

    events = list(failed)
    if not events:
        return
    alone = [event for event in events if not event.maintenance]
    plans = dict.fromkeys(event.maintenance[:SHORT_ID] for event in events if event.maintenance)
    retries = [f"duenotice maintenance retry {plan}" for plan in plans]
    retries += [f"duenotice events schedule {' '.join(event.vms)} --type {event.type}" for event in alone]
    acknowledging = [f"duenotice maintenance acknowledge {plan}" for plan in plans]
    acknowledging += [f"duenotice events acknowledge {event.event_id[:SHORT_ID]}" for event in alone]
    for head, commands in (
        ("Repair what the reason names. Then try again:", retries),
        ("Or, if nothing is left to do:", acknowledging),
    ):
        print_note(head)
        for command in commands[:MOST_COMMANDS]:
            print_note(f"  {command}")
        if len(commands) > MOST_COMMANDS:
            print_note(f"  and {len(commands) - MOST_COMMANDS} more")
