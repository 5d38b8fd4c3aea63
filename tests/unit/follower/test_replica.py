"""A follower's copy: the same fold as the node's, and nobody reads what goes ahead."""

from msgspec import Raw

from duenotice.domain.records import Record, ScopeEnabled
from duenotice.domain.snapshot import take
from duenotice.domain.state import State
from duenotice.follower.replica import Replica
from duenotice.store.codec import RECORDS
from duenotice.wire.replication import LogRecord
from tests.unit.domain.build import NOW, state_of


def written(position: int, scope: str) -> LogRecord:
    row = RECORDS.pack(Record(position, NOW.at, "test", ScopeEnabled(scope)))
    return LogRecord(row.position, row.format, row.crc, Raw(row.payload))


def test_what_is_told_is_folded_ahead_and_shown_as_a_whole() -> None:
    """Twice, so that both states have changed places; a line that comes again changes nothing."""
    begin = state_of()
    replica = Replica("node", take(begin))
    replica.newest(State())
    replica.showed()
    for number, scope in enumerate(("vm/alone", "vm/zonal"), start=1):
        before, _ = replica.newest(State())
        told = written(begin.position + number, scope)
        assert replica.take([told, told]).scopes == {scope}
        shown, touched = replica.newest(before)
        assert (shown.position, touched.scopes) == (begin.position + number, {scope})
        assert shown.enabled(scope)
        replica.showed()
