"""Creating and revoking tokens, of which one admin's always stays; and who is signed in with them."""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice

from duenotice.clock import Instant
from duenotice.domain import commands as c
from duenotice.domain import transitions as t
from duenotice.domain.policy import Policy
from duenotice.domain.session import MOST_OF_A_TOKEN, MOST_SESSIONS, Session
from duenotice.domain.state import State
from duenotice.domain.token import TOKEN_NAME, Role, Token
from duenotice.errors import Conflict, LookAt, NotFound, Refused

MOST_TOKENS = 1000
"""So that state stays bounded (S24)."""

_CLEARED_AT_ONCE = 100
"""Sessions that have run out, and are cleared away by the next sign-in."""


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


def begin_session(state: State, command: c.BeginSession, now: Instant, policy: Policy) -> list[t.Transition]:
    """A session of a token; asked again, it is the same. With too many, the oldest of one token ends (S24)."""
    token = state.tokens.get(command.token_id)
    if token is None:
        raise NotFound(f"There is no token {command.token_id}.", look_at=LookAt.TOKENS)
    if command.digest in state.sessions:
        return []
    known = state.sessions.values()
    ended = dict.fromkeys(islice((each for each in known if each.is_over(now)), _CLEARED_AT_ONCE), "It has run out.")
    if (before := state.sessions.get(command.instead_of)) is not None:
        ended[before] = "The same browser signed in again."
    left = [each for each in known if each not in ended]
    counts = Counter(each.token_id for each in left)
    if counts[token.id] >= MOST_OF_A_TOKEN:
        ended[_oldest(left, token.id)] = f"Its token had {MOST_OF_A_TOKEN} others."
    elif len(left) >= MOST_SESSIONS:  # the token with the most makes room, so that nobody can sign others out
        ended[_oldest(left, counts.most_common(1)[0][0])] = f"There were {MOST_SESSIONS:,} sessions."
    until = now.after(command.lasts)
    session = Session(command.digest, token.id, until.at, until.steady)
    return [*(_ended(state, each, why) for each, why in ended.items()), t.SessionBegun(session, token.name)]


def _oldest(sessions: Iterable[Session], token_id: str) -> Session:
    return next(each for each in sessions if each.token_id == token_id)


def end_session(state: State, command: c.EndSession, now: Instant, policy: Policy) -> list[t.Transition]:
    """Somebody signs out; once is enough."""
    session = state.sessions.get(command.digest)
    return [] if session is None else [_ended(state, session)]


def _ended(state: State, session: Session, why: str = "") -> t.Transition:
    return t.SessionEnded(session.digest, state.tokens[session.token_id].name, why)
