"""Whether a scope listens (F01-F03)."""

from duenotice.clock import MICROS, Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.lookup import find_vm
from duenotice.domain.policy import Policy
from duenotice.domain.scope import scope_of
from duenotice.domain.state import State

SILENCE = 24 * 3600 * MICROS
"""No request for this long turns a scope off (F02)."""


def enable(state: State, command: c.EnableScope, now: Instant, policy: Policy) -> list[t.Transition]:
    """The first request of a scope turns it on (F01); the incarnation goes on from where it was (F03)."""
    scope = scope_of(find_vm(state, command.vm))
    return [] if state.enabled(scope) else [t.ScopeEnabled(scope)]


def disable(state: State, command: c.DisableScopes, now: Instant, policy: Policy) -> list[t.Transition]:
    """Scopes that have been silent no longer listen (F02)."""
    return [t.ScopeDisabled(scope) for scope in command.scopes if state.enabled(scope)]
