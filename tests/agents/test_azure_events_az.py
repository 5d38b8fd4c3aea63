"""Pacemaker's agents, unmodified from Debian, each in a machine of its own, against the real server on port 80."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from duenotice.azure_api.sign_in import TENANT
from tests.agents.cluster import Cluster
from tests.programs import require_program
from tests.support.namespaces import ENVIRONMENT, Machine, Server, plug_in, serving

pytestmark = pytest.mark.machine

FOLDER = "/usr/lib/ocf/resource.d/heartbeat"
RESTART = Path(__file__).parents[1] / "azure" / "restart.py"
VM_OF = {"alpha": "db-0", "beta": "db-1", "gamma": "db-2"}
ADDRESS_OF = {"alpha": "192.0.2.10", "beta": "192.0.2.11", "gamma": "192.0.2.12"}
AZURE = "127.0.0.1:16927"
FLEET = """
[[availability_sets]]
name = "db"
vms = [
  { name = "db-0", address = "192.0.2.10", update_domain = 0 },
  { name = "db-1", address = "192.0.2.11", update_domain = 0 },
  { name = "db-2", address = "192.0.2.12", update_domain = 1 },
]
"""


class Kind(NamedTuple):
    """In what the two agents differ: how a node is taken out of service, and which node approves."""

    agent: str
    service: str
    out: str
    back: str
    approver: str


KINDS = (
    Kind("azure-events-az", service="#health-azure", out="-1000000", back="0", approver="alpha"),
    Kind("azure-events", service="standby", out="on", back="off", approver="gamma"),
)


class Site(NamedTuple):
    """Three cluster nodes, each a VM of one availability set, and the server that tells them."""

    kind: Kind
    nodes: dict[str, Machine]
    cluster: Cluster
    server: Server
    agent: str
    platform: Machine
    folder: Path

    def monitor(self, *names: str) -> None:
        """What Pacemaker does on each node every ten seconds."""
        for name in names:
            self.nodes[name].run(self.agent, "monitor", **_agent_environment(self.cluster, name))

    def state(self, name: str) -> str:
        """The state that the agent keeps for a node; none is how it begins."""
        return self.cluster.attribute(name, f"{self.kind.agent}_curNodeState") or "AVAILABLE"

    def service(self, name: str) -> str | None:
        """Whether the cluster may use the node."""
        return self.cluster.attribute(name, self.kind.service)

    def phases(self) -> list[str]:
        """Where our events stand."""
        return [event["phase"] for event in self._events()]

    def approvers(self) -> list[str | None]:
        """Who has approved each of our events."""
        return [event["approved_by"] for event in self._events()]

    def _events(self) -> list[dict[str, Any]]:
        return list(self.server.operate("/v1/events", method="GET"))


@pytest.fixture(params=KINDS, ids=lambda kind: str(kind.agent))
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A cluster whose agents have looked once, which turns Scheduled Events on (F01)."""
    agent = require_program(f"{FOLDER}/{request.param.agent}", "resource-agents")
    cluster = Cluster(tmp_path / "cluster", list(VM_OF))
    with ExitStack() as stack:
        platform = stack.enter_context(Machine("platform"))
        nodes = {name: stack.enter_context(Machine(name)) for name in VM_OF}
        for name, machine in nodes.items():
            plug_in(machine, ADDRESS_OF[name], platform)
        server = stack.enter_context(serving(platform, FLEET, tmp_path, f"--azure-listen={AZURE}"))
        made = Site(request.param, nodes, cluster, server, agent, platform, tmp_path)
        made.monitor(*nodes)
        yield made


