"""The store of the simulator: what another server has after a loss."""

import pytest

from duenotice.testkit.journal_examples import records
from simulator.store import SharedStore


@pytest.mark.parametrize(("stored", "is_kept"), [(2, True), (3, False)])
def test_a_backup_with_more_than_there_is_after_a_loss_is_not_kept(stored: int, is_kept: bool) -> None:
    """It would come back with a head of more records than it has, and no node could join."""
    store = SharedStore()
    store.journal.append(records(1, 2))
    older = store.copy()
    store.journal.append(records(3, 3))
    store.backup = older if stored == 2 else store.copy()
    assert store.go_on_from(older) == 2
    assert (store.backup is not None) is is_kept
