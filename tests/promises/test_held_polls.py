"""Whoever holds a poll with `wait=` is told, whatever became of the fleet meanwhile."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises.held_polls import holding, settle, untold
from tests.support.served import Served

SECONDS = 5.0
"""More than the one second in which a new event must be visible; on a busy machine that one may be late."""

SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 6))]
"""Of the order in which sets are walked through, which decided who was forgotten."""

WEB = {f"x{n}": f"127.0.3.{n + 1}" for n in range(10)}
ALONE = {"alone": "127.0.3.100"}


def in_set(*members: str) -> str:
    """A fleet with these VMs in one set, each in an update domain of its own where that is possible."""
    addresses = WEB | ALONE
    vms = ", ".join(f'{{ name = "{name}", address = "{addresses[name]}" }}' for name in members)
    return f'[[availability_sets]]\nname = "web"\nvms = [ {vms} ]\n'


def on_their_own(*names: str) -> str:
    """A fleet of VMs without a group."""
    addresses = WEB | ALONE
    return "".join(f'[[vms]]\nname = "{name}"\naddress = "{addresses[name]}"\n' for name in names)


@pytest.fixture(params=SEEDS, ids="hash seed {}".format)
def seeded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Servers begun in this test walk through sets in an order of their own."""
    monkeypatch.setenv("PYTHONHASHSEED", str(request.param))
    return int(request.param)


@pytest.fixture
def node(seeded: int, tmp_path: Path) -> Iterator[Served]:
    """A real service with ten VMs in a set and one on its own; no event so far."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(in_set(*WEB) + on_their_own(*ALONE))
    with Served(tmp_path / "data", fleet, clock="real") as served:
        began_with = Path(f"/proc/{served.server.pid}/environ").read_text().split("\0")
        assert f"PYTHONHASHSEED={seeded}" in began_with, "it has another order"
        yield served


def test_vms_that_leave_their_set_are_told_what_happens_to_each(node: Served) -> None:
    """Ten VMs hold a poll with an empty document, a fleet file makes each stand alone, and each is restarted."""
    with holding(node, *WEB) as vms:
        node.apply(on_their_own(*WEB, *ALONE))
        settle(node, vms)
        for name in WEB:
            node.operate(f"/v1/vms/{name}/listen")
            assert node.operate(f"/v1/vms/{name}/restart"), "nobody listens"
        assert untold(vms, {name: name for name in WEB}, SECONDS) == []


def test_a_set_that_a_vm_with_an_event_joins_is_told_of_it(node: Served) -> None:
    """One `PUT` moves the VM; those who were there already and those who come read the same document."""
    node.enable("alone")
    node.schedule("Reboot", "alone")
    with holding(node, *WEB, *ALONE) as vms:
        assert untold(vms, {"alone": "alone"}, SECONDS) == []
        node.apply(in_set(*WEB, *ALONE))
        assert untold(vms, dict.fromkeys(vms, "alone"), SECONDS) == []
        node.operate("/v1/vms/x3/restart")
        assert untold(vms, dict.fromkeys(vms, "x3"), SECONDS) == []
        assert len({vm.document["DocumentIncarnation"] for vm in vms.values()}) == 1


def test_those_who_leave_a_set_as_a_vm_with_an_event_joins_it_are_told(node: Served) -> None:
    """One `PUT`: the event wakes those who were in the set, and half of them stand alone from now on."""
    node.enable("alone")
    node.schedule("Reboot", "alone")
    stay, leave = ["x5", "x6", "x7", "x8", "x9"], ["x0", "x1", "x2", "x3", "x4"]
    with holding(node, *WEB, *ALONE) as vms:
        node.apply(in_set(*stay, "alone") + on_their_own(*leave))
        assert untold(vms, dict.fromkeys([*stay, "alone"], "alone"), SECONDS) == []
        settle(node, vms)
        for name in leave:
            node.operate(f"/v1/vms/{name}/listen")
            assert node.operate(f"/v1/vms/{name}/restart"), "nobody listens"
        assert untold(vms, {name: name for name in leave}, SECONDS) == []
        assert not any(vms[name].knows_of("x0") for name in vms if name != "x0")


def test_vms_with_events_that_change_places_are_told(node: Served) -> None:
    """One leaves the set with its event while another comes with its own; each then gets one more."""
    node.enable("alone", "x0")
    with holding(node, *WEB, *ALONE) as vms:
        node.schedule("Reboot", "alone")
        node.schedule("Freeze", "x0")
        assert untold(vms, {**dict.fromkeys(WEB, "x0"), "alone": "alone"}, SECONDS) == []
        others = [name for name in WEB if name != "x0"]
        node.apply(in_set(*others, "alone") + on_their_own("x0"))
        assert untold(vms, {**dict.fromkeys([*others, "alone"], "alone"), "x0": "x0"}, SECONDS) == []
        settle(node, vms)
        for name in ("x0", "x5"):
            node.operate(f"/v1/vms/{name}/listen")
            node.operate(f"/v1/vms/{name}/redeploy")
        assert untold(vms, dict.fromkeys([*others, "alone"], "x5"), SECONDS) == []
        settle(node, vms)
        assert [event["EventType"] for event in vms["x0"].document["Events"]] == ["Freeze", "Redeploy"]
        assert not vms["x1"].knows_of("x0")
