"""Very many things are given back, a few in each step, and nobody who still has them notices."""

import sys
import weakref
from itertools import pairwise

from duenotice.domain.apply import Touched
from duenotice.domain.bulk import CHUNK
from duenotice.domain.commands import ApplyFleet, Tick
from duenotice.domain.fleet import Declaration, Vm
from duenotice.engine.threads import free_in_steps

NUMBER = 3 * CHUNK + 1


class Part:
    """Tells when it is given back: not even a weak reference to a VM is possible."""


def fleet() -> tuple[Vm, ...]:
    return tuple(Vm(f"vm-{number}", f"10.0.{number // 256}.{number % 256}") for number in range(NUMBER))


def given_back_at_once(things: list[object], parts: list["weakref.ref[Part]"]) -> list[int]:
    """How many parts are given back between two steps of Python: while fewer are, other threads can run."""
    left: list[int] = [len(parts)]

    def count(*_: object) -> None:
        left.append(sum(part() is not None for part in parts))

    sys.setprofile(count)
    try:
        free_in_steps(things)
    finally:
        sys.setprofile(None)
    return [before - after for before, after in pairwise(left) if before != after]


def test_what_a_dict_held_is_given_back_some_at_a_time() -> None:
    held = {number: Part() for number in range(NUMBER)}
    parts = [weakref.ref(part) for part in held.values()]
    things: list[object] = [held]
    del held
    assert given_back_at_once(things, parts) == [1, CHUNK, CHUNK, CHUNK]


def test_what_tuples_held_is_given_back_one_by_one() -> None:
    held = ((Part(), (Part(), Part())), Part())
    parts = [weakref.ref(held[0][0]), *map(weakref.ref, held[0][1]), weakref.ref(held[1])]
    things: list[object] = [held]
    del held
    assert given_back_at_once(things, parts) == [1, 1, 1, 1]


def test_a_fleet_is_taken_apart_and_stays_whole_for_others_who_have_it() -> None:
    vms = fleet()
    command = ApplyFleet(Declaration("a fleet", vms=vms))
    touched = Touched({"vm/1"}, {vm.name for vm in vms}, set())
    things: list[object] = [command, touched, dict(enumerate(vms)), Tick()]
    free_in_steps(things)
    assert things == []
    assert command == ApplyFleet(Declaration("a fleet", vms=fleet()))
    assert len(touched.vms) == NUMBER
