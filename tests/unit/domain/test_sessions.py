"""Who is signed in at the console: how sessions begin, and everything that ends them (S24, S34, S35)."""

from datetime import timedelta

import pytest

from duenotice.clock import Instant, micros_of
from duenotice.domain import commands as c
from duenotice.domain import records as t
from duenotice.domain.apply import apply
from duenotice.domain.snapshot import restore, take
from duenotice.domain.state import State
from duenotice.domain.token import LASTS, MOST_OF_A_TOKEN, MOST_SESSIONS, Role, Session, Token, session_id
from duenotice.errors import NotFound
from duenotice.store.codec import SNAPSHOTS
from tests.unit.domain.build import NOW, SECOND, do

SHIFT = micros_of(LASTS)


def with_tokens(*names: str) -> State:
    """A state in which each of these is the id and the name of a viewer's token."""
    state = State()
    for name in names:
        apply(state, t.TokenCreated(Token(name, name, Role.VIEWER, f"digest of {name}", NOW.at)))
    return state


def sign_in(state: State, digest: str, token: str = "ann", instead_of: str = "", now: Instant = NOW) -> list[str]:
    """Begin a session; why others ended."""
    changes = do(state, c.BeginSession(token, digest, SHIFT, instead_of), now)
    return [change.reason for change in changes if isinstance(change, t.SessionEnded)]


def test_a_session_is_kept_by_its_digest_and_in_snapshots() -> None:
    state = with_tokens("ann")
    sign_in(state, "d")
    until = NOW.after(SHIFT)
    assert state.sessions == {"d": Session("d", "ann", until.at, until.steady)}
    stored = SNAPSHOTS.unpack(SNAPSHOTS.pack(take(state)))
    assert restore(stored).sessions == state.sessions == state.copy().sessions


def test_the_same_sign_in_that_is_asked_for_again_changes_nothing() -> None:
    state = with_tokens("ann")
    sign_in(state, "d")
    assert do(state, c.BeginSession("ann", "d", SHIFT), NOW.after(SECOND)) == []


def test_nobody_signs_in_with_a_token_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="no token ann"):
        sign_in(State(), "d")


@pytest.mark.parametrize(
    ("at", "steady", "is_over"),
    [
        (LASTS, LASTS, True),
        (LASTS - timedelta(microseconds=1), LASTS, False),
        (LASTS, LASTS - timedelta(microseconds=1), False),
        (timedelta(days=400), timedelta(0), False),  # somebody has set the wall clock far ahead
        (timedelta(days=-400), timedelta(days=2), False),  # or back
        (
            timedelta(days=-400),
            LASTS + timedelta(days=7),
            True,
        ),  # and has left it there, or it was ahead at the sign-in
    ],
)
def test_a_session_runs_out_when_it_is_too_late_by_both_faces_of_time(
    at: timedelta, steady: timedelta, is_over: bool
) -> None:
    state = with_tokens("ann")
    sign_in(state, "d")
    assert state.sessions["d"].is_over(Instant(NOW.at + at, NOW.steady + micros_of(steady))) is is_over


def test_people_read_a_session_by_the_beginning_of_its_digest() -> None:
    """No more of it is in the audit trail than tells it from others (S35)."""
    assert session_id("0123456789abcdef" * 4) == "0123456789ab"


def test_signing_out_ends_one_session_once() -> None:
    state = with_tokens("ann")
    sign_in(state, "d")
    sign_in(state, "e")
    assert do(state, c.EndSession("d"), NOW) == [t.SessionEnded("d", "ann")]
    assert do(state, c.EndSession("d"), NOW) == []
    assert list(state.sessions) == ["e"]


def test_a_browser_that_signs_in_again_has_only_its_new_session() -> None:
    state = with_tokens("ann", "bob")
    sign_in(state, "old")
    assert sign_in(state, "new", "bob", instead_of="old") == ["The same browser signed in again."]
    assert list(state.sessions) == ["new"]


def test_a_revoked_token_takes_its_sessions_with_it_and_no_others() -> None:
    state = with_tokens("ann", "bob")
    for digest, token in (("a1", "ann"), ("b", "bob"), ("a2", "ann")):
        sign_in(state, digest, token)
    apply(state, t.TokenRevoked("ann", "ann"))
    assert list(state.sessions) == ["b"]


def test_a_journal_that_has_lost_something_signs_everybody_out() -> None:
    """After an older journal was put in place, those who have signed out since then would be signed in again."""
    state = with_tokens("ann")
    sign_in(state, "d")
    do(state, c.LiftIncarnations(5), NOW)
    assert state.sessions == {}


def test_what_has_run_out_is_cleared_away_by_the_next_sign_in_of_anybody() -> None:
    state = with_tokens("ann", "bob")
    sign_in(state, "old")
    sign_in(state, "young", now=NOW.after(SECOND))
    assert sign_in(state, "new", "bob", now=NOW.after(SHIFT)) == ["It has run out."]
    assert list(state.sessions) == ["young", "new"]


def test_ten_thousand_sign_ins_with_one_token_keep_fifty_sessions() -> None:
    """The oldest goes first, and the snapshot stays small."""
    state = with_tokens("ann", "bob")
    sign_in(state, "bob's", "bob")
    for number in range(10_000):
        sign_in(state, f"{number:064}")
    kept = [f"{number:064}" for number in range(10_000 - MOST_OF_A_TOKEN, 10_000)]
    assert list(state.sessions) == ["bob's", *kept]
    assert len(SNAPSHOTS.pack(take(state)).payload) < 20_000


def test_when_there_are_too_many_sessions_in_all_the_token_with_the_most_makes_room() -> None:
    """So those who take many places cannot sign out those who have one."""
    state, until = with_tokens("quiet", "busy"), NOW.after(SHIFT)
    sign_in(state, "quiet's", "quiet")
    for number in range(MOST_SESSIONS - 1):
        token = "busy" if number < MOST_OF_A_TOKEN else f"t{number // (MOST_OF_A_TOKEN - 1)}"
        apply(state, t.SessionBegun(Session(f"{token} {number}", token, until.at, until.steady), token))
    assert sign_in(state, "another of quiet's", "quiet") == ["There were 10,000 sessions."]
    assert len(state.sessions) == MOST_SESSIONS
    assert ("quiet's" in state.sessions, "busy 0" in state.sessions) == (True, False)