def test_agent_goes_from_available_to_approve_and_back(site: Site) -> None:
    """A restarted VM leaves service, its agent approves, and it returns when the event is over (G02, C05, H05)."""
    assert [site.state(name) for name in site.nodes] == ["AVAILABLE"] * 3

    [event] = site.server.operate("/v1/vms/db-0/restart")
    assert event["resources"] == ["db-0"]
    site.monitor("alpha")
    assert (site.state("alpha"), site.service("alpha")) == ("STOPPING", site.kind.out)
    assert site.phases() == ["scheduled"]

    site.monitor(site.kind.approver)
    assert site.state("alpha") == "IN_EVENT"
    assert site.phases() == ["started"]
    assert site.approvers() == [f"vm/{VM_OF[site.kind.approver]}"]

    site.monitor(*site.nodes)
    assert (site.state("alpha"), site.service("alpha")) == ("IN_EVENT", site.kind.out)

    site.server.operate("/v1/clock/advance", {"by": "10m"})
    assert site.phases() == []
    site.monitor(*site.nodes)
    assert (site.state("alpha"), site.service("alpha")) == ("AVAILABLE", site.kind.back)
    assert [site.service(name) for name in ("beta", "gamma")] == [None, None]


@pytest.mark.parametrize("site", KINDS[:1], indirect=True, ids=lambda kind: str(kind.agent))
def test_the_azure_sdk_waits_for_the_agent_and_for_the_restart(site: Site) -> None:
    """M05: an unchanged program on each side; the poller ends when the agent has approved and the event is over."""
    data, place = site.folder / "data", ("00000000-0000-0000-0000-000000000000", "duenotice", "db-0")
    token = (data / "admin.token").read_text().strip()
    program = (sys.executable, str(RESTART), f"https://{AZURE}", str(data / "azure-ca.pem"), TENANT, token, *place)
    with site.platform.running(*program, log=site.folder / "sdk.log") as sdk:
        assert sdk.stdout
        assert sdk.stdout.readline() == "submitted\n", (site.folder / "sdk.log").read_text()
        site.monitor("alpha", site.kind.approver)
        assert (site.state("alpha"), site.phases()) == ("IN_EVENT", ["started"])
        assert sdk.poll() is None
        site.server.operate("/v1/clock/advance", {"by": "10m"})
        assert sdk.stdout.readline() == "Succeeded\n"
    site.monitor(*site.nodes)
    assert (site.state("alpha"), site.service("alpha")) == ("AVAILABLE", site.kind.back)


def test_agent_approves_only_when_every_node_hit_is_ready(site: Site) -> None:
    """An event that hits two VMs starts once the agents of both have stopped their work, for both (C04, H04)."""
    site.server.operate("/v1/events", {"type": "Redeploy", "resources": ["db-0", "db-1"]})
    site.monitor("alpha", "alpha", "gamma")
    assert [site.state(name) for name in site.nodes] == ["STOPPING", "AVAILABLE", "AVAILABLE"]
    assert site.phases() == ["scheduled"]

    site.monitor("beta")
    assert site.state("beta") == "STOPPING"
    site.monitor(site.kind.approver)
    assert [site.state(name) for name in site.nodes] == ["IN_EVENT", "IN_EVENT", "AVAILABLE"]
    assert site.phases() == ["started"]

    site.server.operate("/v1/clock/advance", {"by": "10m"})
    site.monitor(*site.nodes)
    assert [site.state(name) for name in site.nodes] == ["AVAILABLE"] * 3
    assert [site.service(name) for name in ("alpha", "beta")] == [site.kind.back] * 2


def test_agent_returns_to_service_when_the_event_is_cancelled(site: Site) -> None:
    """A cancelled event just disappears, and the node that had begun to prepare goes back to work (B07, D02)."""
    [event] = site.server.operate("/v1/vms/db-0/redeploy")
    site.monitor("alpha")
    assert (site.state("alpha"), site.service("alpha")) == ("STOPPING", site.kind.out)

    site.server.operate(f"/v1/events/{event['id']}/cancel")
    site.monitor("alpha")
    assert (site.state("alpha"), site.service("alpha")) == ("AVAILABLE", site.kind.back)


def _agent_environment(cluster: Cluster, node: str) -> dict[str, str]:
    return {
        "PATH": f"{cluster.bin}:{ENVIRONMENT['PATH']}",
        "TEST_CLUSTER": str(cluster.folder),
        "OCF_ROOT": "/usr/lib/ocf",
        "OCF_RESOURCE_INSTANCE": "rsc_azure-events",
        "HA_LOGFILE": str(cluster.folder / f"{node}.log"),
        "HA_debug": "1",
    }
