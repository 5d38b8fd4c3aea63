"""A fleet file changes only what it says otherwise than before (N21); what was removed stays removed (S31)."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from duenotice.domain import last_applied
from duenotice.domain.commands import ApplyFleet, OperateVm, RepairHost, ScaleSet, SetEventsPolicy
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Declaration, EventsPolicy
from duenotice.domain.last_applied import difference
from duenotice.domain.records import FleetDeclared, Transition
from duenotice.domain.state import State
from duenotice.errors import Refused
from duenotice.wire.fleet_file import read_fleet
from tests.unit.domain.build import SEED, do, id_of


def vms(names: str, more: str = "") -> str:
    """A file with these VMs, each with an address of its own."""
    return more + "".join(f'[[vms]]\nname = "{name}"\naddress = "10.0.0.{ord(name)}"\n' for name in names)


def batch(capacity: int) -> str:
    """A scale set."""
    return f'[[scale_sets]]\nname = "batch"\ncapacity = {capacity}\naddresses = "10.0.8.0/24"\n'


def on(host: str, name: str) -> str:
    """A host and a VM on it."""
    return f'[[hosts]]\nname = "{host}"\n' + vms(name) + f'host = "{host}"\n'


def say(state: State, node: str, text: str) -> list[Transition]:
    """The file of a node as it is read at a start, or with SIGHUP."""
    return do(state, ApplyFleet(read_fleet(text), node=node, text=text))


def delete(state: State, *names: str) -> None:
    """As an operator does; nobody listens, so they are gone at once."""
    for name in names:
        do(state, OperateVm(id_of(1), name, EventType.TERMINATE))


def fleet(state: State) -> str:
    """The names of all VMs."""
    return "".join(sorted(state.fleet.vms))


class TestOneNode:
    def test_a_first_file_is_the_fleet(self) -> None:
        state = State()
        say(state, "", vms("abc"))
        assert fleet(state) == "abc"

    def test_the_same_again_changes_nothing_at_all(self) -> None:
        state = State()
        say(state, "", vms("abc"))
        assert say(state, "", vms("abc")) == []
        assert say(state, "", "# a remark\n" + vms("abc")) == []

    def test_new_things_come_changed_ones_change_and_dropped_ones_go(self) -> None:
        state = State()
        say(state, "", vms("abc"))
        say(state, "", vms("b") + "spot = true\n" + vms("cd"))
        assert (fleet(state), state.fleet.vms["b"].spot) == ("bcd", True)

    def test_what_an_operator_removed_stays_removed_whatever_else_the_file_says(self) -> None:
        state = State()
        say(state, "", vms("abc"))
        delete(state, "a")
        for text in (vms("abcd"), vms("abc"), vms("bc"), vms("abc"), vms("a") + "spot = true\n" + vms("bc")):
            say(state, "", text)
            assert fleet(state).replace("d", "") == "bc"

    def test_an_old_file_brings_back_only_what_a_file_has_dropped(self) -> None:
        state = State()
        say(state, "", vms("abc"))
        delete(state, "a")
        say(state, "", vms("c"))
        assert fleet(state) == "c"
        say(state, "", vms("abc"))
        assert fleet(state) == "bc"

    def test_an_operator_who_applies_a_whole_fleet_brings_it_back(self) -> None:
        """And from then on the file may drop it and name it again."""
        state = State()
        say(state, "", vms("abc"))
        delete(state, "a")
        do(state, ApplyFleet(read_fleet(vms("abc"))))
        assert fleet(state) == "abc"
        for text, left in ((vms("bc"), "bc"), (vms("abc"), "abc")):
            say(state, "", text)
            assert fleet(state) == left

    def test_what_an_operator_applied_stays_over_a_restart(self) -> None:
        state = State()
        say(state, "", vms("abc"))
        do(state, ApplyFleet(read_fleet(vms("bcx"))))
        assert say(state, "", vms("abc")) == []
        assert fleet(state) == "bcx"

    def test_a_first_file_after_an_operators_fleet_is_the_fleet(self) -> None:
        """As the one VM of an emulator goes when there is a file. What the operator removed stays removed."""
        state = State()
        do(state, ApplyFleet(read_fleet(vms("abx"))))
        delete(state, "a")
        say(state, "", vms("abc"))
        assert fleet(state) == "bc"

    def test_the_file_that_an_operator_applied_says_nothing_new(self) -> None:
        state = State()
        do(state, ApplyFleet(read_fleet(vms("ab"))))
        do(state, SetEventsPolicy("vm/b", EventsPolicy(all_instances_down=True)))
        before = state.fleet.vms["b"]
        assert [type(change) for change in say(state, "", vms("ab"))] == [FleetDeclared]
        assert state.fleet.vms["b"] == before

    def test_a_file_that_was_cut_short_is_refused(self) -> None:
        state = State()
        say(state, "", vms("abc"))
        with pytest.raises(Refused, match="would remove all 3 VMs"):
            say(state, "", "")


class TestScaleSets:
    def test_an_edit_elsewhere_leaves_the_capacity_that_operators_gave(self) -> None:
        state = State()
        say(state, "a", batch(4))
        say(state, "b", batch(4) + vms("x"))
        do(state, ScaleSet("batch", SEED, 2))
        for node, text in (("b", batch(4) + vms("xy")), ("a", batch(4) + vms("z")), ("a", batch(4))):
            say(state, node, text)
            assert len([name for name in state.fleet.vms if name.startswith("batch")]) == 2

    def test_another_capacity_in_the_file_counts(self) -> None:
        state = State()
        say(state, "", batch(4))
        do(state, ScaleSet("batch", SEED, 2))
        for capacity in (5, 1, 3):
            say(state, "", batch(capacity))
            assert sorted(state.fleet.vms) == [f"batch_{number}" for number in range(capacity)]

    def test_a_scale_set_goes_and_comes_with_its_instances(self) -> None:
        state = State()
        say(state, "", batch(2) + vms("a"))
        say(state, "", vms("a"))
        assert (list(state.fleet.groups), fleet(state)) == ([], "a")
        say(state, "", batch(2) + vms("a"))
        assert len(state.fleet.vms) == 3


class TestTwoNodes:
    def test_a_node_that_is_new_adds_what_was_never_there_and_takes_nothing_away(self) -> None:
        state = State()
        say(state, "a", vms("abc"))
        say(state, "b", vms("bcd"))
        assert fleet(state) == "abcd"
        assert state.fleet.digest == read_fleet(vms("abc")).digest, "it was not applied as a whole"

    def test_a_node_that_is_new_changes_nothing_that_is_there(self) -> None:
        state = State()
        say(state, "a", vms("ab", '[site]\nlocation = "here"\n'))
        say(state, "b", vms("a") + "spot = true\n")
        assert (state.fleet.vms["a"].spot, state.fleet.site.location) == (False, "here")

    @pytest.mark.parametrize("text", ["", "# nothing\n", vms("c")])
    def test_a_node_that_joins_with_little_takes_nothing_away(self, text: str) -> None:
        state = State()
        say(state, "a", vms("abc"))
        say(state, "b", text)
        assert fleet(state) == "abc"

    def test_a_node_that_is_new_brings_back_nothing_that_was_removed(self) -> None:
        """Neither what an operator has deleted, nor what was dropped from the file of another node."""
        state = State()
        say(state, "a", vms("abc"))
        delete(state, "a")
        say(state, "a", vms("ac"))
        assert fleet(state) == "c"
        say(state, "stale", vms("abc"))
        assert fleet(state) == "c"

    def test_restarts_in_any_order_change_nothing(self) -> None:
        state = State()
        files = {"a": vms("abcd"), "b": "# a remark\n" + vms("abce")}
        for node in "abab":
            say(state, node, files[node])
        delete(state, "a", "e")
        assert [change for node in "baababba" for change in say(state, node, files[node])] == []
        assert fleet(state) == "bcd"

    def test_an_edit_is_rolled_from_node_to_node(self) -> None:
        """Each takes part of it only once: what an operator has removed meanwhile does not come back with the next."""
        state = State()
        for node in "ab":
            say(state, node, vms("abc"))
        say(state, "a", vms("bcde"))
        assert fleet(state) == "bcde"
        delete(state, "d")
        say(state, "b", vms("bcde"))
        assert fleet(state) == "bce"
        for node in "ab":  # and back
            say(state, node, vms("abc"))
            assert fleet(state) == "abc"

    def test_a_vm_in_two_files_goes_when_one_of_them_drops_it_and_stays_away(self) -> None:
        state = State()
        for node in "ab":
            say(state, node, vms("abc"))
        say(state, "a", vms("ab"))
        say(state, "b", vms("abcd"))
        assert fleet(state) == "abd"
        say(state, "b", vms("c") + "spot = true\n" + vms("abd"))
        assert fleet(state) == "abd", "also if that one says something else of it"

    def test_hosts_and_sets_stay_as_long_as_a_vm_of_another_file_is_there(self) -> None:
        state = State()
        web = '[[availability_sets]]\nname = "web"\nvms = [{ name = "%s", address = "10.0.9.%s", host = "h" }]\n'
        host = '[[hosts]]\nname = "h"\n'
        say(state, "a", host + web % ("one", 1))
        say(state, "b", host + web % ("two", 2))
        say(state, "a", vms("x"))
        assert (sorted(state.fleet.vms), list(state.fleet.hosts), list(state.fleet.groups)) == (
            ["two", "x"],
            ["h"],
            ["set/web"],
        )
        say(state, "b", vms("y"))
        assert (fleet(state), list(state.fleet.hosts), list(state.fleet.groups)) == ("xy", [], [])

    def test_what_a_new_vm_needs_comes_with_it(self) -> None:
        """Although the file said it before, and the file of another node has dropped it meanwhile."""
        state = State()
        for node in "ab":
            say(state, node, on("h", "a"))
        say(state, "a", vms("x"))
        assert list(state.fleet.hosts) == []
        say(state, "b", on("h", "a") + vms("n") + 'host = "h"\n')
        assert (fleet(state), list(state.fleet.hosts)) == ("nx", ["h"])
        do(state, RepairHost("h"))

    def test_an_address_that_a_vm_of_another_file_has_is_refused_and_nothing_changes(self) -> None:
        state = State()
        say(state, "a", vms("a"))
        taken = vms("a").replace('"a"', '"other"')
        with pytest.raises(Refused, match=r"The address 10.0.0.97 of the VM 'other' is the address of 'a'"):
            say(state, "b", taken)
        assert (fleet(state), list(state.fleet.last_applied)) == ("a", ["a"])
        say(state, "a", vms("x") + taken)
        assert sorted(state.fleet.vms) == ["other", "x"], "within one file it may pass on"

    def test_within_a_file_two_vms_may_change_their_addresses_with_each_other(self) -> None:
        state = State()
        say(state, "a", vms("ab"))
        before = {name: vm.address for name, vm in state.fleet.vms.items()}
        say(state, "a", vms("a").replace("0.97", "0.98") + vms("b").replace("0.98", "0.97"))
        after = {name: vm.address for name, vm in state.fleet.vms.items()}
        assert (after["a"], after["b"]) == (before["b"], before["a"])

    def test_what_two_files_say_is_compared_in_words(self) -> None:
        state = State()
        say(state, "a", vms("abc"))
        say(state, "b", vms("a") + "spot = true\n" + vms("cdefghijklmno"))
        one, other = state.fleet.last_applied["a"], state.fleet.last_applied["b"]
        assert difference(one, other, ("a", "b")) == (
            "only in the file of a: vm/b; only in the file of b: vm/d, vm/e, vm/f, vm/g, vm/h, vm/i, vm/j, vm/k, "
            "vm/l, vm/m and 2 more; said otherwise: vm/a"
        )


class TestBounds:
    """S24."""

    def test_the_files_of_so_many_nodes_are_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(last_applied, "MOST_FILES", 3)
        state = State()
        for node in "abcde":
            say(state, node, vms("abc"))
        assert list(state.fleet.last_applied) == ["c", "d", "e"]
        assert len({id(file.lines) for file in state.fleet.last_applied.values()}) == 1

    def test_so_much_that_has_gone_is_remembered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(last_applied, "REMOVED_KEPT", 2)
        state = State()
        say(state, "a", vms("abcde"))
        delete(state, *"abc")
        assert state.fleet.removed == {"vm/b": False, "vm/c": False}

    def test_instances_of_scale_sets_are_not_remembered(self) -> None:
        state = State()
        say(state, "a", batch(3))
        do(state, ScaleSet("batch", SEED, 1))
        assert state.fleet.removed == {}


NAMES = st.sets(st.sampled_from("abcdef"), min_size=1).map(sorted)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("edit"), st.sampled_from("pqr"), NAMES),
        st.tuples(st.just("restart"), st.sampled_from("pqr"), st.just([])),
        st.tuples(st.just("delete"), st.just(""), NAMES),
    ),
    max_size=30,
)


@given(ACTS)
def test_a_vm_is_lost_only_by_an_edit_or_an_operator_and_never_comes_back_from_an_operator(
    acts: Iterable[tuple[str, str, list[str]]],
) -> None:
    """Three nodes with files of their own, in any order (S31)."""
    state, files, deleted = State(), dict[str, list[str]](), set[str]()
    for act, node, names in acts:
        before = set(state.fleet.vms)
        if act == "delete":
            delete(state, *(here := before & set(names)))
            deleted |= here
            continue
        said = files.get(node)
        files[node] = names = files.get(node, ["a"]) if act == "restart" else names
        say(state, node, vms("".join(names)))
        after = set(state.fleet.vms)
        assert not after & deleted
        if said is not None:
            assert before - after == before & (set(said) - set(names))
            assert after - before == set(names) - set(said) - before - deleted
        else:
            assert after >= before or len(files) == 1
            assert after - before <= set(names)


def test_lines_tell_all_that_can_be_said_apart() -> None:
    """One field of a VM, a group, a host or the site changes one line; the digest follows from the lines."""
    declared = read_fleet(batch(2) + vms("a"))
    lines = set(last_applied.lines_of(declared).split("\n"))
    assert {line.split()[0] for line in lines} == {"site", "scale-set/batch", "vm/a"}
    others: list[Declaration] = [
        structs.replace(declared, vms=(structs.replace(declared.vms[0], size="large"), *declared.vms[1:])),
        structs.replace(declared, vms=declared.vms[:-1]),
        structs.replace(declared, groups=(structs.replace(declared.groups[0], zone="2"),)),
        structs.replace(declared, site=structs.replace(declared.site, location="there")),
    ]
    for other in others:
        assert len(lines - set(last_applied.lines_of(other).split("\n"))) == 1
