"""The agent as its chart starts it: the rendered file and arguments, a pod's token and environment, a real cluster."""

import contextlib
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from duenotice.agent.handlers.kubernetes import CONDITION, TAINT
from duenotice.agent.ledger import read_events
from tests.agent.machine import metadata_endpoint
from tests.handlers.contexts import wait_until
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.objects import Cluster, kubelet
from tests.kubernetes.rendering import agent_toml, chart_text, objects, the
from tests.programs import require_program
from tests.support.node import Node
from tests.support.ports import free_port

pytestmark = pytest.mark.kubernetes
FLEET = '[[vms]]\nname = "workers_0"\naddress = "127.0.0.1"\n'
SECONDS = 60.0
IN_A_POD = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$TOKEN" /run/secrets/kubernetes.io/serviceaccount/token
cp "$AUTHORITY" /run/secrets/kubernetes.io/serviceaccount/ca.crt
exec "$@"
"""
"""In a mount namespace of its own, so that nobody else sees another /run."""


@contextlib.contextmanager
def agent_pod(cluster: Cluster, node: Node, token_file: Path, folder: Path) -> Iterator[tuple[Path, str]]:
    """The agent's container, without the container; its state directory, and what the kubelet would ask."""
    values = {"instanceMetadataURL": metadata_endpoint(node), "probesServerPort": free_port()}
    found = objects(chart_text("duenotice-agent", values, cluster.plane.folder))
    (folder / "agent.toml").write_text(agent_toml(found))
    (container,) = the("DaemonSet", found)["spec"]["template"]["spec"]["containers"]
    state, probe = folder / "state", container["livenessProbe"]["httpGet"]
    places = {"/etc/duenotice/agent.toml": str(folder / "agent.toml"), "/var/lib/duenotice": str(state)}
    arguments = [
        f"{key}={places.get(value, value)}" for key, _, value in (arg.partition("=") for arg in container["args"])
    ]
    host, port = cluster.plane.url.removeprefix("https://").split(":")
    environment = {
        "PATH": os.environ["PATH"],
        "DUENOTICE_NODE_NAME": cluster.node,
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "TOKEN": str(token_file),
        "AUTHORITY": str(cluster.plane.pem.ca),
    }
    assert [each["name"] for each in container["env"]] == ["DUENOTICE_NODE_NAME"]
    assert container["command"][0] == "duenotice"
    command = [require_program("unshare", "util-linux"), "--mount", "sh", "-c", IN_A_POD, "sh"]
    command += [sys.executable, "-m", "duenotice", *container["command"][1:], *arguments]
    with (folder / "agent.log").open("w") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
        try:
            yield state, f"http://{probe['host']}:{container['ports'][0]['containerPort']}{probe['path']}"
        finally:
            process.terminate()
            process.wait(20)
    print((folder / "agent.log").read_text())  # noqa: T201 — pytest shows it if the test fails


def test_a_restart_of_the_vm_finds_its_node_empty(cluster: Cluster, token_file: Path, tmp_path: Path) -> None:
    """Closed, emptied, approved, restarted, and open again; a budget that says no holds the approval back."""
    before = cluster.spec()
    cluster.run_pod("web-a")
    cluster.run_pod("db-a", app="db")
    cluster.budget("db", allowed=0)
    with Node(FLEET) as node, kubelet(cluster):
        node.enable("workers_0")
        with agent_pod(cluster, node, token_file, tmp_path) as (state, probe):
            event_id = node.schedule("Reboot", "workers_0").upper()
            wait_until(lambda: cluster.pods() == {"db-a"}, SECONDS)
            assert (TAINT, "Reboot", "NoSchedule") in cluster.taints()
            assert node.statuses("workers_0") == ["Scheduled"]
            assert urllib.request.urlopen(probe, timeout=10).status == 200
            cluster.budget("db", allowed=1)
            wait_until(lambda: node.statuses("workers_0") == ["Started"], SECONDS)
            assert cluster.pods() == set()
            node.advance("20m")
            wait_until(lambda: cluster.condition(CONDITION).get("status") == "False", SECONDS)
            wait_until(lambda: read_events(state)[event_id].is_closed, SECONDS)
    assert cluster.spec() == before
    assert [each["reason"] for each in cluster.events()] == ["ScheduledEvent", "ScheduledEventOver"]


def test_the_folder_of_the_ledger_becomes_the_agents(plane: ControlPlane) -> None:
    """The init container has one capability, and the agent none: that is enough on a folder that root has made."""
    pod = the("DaemonSet", objects(chart_text("duenotice-agent", {}, plane.folder)))["spec"]["template"]["spec"]
    (first,), ids = pod["initContainers"], pod["securityContext"]
    setpriv = require_program("setpriv", "util-linux")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
        Path(base).chmod(0o755)
        state = Path(base, "state")
        state.mkdir(mode=0o755)
        user = ["--reuid", str(ids["runAsUser"]), "--regid", str(ids["runAsGroup"]), "--clear-groups", "--no-new-privs"]
        write = [setpriv, *user, "--bounding-set=-all", "--inh-caps=-all", "touch", str(state / "agent.ledger")]
        assert subprocess.run(write, check=False, capture_output=True).returncode != 0
        capabilities = "".join(f",+{name.lower()}" for name in first["securityContext"]["capabilities"]["add"])
        own = [setpriv, f"--bounding-set=-all{capabilities}", "--inh-caps=-all", *first["command"][:-1], str(state)]
        subprocess.run(own, check=True)
        subprocess.run(write, check=True)
        assert (state / "agent.ledger").stat().st_uid == ids["runAsUser"]
