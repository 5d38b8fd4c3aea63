"""What becomes of a process of a node that died, when the next one starts on its directory."""

from pathlib import Path

import pytest

from duenotice.bootstrap.cluster import ClusterStore
from duenotice.operator_api.way_to_leader import WayToLeader
from tests.support.postgres import Database

pytestmark = pytest.mark.machine


def test_the_process_of_a_node_that_died_stays_a_member_while_its_followers_may_answer(
    database: Database, tmp_path: Path
) -> None:
    """Only a new process that knows of no follower has it forgotten at once; else the lease does (N05)."""
    lives = []
    for _ in range(2):
        store = ClusterStore(database.url, tmp_path, "a", WayToLeader(None))
        before = [member.life for member in store.members.look().members]
        store.members.register(store.life, "a", "", "")
        store.members.join(store.life, 0)
        lives.append((store.life, before))
        died = store  # without a word to the others
        died.journal.close()
        died.members.close()
    (first, nobody), (second, with_first) = lives
    assert (nobody, with_first) == ([], [first])
    third = ClusterStore(database.url, tmp_path, "a", WayToLeader(None))
    third.forget_last_life()
    assert second not in [member.life for member in third.members.look().members]
    third.journal.close()
    third.members.close()
