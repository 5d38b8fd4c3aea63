"""Giving tokens out and taking them back."""

import pytest

from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.apply import apply
from duenotice.domain.rules.decide import MOST_TOKENS
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.token import Role, Token, digest_of, token_with
from duenotice.errors import Conflict, LookAt, NotFound, Refused
from tests.unit.domain.build import NOW, do


def create(state: State, name: str = "alice", role: Role = Role.ADMIN, *, replace: bool = False) -> Token:
    """Give one out under an id made of its name."""
    token_id = f"{name}-{len(state.tokens)}"
    do(state, c.CreateToken(token_id, name, role, f"digest-{token_id}", replace), NOW)
    return state.tokens[token_id]


def test_a_created_token_is_kept_by_its_digest_and_in_snapshots() -> None:
    state = State()
    token = create(state, role=Role.VIEWER)
    assert token == Token("alice-0", "alice", Role.VIEWER, "digest-alice-0", NOW.at)
    assert restore(take(state)).tokens == {token.id: token}


def test_two_tokens_never_have_the_same_name() -> None:
    state = State()
    create(state)
    with pytest.raises(Conflict, match="a token 'alice' already"):
        create(state)


def test_a_token_takes_the_place_of_its_namesake_when_asked_to() -> None:
    state = State()
    create(state)
    second = create(state, replace=True)
    assert list(state.tokens.values()) == [second]


@pytest.mark.parametrize("name", ["", " ", "-a", "a b", "a/b", "ä", "a\n", "a" * 64])
def test_a_name_is_one_that_a_log_line_can_hold(name: str) -> None:
    with pytest.raises(Refused, match="not a valid name for a token"):
        create(State(), name)


def test_there_is_an_end_to_tokens() -> None:
    state = State()
    for number in range(MOST_TOKENS):
        apply(state, t.TokenCreated(Token(str(number), f"t{number}", Role.ADMIN, str(number), NOW.at)))
    with pytest.raises(Refused, match="which is the limit"):
        create(state)
    create(state, "t1", replace=True)


def test_a_revoked_token_is_gone_and_cannot_be_revoked_again() -> None:
    state = State()
    create(state)
    viewer = create(state, "bob", Role.VIEWER)
    do(state, c.RevokeToken(viewer.id), NOW)
    assert viewer.id not in state.tokens
    with pytest.raises(NotFound, match="There is no token bob-1") as refused:
        do(state, c.RevokeToken(viewer.id), NOW)
    assert refused.value.look_at is LookAt.TOKENS


def test_the_last_admin_cannot_lock_everybody_out() -> None:
    state = State()
    first = create(state)
    create(state, "bob", Role.OPERATOR)
    with pytest.raises(Conflict, match="last admin token"):
        do(state, c.RevokeToken(first.id), NOW)
    create(state, "carol")
    do(state, c.RevokeToken(first.id), NOW)
    assert first.id not in state.tokens


def test_the_only_token_that_there_is_stays() -> None:
    state = State()
    first = create(state)
    with pytest.raises(Conflict, match="last admin token"):
        do(state, c.RevokeToken(first.id), NOW)


def test_each_role_may_do_what_the_smaller_ones_may() -> None:
    allowed = [[needed for needed in Role if role.covers(needed)] for role in Role]
    assert allowed == [list(Role)[:1], list(Role)[:2], list(Role)[:3], [Role.FOLLOWER]]


def test_who_was_ever_followed_is_known_for_good() -> None:
    """A follower may answer for a while after its token was revoked, so the next process has to know of it (N05)."""
    state = State()
    create(state)
    assert not restore(take(state)).had_readers
    shadow = create(state, "shadow", Role.FOLLOWER)
    do(state, c.RevokeToken(shadow.id), NOW)
    assert state.had_readers and restore(take(state)).had_readers and state.copy().had_readers


def test_only_a_followers_token_can_be_for_some_vms() -> None:
    state = State()
    with pytest.raises(Refused, match="role viewer is for all VMs"):
        do(state, c.CreateToken("t", "alice", Role.VIEWER, "digest", only="host=h1"), NOW)
    do(state, c.CreateToken("t", "h1", Role.FOLLOWER, "digest", only="host=h1"), NOW)
    assert restore(take(state)).tokens["t"].only == "host=h1"


def test_a_token_is_found_by_its_secret_and_by_nothing_else() -> None:
    token = Token("T-1", "alice", Role.ADMIN, digest_of("secret"), NOW.at)
    assert token_with("secret", [token]) is token
    assert token_with("another", [token]) is None
    assert token_with(token.digest, [token]) is None
