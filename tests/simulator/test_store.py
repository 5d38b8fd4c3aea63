"""The store of the simulator loses whole commits, as a database does, and never a part of one."""

import pytest

from duenotice.engine.members import Members
from duenotice.testkit.journal_contract import records
from simulator.store import SharedStore


def led_by(store: Members) -> int:
    """One node leads; the epoch."""
    store.register("life-a", "a", "http://a", "1.0")
    store.join("life-a", 0)
    head = store.take_over("life-a", 0, 0)
    assert head is not None
    return head.epoch


@pytest.fixture
def store() -> SharedStore:
    """A store with one commit of two records."""
    store = SharedStore()
    store.append("life-a", led_by(store), records(1, 2))
    return store


def test_a_backup_of_what_is_lost_is_not_one_of_what_comes_after(store: SharedStore) -> None:
    older = store.copy()
    store.append("life-a", 1, records(3, 4))
    store.backup = store.copy()
    store.go_on_from(older)
    store.append("life-a", 1, records(3, 5))
    assert store.backup is None, "its four rows would be one and a half commits"


def test_a_backup_of_what_is_kept_can_still_be_put_in_place(store: SharedStore) -> None:
    store.backup = store.copy()
    store.append("life-a", 1, records(3, 4))
    assert store.go_on_from(store.copy()) == 4
    store.append("life-a", 1, records(5, 6))
    assert store.go_on_from(store.backup) == 2


def test_a_server_with_all_there_was_leaves_backups_as_they_are(store: SharedStore) -> None:
    store.backup = store.copy()
    assert store.go_on_from(None) == 2
    assert store.backup is not None
