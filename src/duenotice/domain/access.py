"""Creating and revoking tokens; one admin token always stays."""

import re

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.policy import Policy
from duenotice.domain.state import State
from duenotice.domain.token import TOKEN_NAME, Role, Token
from duenotice.errors import Conflict, LookAt, NotFound, Refused

MOST_TOKENS = 1000
"""So that state stays bounded (S24)."""


def create(state: State, command: c.CreateToken, now: Instant, policy: Policy) -> list[t.Transition]:
    """A new token with a new name; with `replace` it replaces the token of that name."""
    if not re.fullmatch(TOKEN_NAME, command.name):
        raise Refused(
            f"{command.name[:70]!r} is not a valid name for a token.",
            hint="Use 1 to 63 letters, digits and . _ @ -, with a letter or digit first.",
        )
    if command.only and command.role is not Role.FOLLOWER:
        raise Refused(
            f"A token of the role {command.role.value} is for all VMs.", hint="Leave 'only' out, or make it a follower."
        )
    same = [token for token in state.tokens.values() if token.name == command.name]
    if same and not command.replace:
        raise Conflict(f"There is a token {command.name!r} already.", hint="Take another name, or revoke it first.")
    if len(state.tokens) - len(same) >= MOST_TOKENS:
        raise Refused(f"There are {len(state.tokens)} tokens, which is the limit.", hint="Revoke some first.")
    token = Token(command.token_id, command.name, command.role, command.digest, now.at, command.only)
    return [*(t.TokenRevoked(old.id, old.name) for old in same), t.TokenCreated(token)]


def revoke(state: State, command: c.RevokeToken, now: Instant, policy: Policy) -> list[t.Transition]:
    """Revoke a token."""
    token = state.tokens.get(command.token_id)
    if token is None:
        raise NotFound(f"There is no token {command.token_id}.", look_at=LookAt.TOKENS)
    admins = [other for other in state.tokens.values() if other.role is Role.ADMIN]
    if admins == [token]:
        raise Conflict("This is the last admin token.", hint="Create another admin token first.")
    return [t.TokenRevoked(token.id, token.name)]
