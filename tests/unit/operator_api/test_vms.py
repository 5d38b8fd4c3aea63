"""The list of VMs."""

from duenotice.wire.operator import STATES
from tests.support.node import Node

FLEET = """
[[hosts]]
name = "host-1"
[[vms]]
name = "db-0"
address = "127.0.1.10"
host = "host-1"
[[vms]]
name = "spot-0"
address = "127.0.1.11"
spot = true
[[vms]]
name = "quiet"
address = "127.0.1.12"
host = "host-1"
[[availability_sets]]
name = "web"
vms = [
  { name = "web-0", address = "127.0.2.1", update_domain = 0 },
  { name = "web-1", address = "127.0.2.2", update_domain = 1 },
]
"""


def test_a_page_of_all_vms_says_what_a_search_says_and_makes_no_copy_of_the_fleet() -> None:
    """So it costs as much as it shows, however many VMs there are; a search looks at all of them, on a copy (S26)."""
    with Node(FLEET) as node:
        for vm in ("db-0", "spot-0", "web-0"):
            node.document(vm)
        node.schedule("Freeze", "db-0")
        node.operate(f"/v1/events/{node.schedule('Reboot', 'web-0')}/approve")
        node.schedule("Reboot", "web-1")
        node.operate("/v1/hosts/host-1/degrade", {"risk": "low"})
        node.service.engine.publisher._frozen = None
        pages, cursor = [], ""
        while True:
            page = node.operator("GET", f"/v1/vms?limit=2&cursor={cursor}").json()
            pages += page["items"]
            if not (cursor := page["next"] or ""):
                break
        assert not _is_copied(node)
        assert pages == node.operator("GET", f"/v1/vms?state={','.join(STATES)}").json()["items"]
        assert _is_copied(node)
    assert len({vm["state"] for vm in pages}) >= 3
    assert [vm["name"] for vm in pages] == ["db-0", "quiet", "spot-0", "web-0", "web-1"]


def _is_copied(node: Node) -> bool:
    return node.service.engine.publisher._frozen is not None
