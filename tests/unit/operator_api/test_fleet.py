"""What a fleet file has changed is written in pieces, and reads as if it were written as a whole."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain import records as t
from duenotice.domain.fleet import Vm
from duenotice.operator_api.answers import encode
from duenotice.operator_api.fleet import summary
from duenotice.wire import operator as o

NAMES = st.lists(st.sampled_from(["a", "b", 'quoted"', "ä", "e", "f"]), max_size=4)
CHANGES = st.lists(
    st.one_of(
        NAMES.map(lambda names: t.VmsRemoved(tuple(names))),
        NAMES.map(lambda names: t.VmsPut(tuple(Vm(name, "10.0.0.1") for name in names))),
        st.just(t.GroupsRemoved(("set/web",))),
    )
)


def as_a_whole(changes: list[t.Transition], known: set[str], dry: bool) -> o.FleetChange:
    """The same, with all names of each kind in one list."""
    put = [vm.name for change in changes if isinstance(change, t.VmsPut) for vm in change.vms]
    removed = [name for change in changes if isinstance(change, t.VmsRemoved) for name in change.names]
    added, changed = (tuple(name for name in put if (name in known) is there) for there in (False, True))
    return o.FleetChange(added, tuple(removed), changed, len(changes), dry)


@given(CHANGES, st.sets(st.sampled_from(["a", 'quoted"', "e"])), st.booleans())
def test_the_summary_has_the_same_bytes_as_one_that_is_written_as_a_whole(
    changes: list[t.Transition], known: set[str], dry: bool
) -> None:
    written, whole = encode(summary(changes, known, dry)), as_a_whole(changes, known, dry)
    assert written == encode(whole)
    assert msgspec.json.decode(written, type=o.FleetChange) == whole
