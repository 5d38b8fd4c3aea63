"""`kubernetes`: empties this node within its pods' disruption budgets, and opens it again if we closed it."""

from contextlib import suppress
from typing import Any

from duenotice.agent.handlers.base import Handler, HandlerFailed, Occasion
from duenotice.agent.handlers.deadline import until
from duenotice.agent.handlers.kube_api import STRATEGIC, ApiOptions, KubeApi, eviction_path, node_path, pods_path
from duenotice.clock import wall
from duenotice.errors import Unavailable

TAINT = "duenotice/scheduled-event"
CONDITION = "ScheduledEvent"
_MIRROR = "kubernetes.io/config.mirror"


class Options(ApiOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`node` is this machine's name in the cluster, if it is not the VM's name."""

    node: str = ""


class Kubernetes(Handler[Options]):
    """Cordon and taint are one patch, so the taint on the node is the mark that the cordon is ours."""

    options = Options

    async def prepare(self, occasion: Occasion) -> None:
        api, node = KubeApi(self._options, occasion), self._node(occasion)
        found = await api.get(node_path(node))
        if not _is_marked(found):
            await occasion.note("cordoned", not found["spec"].get("unschedulable"))
            mark = {"key": TAINT, "value": _label(occasion.event.type), "effect": "NoSchedule"}
            await _patch_spec(api, found, {"unschedulable": True, "taints": [*_taints(found), mark]})
        await _tell(api, node, occasion, "prepare")
        await until(occasion, f"pods to leave {node}", lambda: _evict(api, node), pause=1.0)

    async def recover(self, occasion: Occasion) -> None:
        if "cordoned" not in occasion.notes:
            return
        api, node = KubeApi(self._options, occasion), self._node(occasion)
        found = await api.get(node_path(node))
        if _is_marked(found):
            left = {"taints": [taint for taint in _taints(found) if taint["key"] != TAINT] or None}
            await _patch_spec(api, found, left | ({"unschedulable": None} if occasion.notes["cordoned"] else {}))
            await _tell(api, node, occasion, "recover")

    def _node(self, occasion: Occasion) -> str:
        return self._options.node or occasion.vm.lower()


async def _evict(api: KubeApi, node: str) -> bool:
    """Evict every pod that is left. A budget's 429 means: not now, ask again."""
    pods = [pod for pod in (await api.get(pods_path(node)))["items"] if must_leave(pod)]
    for pod in pods:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        if "deletionTimestamp" in pod["metadata"]:
            continue  # it is leaving already
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        status, said = await api.send("POST", eviction_path(namespace, name), body)
        if status >= 400 and status not in (404, 409, 429) and status < 500:
            raise HandlerFailed(f"Kubernetes refused to evict {namespace}/{name} ({status}): {said.get('message', '')}")
    return not pods


def must_leave(pod: dict[str, Any]) -> bool:
    """Not a DaemonSet's (it would come back here), not a mirror of a static pod, not one that has ended."""
    metadata = pod["metadata"]
    owners = [owner["kind"] for owner in metadata.get("ownerReferences") or [] if owner.get("controller")]
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not (ended or "DaemonSet" in owners or _MIRROR in (metadata.get("annotations") or {}))


async def _patch_spec(api: KubeApi, found: dict[str, Any], spec: dict[str, Any]) -> None:
    """Only if nobody has changed the node since it was read: taints are replaced as a whole."""
    metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
    await api.patch(node_path(found["metadata"]["name"]), {"metadata": metadata, "spec": spec})


async def _tell(api: KubeApi, node: str, occasion: Occasion, phase: str) -> None:
    """Write a condition and an Event for people; if that fails, the work goes on."""
    event, now = occasion.event, wall().strftime("%Y-%m-%dT%H:%M:%SZ")
    coming = phase == "prepare"
    reason = _label(event.type) if coming else "Over"
    message = f"{event.type} {event.event_id} {'is coming' if coming else 'is over'}. {event.description}"[:1000]
    condition = {"type": CONDITION, "status": str(coming), "reason": reason, "message": message}
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    shown = {
        "metadata": {"generateName": "duenotice-", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": node, "uid": node},
        "reason": "ScheduledEvent" if coming else "ScheduledEventOver",
        "message": message,
        "type": "Warning" if coming else "Normal",
        "source": {"component": "duenotice-agent", "host": node},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    with suppress(Unavailable):
        await api.send("PATCH", f"{node_path(node)}/status", {"status": {"conditions": [condition | times]}}, STRATEGIC)
        await api.send("POST", "/api/v1/namespaces/default/events", {"apiVersion": "v1", "kind": "Event"} | shown)


def _taints(node: dict[str, Any]) -> list[dict[str, Any]]:
    return node["spec"].get("taints") or []


def _is_marked(node: dict[str, Any]) -> bool:
    return any(taint["key"] == TAINT for taint in _taints(node))


def _label(text: str) -> str:
    """The text with only the characters that a taint's value and a condition's reason may have."""
    return "".join(letter for letter in text if letter.isascii() and letter.isalnum())[:63] or "Event"
