"""What a command names is found, or refused with what helps."""

from collections.abc import Callable

import pytest

from duenotice.domain.fleet import Condition, Group, GroupKind, Host
from duenotice.domain.state import (
    State,
    find_group,
    find_host,
    find_instance,
    find_plan,
    find_scale_set,
    find_standing_host,
    find_vm,
    group_of_vm,
)
from duenotice.errors import Conflict, LookAt, NotFound
from tests.unit.domain.build import fail, listening, maintain

JOBS = Group(GroupKind.SCALE_SET, "jobs")


@pytest.mark.parametrize(
    ("find", "words", "look_at"),
    [
        (find_vm, "no VM named 'nix'", LookAt.VMS),
        (find_host, "no host named 'nix'", LookAt.HOSTS),
        (find_standing_host, "no host named 'nix'", LookAt.HOSTS),
        (find_group, "no group 'nix'", LookAt.GROUPS),
        (find_scale_set, "no scale set named 'nix'", LookAt.GROUPS),
        (lambda state, name: find_instance(state, JOBS, name), "jobs has no instance 'nix'", LookAt.VMS),
        (find_plan, "no maintenance nix", LookAt.MAINTENANCES),
    ],
)
def test_what_is_not_there_is_refused_with_what_helps(
    find: Callable[[State, str], object], words: str, look_at: LookAt | None
) -> None:
    with pytest.raises(NotFound, match=words) as refused:
        find(listening(), "nix")
    assert refused.value.look_at is look_at
    assert refused.value.hint


@pytest.mark.parametrize(
    ("find", "name", "near"),
    [
        (find_vm, "web_0", "web-0"),
        (find_host, "hots-1", "host-1"),
        (find_group, "set/wbe", "set/web"),
        (find_scale_set, "btach", "batch"),
    ],
)
def test_the_nearest_name_is_given(find: Callable[[State, str], object], name: str, near: str) -> None:
    with pytest.raises(NotFound) as refused:
        find(listening(), name)
    assert refused.value.hint == f"Did you mean {near!r}?"


def test_what_is_there_is_found() -> None:
    state = listening()
    vm, batch = state.fleet.vms["web-0"], state.fleet.groups["scale-set/batch"]
    maintain(state, "web-0")
    assert find_vm(state, "web-0") is vm
    assert group_of_vm(state, vm) is state.fleet.groups["set/web"]
    assert group_of_vm(state, state.fleet.vms["alone"]) is None
    assert find_scale_set(state, "batch") is batch
    assert find_instance(state, batch, "batch_0") is state.fleet.vms["batch_0"]
    assert find_plan(state, next(iter(state.plans))).plan.id in state.plans


def test_a_vm_of_another_set_is_no_instance() -> None:
    state = listening()
    with pytest.raises(NotFound):
        find_instance(state, JOBS, "batch_0")


def test_a_host_that_has_failed_stands_no_more() -> None:
    state = listening()
    assert find_standing_host(state, "host-1") == Host("host-1")
    fail(state, "host-1")
    assert find_host(state, "host-1") == Host("host-1", Condition.FAILED)
    with pytest.raises(Conflict, match="host-1 has failed already"):
        find_standing_host(state, "host-1")
