"""Keys of access tokens: a new one each day, and each counts as long as a token that it has signed (M02)."""

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from duenotice.azure_api import signing_keys
from duenotice.azure_api.signing_keys import (
    BEGINS_AFTER,
    LASTS,
    MOST_KEYS,
    ROTATED_AFTER,
    SLACK,
    KeyRing,
    SigningKeys,
)
from duenotice.errors import Misconfigured, Refused
from duenotice.store.memory import MemorySecrets
from duenotice.system import SecretFile

NOW = 1_800_000_000
FIRST = KeyRing().in_time(NOW)
DAY_LATER = NOW + ROTATED_AFTER + 1


def test_the_first_key_counts_at_once() -> None:
    (key,) = FIRST.keys
    assert (key.begins, FIRST.signing(NOW), FIRST.find(key.id)) == (NOW, key, key)
    assert len(key.secret) == 32


def test_a_day_later_there_is_a_new_one_which_signs_when_all_nodes_know_it() -> None:
    """Until then the old one does; and no third comes meanwhile."""
    assert FIRST.in_time(DAY_LATER - 1) == FIRST
    both = FIRST.in_time(DAY_LATER)
    old, new = both.keys
    assert old == FIRST.keys[0]
    assert both.signing(DAY_LATER + BEGINS_AFTER - 1) == old
    assert both.signing(DAY_LATER + BEGINS_AFTER) == new
    assert both.in_time(DAY_LATER + BEGINS_AFTER) == both


def test_the_old_one_counts_until_its_last_token_has_ended() -> None:
    """Its last token was signed when the new one began; some minutes more are how clocks differ."""
    both = FIRST.in_time(DAY_LATER)
    over, known = DAY_LATER + BEGINS_AFTER + LASTS + SLACK, {key.id for key in both.keys}
    assert both.in_time(over, known) == both
    assert both.in_time(over + 1, known).keys == both.keys[1:]


def test_it_counts_as_long_as_nobody_has_known_the_new_one_for_so_long() -> None:
    """The time of day alone does not say that it is over (S34)."""
    both = FIRST.in_time(DAY_LATER)
    assert both.in_time(DAY_LATER + ROTATED_AFTER, {FIRST.keys[0].id}).keys == both.keys


@pytest.mark.parametrize("wrong", [LASTS + ROTATED_AFTER + 2, 10 * 365 * 86400, -600, -2 * LASTS, -10 * ROTATED_AFTER])
def test_a_clock_that_is_wrong_for_a_moment_costs_no_key(wrong: int) -> None:
    """What was signed before is good when it is right again, by either of two keys, and the next comes in its time."""
    both, known = FIRST.in_time(DAY_LATER), {FIRST.keys[0].id}
    now = DAY_LATER + BEGINS_AFTER + 60
    meanwhile = both.in_time(now + wrong, known)
    assert meanwhile.signing(now + wrong)
    back = meanwhile.in_time(now + 60, known)
    assert set(both.keys) <= set(back.keys)
    assert back.signing(now + 60) == both.keys[1]
    after = back.in_time(now + ROTATED_AFTER, known | {both.keys[1].id})
    assert after.signing(now + ROTATED_AFTER + BEGINS_AFTER) not in both.keys
    assert both.keys[0] not in after.keys


def test_a_clock_that_is_wrong_again_and_again_makes_no_more_than_so_many() -> None:
    """And drops none that counts (S24)."""
    ring = FIRST
    for wrong in range(1, 2 * MOST_KEYS):
        ring = ring.in_time(NOW + wrong * 10 * ROTATED_AFTER).in_time(NOW)
    assert len(ring.keys) == MOST_KEYS
    assert ring.signing(NOW) == FIRST.keys[0]
    assert ring.in_time(DAY_LATER).signing(DAY_LATER + BEGINS_AFTER).begins == DAY_LATER + BEGINS_AFTER


