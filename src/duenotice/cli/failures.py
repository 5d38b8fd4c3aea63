"""What can be done about events that have failed, as commands that somebody can paste."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from duenotice.cli.output import tell

if TYPE_CHECKING:
    from duenotice.client import OperatorClient

MOST = 5
"""Commands that are shown, of each kind."""


class ToRetry(NamedTuple):
    """An event that has failed: what it was to do to which VMs, and the maintenance that it belongs to."""

    event_id: str
    type: str
    vms: tuple[str, ...]
    maintenance: str | None


def tell_what_next(failed: Iterable[ToRetry]) -> None:
    """Say on standard error how to retry or acknowledge these."""
    for line in what_next(failed):
        tell(line)


def number_of_failed(client: "OperatorClient", maintenance: str = "") -> int:
    """How many events have failed, or those of a maintenance, with which nobody has dealt."""
    from duenotice.wire.operator import EventQuery  # costs milliseconds that --help should not pay

    return client.event_table(EventQuery(state="failed", maintenance=maintenance), limit=1).total


def what_next(failed: Iterable[ToRetry]) -> Iterator[str]:
    """A line for each command; a maintenance tries all of its failed steps again."""
    from duenotice.cli.cells import SHORT_ID  # costs milliseconds that --help should not pay

    events = list(failed)
    if not events:
        return
    alone = [event for event in events if not event.maintenance]
    plans = dict.fromkeys(event.maintenance[:SHORT_ID] for event in events if event.maintenance)
    retries = [f"duenotice maintenance retry {plan}" for plan in plans]
    retries += [f"duenotice events schedule {' '.join(event.vms)} --type {event.type}" for event in alone]
    yield "Repair what the reason names. Then try again:"
    yield from _some(retries)
    yield "Or, if nothing is left to do:"
    named = [f"duenotice maintenance acknowledge {plan}" for plan in plans]
    named += [f"duenotice events acknowledge {event.event_id[:SHORT_ID]}" for event in alone]
    yield from _some(named)


def _some(commands: list[str]) -> Iterator[str]:
    yield from (f"  {command}" for command in commands[:MOST])
    if len(commands) > MOST:
        yield f"  and {len(commands) - MOST} more"
