"""Nodes, pods and disruption budgets in a real cluster, with the states that controllers and kubelets give them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.kubernetes.control_plane import MERGE, ControlPlane

NAMESPACE = "prod"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "logs", "uid": "a-daemon-set", "controller": True}
MIRROR = {"kubernetes.io/config.mirror": "0"}


class Cluster:
    """One node of a real cluster, in the words of a test."""

    def __init__(self, plane: ControlPlane, node: str) -> None:
        self.plane, self.node = plane, node
        self.path = f"/api/v1/nodes/{node}"

    def spec(self) -> dict[str, Any]:
        """What the node's specification says, without what the cluster adds by itself."""
        found: dict[str, Any] = self.plane.ok("GET", self.path)["spec"]
        return found

    def taints(self) -> list[tuple[str, str, str]]:
        return [(each["key"], each.get("value", ""), each["effect"]) for each in self.spec().get("taints", [])]

    def condition(self, kind: str) -> dict[str, Any]:
        conditions = self.plane.ok("GET", self.path)["status"]["conditions"]
        return next((each for each in conditions if each["type"] == kind), {})

    def change(self, spec: dict[str, Any]) -> None:
        """What an administrator does to the node."""
        self.plane.ok("PATCH", self.path, {"spec": spec}, MERGE)

    def run_pod(self, name: str, *, app: str = "web", phase: str = "Running", node: str = "", **metadata: Any) -> None:
        """A pod on the node, in that phase."""
        meta = {"name": name, "labels": {"app": app}, **metadata}
        spec = {"nodeName": node or self.node, "containers": [{"name": "it", "image": "it"}]}
        self.plane.ok("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        ready = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
        self.plane.ok("PATCH", f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": ready}}, MERGE)

    def pods(self) -> set[str]:
        """The pods that are there, also those that are being deleted."""
        return {each["metadata"]["name"] for each in self.plane.ok("GET", PODS)["items"]}

    def leaving(self) -> set[str]:
        found = [each["metadata"] for each in self.plane.ok("GET", PODS)["items"]]
        return {each["name"] for each in found if "deletionTimestamp" in each}

    def events(self) -> list[dict[str, Any]]:
        """Events about the node, in the order in which they were written."""
        query = f"involvedObject.kind=Node,involvedObject.name={self.node}"
        found = self.plane.ok("GET", f"/api/v1/namespaces/default/events?fieldSelector={query}")["items"]
        return sorted(found, key=lambda each: int(each["metadata"]["resourceVersion"]))

    def budget(self, app: str, allowed: int, selector: dict[str, str] | None = None) -> None:
        """A disruption budget for an app, as the controller has counted it: so many of its pods may leave now."""
        group = f"/apis/policy/{budget_version(self.plane)}/namespaces/{NAMESPACE}/poddisruptionbudgets"
        body = {
            "apiVersion": f"policy/{budget_version(self.plane)}",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": app},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector or {"app": app}}},
        }
        if self.plane.ask("GET", f"{group}/{app}").status == 404:
            self.plane.ok("POST", group, body)
        made = self.plane.ok("GET", f"{group}/{app}")
        counted = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        counted["observedGeneration"] = made["metadata"]["generation"]
        self.plane.ok("PUT", f"{group}/{app}/status", made | {"status": counted})

    def end(self, pod: str) -> None:
        """What a kubelet does when the containers of a deleted pod have ended."""
        self.plane.ask("DELETE", f"{PODS}/{pod}", {"gracePeriodSeconds": 0})


def budget_version(plane: ControlPlane) -> str:
    """`v1` since 1.21."""
    served = plane.ok("GET", "/apis/policy")["versions"]
    return "v1" if any(each["version"] == "v1" for each in served) else "v1beta1"


@contextmanager
def kubelet(cluster: Cluster) -> Iterator[None]:
    """Ends every pod of the namespace that is asked to leave, a moment later."""
    over = threading.Event()

    def live() -> None:
        while not over.wait(0.1):
            for pod in cluster.leaving():
                cluster.end(pod)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