def test_what_a_process_has_not_known_for_long_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its own steady clock says how long that is; a new process begins to count again."""
    steady, shown = 0.0, NOW
    monkeypatch.setattr(signing_keys, "monotonic", lambda: steady)
    monkeypatch.setattr(signing_keys, "_now", lambda: shown)
    keys = SigningKeys(SecretFile(tmp_path / "keys"))
    keys.look()
    (first,) = keys.ring.keys
    for seconds, right, there in (
        (DAY_LATER - NOW, True, True),
        (60, True, True),
        (5, False, True),
        (4200, True, False),
    ):
        steady, shown = steady + seconds, NOW + round(steady) + seconds + (0 if right else 9 * ROTATED_AFTER)
        keys.look()
        assert (first in keys.ring.keys) is there, seconds


def test_a_clock_that_goes_back_leaves_a_key_to_sign_with() -> None:
    assert FIRST.in_time(NOW - 600).signing(NOW - 600) == FIRST.keys[0]


def test_a_key_can_be_rotated_at_any_time() -> None:
    """In peace: the old ones count on. Or at once: then nothing that was signed before counts."""
    both = FIRST.rotated(NOW + 10, at_once=False)
    assert (both.keys[0], both.keys[1].begins) == (FIRST.keys[0], NOW + 10 + BEGINS_AFTER)
    (new,) = both.rotated(NOW + 20, at_once=True).keys
    assert (new.begins, new in both.keys) == (NOW + 20, False)


def test_there_are_never_very_many() -> None:
    ring = FIRST
    while len(ring.keys) < MOST_KEYS:
        ring = ring.rotated(NOW, at_once=False)
    with pytest.raises(Refused, match="16 keys"):
        ring.rotated(NOW, at_once=False)


def test_nothing_that_is_logged_has_a_secret() -> None:
    assert repr(FIRST.keys[0].secret)[2:-1] not in repr(FIRST)


# Where they are kept


@pytest.fixture(params=["file", "memory"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], SigningKeys]:
    """The keys as another process has them, in one place."""
    if request.param == "memory":
        store = MemorySecrets()
        return lambda: SigningKeys(store)
    return lambda: SigningKeys(SecretFile(tmp_path / "keys"))


def test_all_have_the_same_keys(opened: Callable[[], SigningKeys]) -> None:
    """Also those who come at the same time, and those who look when one has rotated."""
    with ThreadPoolExecutor(8) as threads:
        everybody = [opened() for _ in range(8)]
        list(threads.map(SigningKeys.look, everybody))
    assert len({keys.ring for keys in everybody}) == 1
    everybody[0].rotate(at_once=True)
    for keys in everybody:
        keys.look()
    assert {keys.ring for keys in everybody} == {everybody[0].ring}


def test_a_store_that_has_lost_all_gets_back_what_a_node_knows(tmp_path: Path) -> None:
    """A database that has crashed finds its table empty; nobody has to sign in again."""
    keys = SigningKeys(SecretFile(tmp_path / "keys"))
    keys.look()
    before = keys.ring
    (tmp_path / "keys").unlink()
    keys.look()
    assert keys.ring == before
    other = SigningKeys(SecretFile(tmp_path / "keys"))
    other.look()
    assert other.ring == before


def test_the_file_is_ours_alone_and_whole(tmp_path: Path) -> None:
    """Mode 0600; what a crash has left beside it is no hindrance."""
    (tmp_path / "keys.new").write_text("half")
    SigningKeys(SecretFile(tmp_path / "keys")).look()
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys"]


def _readable(path: Path) -> None:
    path.chmod(0o604)


def _somebodys(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, -1)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _rubbish(path: Path) -> None:
    path.write_text("{")


@pytest.mark.parametrize("planted", [_readable, _somebodys, _link, _pipe, _rubbish])
def test_a_file_that_somebody_else_may_have_written_is_not_used(
    tmp_path: Path, planted: Callable[[Path], None]
) -> None:
    """Its owner, its mode and what it is are looked at before its contents, and it is left as it is."""
    path = tmp_path / "keys"
    SigningKeys(SecretFile(path)).look()
    planted(path)
    before = _seen(path)
    with pytest.raises(Misconfigured) as refused:
        SigningKeys(SecretFile(path)).look()
    assert refused.value.hint
    assert _seen(path) == before


def _seen(path: Path) -> tuple[int, ...]:
    found = path.lstat()
    return found.st_ino, found.st_uid, found.st_mode, found.st_size, found.st_mtime_ns
