"""Who is picked for a role: the same every time, quiet ones first, nobody twice, and a clear word when nobody fits."""

from typing import Any

import pytest

from duenotice.errors import Malformed, Refused
from duenotice.scenarios.casting import Candidates, cast
from duenotice.scenarios.kinds import CastRole, RoleName
from duenotice.wire.operator import Group, Host, Vm
from tests.support.answers import a_step, a_vm, an_event


def vm(name: str, **more: Any) -> Vm:
    if "group" in more:
        more["scope"] = f"{more['group']}/{more.get('placement_group') or 0}"
    return a_vm(name, **more)


def group(kind: str, name: str, terminate_notice: int | None = None) -> Group:
    return Group(f"{kind}/{name}", kind, name, 5, 2, terminate_notice, 0, None)


WEB = [vm(f"web-{n}", group="set/web", update_domain=(n + 1) % 3) for n in range(11)]
POOL = [vm(f"pool_{n}", group="scale-set/pool", update_domain=n % 2, placement_group=n // 2) for n in range(4)]
VMS = [vm("db-10"), vm("db-9"), vm("spot-1", spot=True), vm("on-h1", host="h1"), vm("on-h2", host="h2"), *WEB, *POOL]
GROUPS = [group("set", "web"), group("set", "empty"), group("scale-set", "pool", 300), group("service", "shop")]
CONDITIONS = (("h0", "healthy", 0), ("h1", "failed", 1), ("h2", "healthy", 1))
HOSTS = [Host(name, condition, vms) for name, condition, vms in CONDITIONS]


def picked(*roles: CastRole, told: dict[str, str] | None = None, **more: Any) -> list[str]:
    """Who plays these."""
    fleet = Candidates(VMS, GROUPS, HOSTS, **more)
    return [pick.name for pick in cast(roles, fleet, told or {}).values()]


def role(name: str, kind: str, **needs: Any) -> CastRole:
    return CastRole(
        name, kind, {key: RoleName(value) if isinstance(value, str) else value for key, value in needs.items()}
    )


def test_roles_go_to_those_who_fit_by_name_and_nobody_plays_two() -> None:
    """9 comes before 10; a spot VM is no plain one."""
    roles = [role(name, "vm") for name in ("a", "b", "c", "d")]
    assert picked(*roles) == ["db-9", "db-10", "on-h1", "on-h2"]
    assert picked(role("s", "spot")) == ["spot-1"]


def test_wholes_must_have_what_is_asked_of_them() -> None:
    """A set with VMs, a scale set with terminate notifications, a host that is healthy and not empty."""
    assert picked(role("s", "set", update_domains=3, together=4, vms=11)) == ["web"]
    assert picked(role("p", "scale-set", terminate_notice=True)) == ["pool"]
    assert picked(role("h", "host")) == ["h2"]


def test_members_stand_where_they_are_asked_to() -> None:
    """First those of the fullest update domain, so that there is somebody beside them."""
    web = role("web", "set")
    roles = [
        web,
        role("one", "member", of="web"),
        role("beside", "member", of="web", beside="one"),
        role("apart", "member", of="web", apart="one"),
        role("third", "member", of="web", domain=3),
    ]
    assert picked(*roles) == ["web", "web-0", "web-3", "web-1", "web-4"]
    assert picked(role("h", "host"), role("m", "member", of="h")) == ["h2", "on-h2"]


def test_members_of_a_scale_set_are_told_together() -> None:
    """Both of one placement group, since others read another document (E05)."""
    assert picked(role("p", "scale-set"), role("a", "member", of="p"), role("b", "member", of="p"))[1:] == [
        "pool_0",
        "pool_1",
    ]


def test_quiet_ones_are_preferred_and_busy_ones_are_better_than_none() -> None:
    """An event or a maintenance that is not over makes a whole scope busy."""
    busy: dict[str, Any] = {
        "events": [an_event("db-9"), an_event("on-h2")],
        "steps": [a_step(scope="vm/db-10")],
    }
    assert picked(role("a", "vm"), role("b", "vm"), role("h", "host"), **busy) == ["on-h1", "db-9", "h2"]


def test_somebody_can_be_told_to_play() -> None:
    """Also one who is busy."""
    busy = [an_event("db-10")]
    assert picked(role("a", "vm"), role("b", "vm"), told={"a": "db-10"}, events=busy) == ["db-10", "db-9"]


@pytest.mark.parametrize(
    ("roles", "told", "what"),
    [
        ([role("s", "service")], {}, "Nobody here can play 's': it needs a cloud service."),
        (
            [role("s", "set", update_domains=5)],
            {},
            "Nobody here can play 's': it needs an availability set with VMs in at least 5 update domains.",
        ),
        ([role("v", "vm")], {"v": "spot-1"}, "'spot-1' cannot play 'v': it needs a standalone VM that is not spot."),
        (
            [role("web", "set"), role("m", "member", of="web", domain=4)],
            {},
            "Nobody here can play 'm': it needs a VM of web in its update domain number 4.",
        ),
    ],
)
def test_when_nobody_fits_the_refusal_says_what_it_needs(
    roles: list[CastRole], told: dict[str, str], what: str
) -> None:
    """And where somebody would."""
    with pytest.raises(Refused) as refused:
        picked(*roles, told=told)
    assert refused.value.message == what
    assert "--clock manual" in refused.value.hint


def test_a_role_that_is_not_in_the_cast_cannot_be_told() -> None:
    """With the nearest one that is."""
    with pytest.raises(Malformed, match="no role 'peers'") as refused:
        picked(role("peer", "vm"), told={"peers": "db-9"})
    assert refused.value.hint == "Did you mean 'peer'?"
