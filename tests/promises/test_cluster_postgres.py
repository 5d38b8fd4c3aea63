"""Random stories of two real engines on one real database: what VMs read never goes back (S3, S4, S7, S27).

Time passes when told, and nodes hear of news with their beats only, so a story is the same each time. The stories and
the checks are those of `test_cluster_engines`.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from duenotice.engine.members import News
from duenotice.store.data_dir import CheckpointFile
from duenotice.store.postgres import PostgresJournal
from duenotice.store.postgres_members import PostgresMembers
from duenotice.store.postgres_schema import prepared
from tests.promises.test_cluster_engines import STORIES, UNSHRUNK, play
from tests.support.postgres import Database, database, postgres_folder
from tests.unit.engine.cluster_rig import Cluster

__all__ = ["database", "postgres_folder"]

pytestmark = pytest.mark.machine

EXAMPLES = 4
MANY = int(os.environ.get("DUENOTICE_EXAMPLES", "200"))
EMPTY = """TRUNCATE duenotice.records, duenotice.snapshots, duenotice.nodes, duenotice.polls;
    UPDATE duenotice.head SET position = 0, shown = 0, epoch = 0, leader = '', steady = 0, turn = 0"""


class OnTheLoop:
    """A store or a journal that is asked on the loop, so that all happens in one order; all nodes have the same one."""

    blocking = False

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def listen(self, hear: Callable[[News], None]) -> Callable[[], None]:
        return lambda: None

    def close(self) -> None:
        """The other nodes go on."""


@contextmanager
def cluster_on(database: Database) -> Iterator[Cluster]:
    """Each story begins with an empty database."""
    database.sql(EMPTY)
    members = PostgresMembers(database.url)
    journal = PostgresJournal(database.url, members, CheckpointFile(None), "all")
    with closing(journal):
        on_the_loop: Any = OnTheLoop(journal)
        yield Cluster(OnTheLoop(members), on_the_loop)


def _plays(database: Database, examples: int) -> None:
    prepared(database.url)

    @settings(max_examples=examples, deadline=None, phases=UNSHRUNK, suppress_health_check=list(HealthCheck))
    @given(STORIES)
    def test(story: list[Any]) -> None:
        async def told() -> int:
            with cluster_on(database) as cluster:
                return (await play(story, cluster, "ab")).reads

        assert asyncio.run(asyncio.wait_for(told(), 240)) > 10

    test()


def test_whatever_happens_to_two_nodes_on_a_database_what_vms_read_never_goes_back(database: Database) -> None:
    """And the same scope and incarnation is the same bytes, at both; once faults are over both answer."""
    _plays(database, EXAMPLES)


@pytest.mark.soak
def test_the_same_for_longer(database: Database) -> None:
    _plays(database, MANY)
