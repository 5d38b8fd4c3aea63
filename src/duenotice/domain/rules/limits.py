"""How much there may be of one scope: live events, VMs of an event, and bytes of the document that VMs read (S24).

Whatever raises or moves an event is refused when there is no room: operators' calls, hosts, scale sets, fleet files.
The steps of a plan wait for room instead, as they make it themselves when they end; see `rules/maintenance.py`.
"""

from collections import Counter
from collections.abc import Iterable

from duenotice.domain import records as t
from duenotice.domain.event import Event, size_of
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.errors import Refused

DOCUMENT_FRAME = 64
"""What a document takes beside its events."""


def no_room(state: State, scope: str, events: int, size: int, policy: Policy) -> str:
    """Why a scope cannot be told of so many more events that take so many more bytes; empty if it can."""
    events += len(state.events_by_scope.of(scope))
    size += DOCUMENT_FRAME + state.document_sizes.get(scope, 0)
    if events > policy.events_per_scope:
        return f"{scope} would have {events:,} live events; events_per_scope is {policy.events_per_scope:,}."
    if size > policy.document_bytes:
        return f"The document of {scope} would have {size:,} bytes; document_kib allows {policy.document_bytes:,}."
    return ""


def within(state: State, changes: list[t.Transition], policy: Policy) -> list[t.Transition]:
    """These changes, or a refusal if they would leave a scope with more than it may have.

    What a lower limit finds there stays, and may become less.
    """
    events, sizes = Counter[str](), Counter[str]()
    for scope, number, event in _differences(state, changes):
        events[scope] += number
        sizes[scope] += number * size_of(event)
    for scope in [scope for scope, more in events.items() if more > 0 or sizes[scope] > 0]:
        if why := no_room(state, scope, events[scope], sizes[scope], policy):
            raise Refused(why, hint="Wait until events have ended, cancel some, or start with a higher limit.")
    return changes


def _differences(state: State, changes: Iterable[t.Transition]) -> Iterable[tuple[str, int, Event]]:
    """The events that come to a scope (1) or leave it (-1)."""
    for change in changes:
        if isinstance(change, t.EventRaised):
            yield change.event.scope, 1, change.event
        elif isinstance(change, t.EventMoved):
            yield change.event.scope, 1, change.event
            yield change.from_scope, -1, change.event
        elif isinstance(change, t.EventCancelled | t.EventCompleted) and change.event_id in state.events:
            yield change.scope, -1, state.events[change.event_id]
