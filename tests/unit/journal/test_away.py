"""VMs that are away from a drained host were stored with one more field; those rows stay readable."""

from duenotice.domain.fleet import Away, Vm
from duenotice.domain.transitions import VmsPut
from duenotice.journal.codec import RECORDS, SNAPSHOTS, Row, checksum

VMS = b"""[{"name":"a","address":"10.0.0.1","host":"h2","declared_host":"h1","away_from":"h3"},
{"name":"b","address":"10.0.0.2","host":"h2","away_from":"h3"},
{"name":"c","address":"10.0.0.3","host":"h2","declared_host":"h1"}]"""
HOMES = (Away("h3", "h1"), Away("h3"), "h1")


def row(payload: bytes, format: int) -> Row:
    return Row(7, format, checksum(7, format, payload), payload)


def homes(vms: tuple[Vm, ...]) -> tuple[object, ...]:
    return tuple(vm.home for vm in vms)


def test_a_record_of_format_9_says_where_vms_are_away_from() -> None:
    payload = b'{"position":7,"at":"2026-03-01T12:00:00Z","actor":"a","transition":{"change":"vms-put","vms":%b}}' % VMS
    change = RECORDS.unpack(row(payload, 9)).transition
    assert isinstance(change, VmsPut)
    assert homes(change.vms) == HOMES


def test_a_snapshot_of_format_8_says_where_vms_are_away_from() -> None:
    payload = b'{"position":7,"at":"2026-03-01T12:00:00Z","vms":%b}' % VMS
    snapshot = SNAPSHOTS.unpack(row(payload, 8))
    assert homes(snapshot.vms) == HOMES
    assert SNAPSHOTS.unpack(SNAPSHOTS.pack(snapshot)) == snapshot


def test_a_vm_is_no_larger_for_it() -> None:
    """With a million VMs each field counts: the 15th would take 16 bytes."""
    assert len(Vm.__struct_fields__) == 14
