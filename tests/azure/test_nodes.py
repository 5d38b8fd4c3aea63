"""The Azure door of several nodes: each acts and answers for all (N09)."""

from contextlib import ExitStack
from pathlib import Path

from duenotice.domain.commands import EnableScope
from duenotice.testkit.emulator import Emulator
from tests.support.azure import GROUP, SUBSCRIPTION, Azure
from tests.support.three_nodes import three_emulators

FLEET = Path(__file__).parents[1] / "support" / "fleet.toml"
PLACE = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute"


def test_who_signed_in_at_one_node_acts_at_another_and_asks_a_third() -> None:
    """M02, M05: access tokens and operations are in the journal that they share."""
    ports = {"operator_listen": "127.0.0.1:0", "azure_listen": "127.0.0.1:0"}
    with ExitStack() as stack:
        nodes = [stack.enter_context(node) for node in three_emulators(":memory:", fleet=str(FLEET), **ports)]
        token = nodes[-1].service.token  # the last to come has replaced the others' admin
        doors = [stack.enter_context(door_of(node, token)) for node in nodes]
        leader = next(place for place, node in enumerate(nodes) if node.service.engine.leads)
        leading, acting, asking = doors[leader], doors[leader - 1], doors[leader - 2]
        acting.signed_in_as = asking.signed_in_as = leading.access()
        nodes[leader].submit(EnableScope("me"))
        begun = [
            acting.ask("POST", f"{PLACE}/virtualMachines/me/restart"),
            acting.ask("POST", f"{PLACE}/virtualMachineScaleSets/workers/restart", b'{"instanceIds": ["1", "2"]}'),
        ]
        targets = [answer.headers["azure-asyncoperation"].removeprefix(acting.url) for answer in begun]
        assert [asking.get(target)["status"] for target in targets] == ["InProgress", "Succeeded"]


def door_of(node: Emulator, token: str) -> Azure:
    """The clients of one node."""
    assert node.service.azure is not None
    return Azure.at(node.service.azure.url, node.service.azure.ca, token)
