"""One API server for all tests of this folder; each test has a node of its own, and its handler the agent's rights."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.control_plane import ControlPlane, control_plane
from tests.kubernetes.objects import NAMESPACE, PODS, Cluster

ROOT = Path(__file__).parents[2]
RBAC = ROOT / "packaging" / "kustomize" / "agent" / "rbac.yaml"
_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The servers, and a namespace for pods."""
    with control_plane(tmp_path_factory.mktemp("kubernetes")) as plane:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        plane.ok("POST", "/api/v1/namespaces", body)
        yield plane


@pytest.fixture(scope="session")
def token_file(plane: ControlPlane) -> Path:
    """A token of the agent's service account, which may do what our RBAC rules allow, and nothing else."""
    plane.kubectl("apply", "--filename", str(RBAC))
    return plane.token_of("duenotice-agent")


@pytest.fixture
def cluster(plane: ControlPlane) -> Iterator[Cluster]:
    """A node that no other test knows."""
    name = f"node-{next(_NUMBERS)}"
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    plane.ok("POST", "/api/v1/nodes", body)
    # A new node is tainted until its kubelet says that it is ready.
    plane.ok("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, "application/merge-patch+json")
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    kind = "application/merge-patch+json"
    plane.ok("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": conditions}}, kind)
    found = Cluster(plane, name)
    yield found
    for pod in found.pods():
        found.end(pod)
    assert plane.ok("GET", PODS)["items"] == []


@pytest.fixture
def keys(cluster: Cluster, plane: ControlPlane, token_file: Path) -> dict[str, Any]:
    """What `[handlers.NAME]` says on a host of that cluster."""
    return {"server": plane.url, "ca_file": str(plane.pem.ca), "token_file": str(token_file), "node": cluster.node}
