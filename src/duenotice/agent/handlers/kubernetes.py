"""`kubernetes`: empties this node within its pods' disruption budgets, and opens it again if we closed it."""

import hashlib
import json
import os
from contextlib import suppress
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct

from duenotice.agent.handlers.base import (
    Handler,
    HandlerContext,
    HandlerFailed,
    SpanSeconds,
    TryAgain,
    seconds_left,
    until,
)
from duenotice.agent.handlers.secrets import read_secret, trusting
from duenotice.clock import wall
from duenotice.errors import Malformed, Unavailable
from duenotice.http.fetch import fetch, parse_url

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_EVICTION = "pods/eviction"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class ApiOptions(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """In a pod nothing is needed; on a host give the server, and the files of a token or a certificate."""

    server: str = ""
    token_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""

    def __post_init__(self) -> None:
        try:
            parse_url(self.server or "https://in.a.pod/")
        except Malformed as error:
            raise ValueError(error.message) from None


class KubeApi:
    """Requests for one event; each may take the time that is left."""

    def __init__(self, options: ApiOptions, context: HandlerContext) -> None:
        self._options = options
        self._context = context

    async def get(self, path: str) -> dict[str, Any]:
        """Get an object or a list that must exist."""
        return self._expect(await self.send("GET", path), path)

    async def find(self, path: str) -> dict[str, Any] | None:
        """Get an object, or None if it does not exist."""
        answer = await self.send("GET", path)
        return None if answer[0] == 404 else self._expect(answer, path)

    async def patch(self, path: str, change: dict[str, Any], kind: str = MERGE) -> None:
        """Make a change that must succeed; a conflict is tried again."""
        self._expect(await self.send("PATCH", path, change, kind), path)

    async def send(
        self, method: str, path: str, body: dict[str, Any] | None = None, kind: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """The status, and the answer's JSON."""
        options = self._options
        answer = await fetch(
            self._server() + path,
            method=method,
            body=json.dumps(body).encode() if body else b"",
            headers={"Content-Type": kind, "Accept": "application/json"} | self._bearer(),
            timeout=min(30.0, seconds_left(self._context)),
            trust=trusting(self._in_pod(options.ca_file, "ca.crt"), options.certificate_file, options.key_file),
        )
        try:
            return answer.status, json.loads(answer.body or b"{}")
        except ValueError:
            raise TryAgain(
                f"The Kubernetes API answered {answer.status} without JSON.", hint="Is `server` right?"
            ) from None

    def _expect(self, answer: tuple[int, dict[str, Any]], path: str) -> dict[str, Any]:
        status, said = answer
        if 200 <= status < 300:
            return said
        kind = TryAgain if status in (409, 429) or status >= 500 else HandlerFailed
        raise kind(f"Kubernetes answered {status} for {path}: {said.get('message', '')}", hint="Check the RBAC rules.")

    def _server(self) -> str:
        if self._options.server:
            return self._options.server.rstrip("/")
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise HandlerFailed("This is not a pod, and no `server` is named.", hint='Add server = "https://…:6443".')
        return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"

    def _bearer(self) -> dict[str, str]:
        if self._options.certificate_file:
            return {}
        file = self._in_pod(self._options.token_file, "token")
        return {"Authorization": f"Bearer {read_secret(file)}"} if file else {}

    def _in_pod(self, named: str, file: str) -> str:
        return named or ("" if self._options.server else f"{_ACCOUNT}/{file}")


async def eviction_version(api: KubeApi) -> str:
    """What this server calls an eviction: `policy/v1` since 1.22, `policy/v1beta1` before; it says so itself."""
    status, said = await api.send("GET", "/api/v1")
    offered = said.get("resources", []) if status == 200 else []
    return next((f"{each['group']}/{each['version']}" for each in offered if each["name"] == _EVICTION), "policy/v1")


def node_path(name: str) -> str:
    """The path of a node; its name is escaped, so that it cannot lead to another path."""
    return f"/api/v1/nodes/{quote(name, safe='')}"


def pods_path(node: str) -> str:
    """All pods of a node, in every namespace."""
    return f"/api/v1/pods?fieldSelector={quote(f'spec.nodeName={node}', safe='')}"


def eviction_path(namespace: str, pod: str) -> str:
    """The path at which a pod is evicted."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/eviction"


TAINT = "duenotice/scheduled-event"
CONDITION = "ScheduledEvent"
NODE_NAME = "DUENOTICE_NODE_NAME"
"""A pod learns from this variable on which node it is; in a cluster a node may have another name than its VM."""
_MIRROR = "kubernetes.io/config.mirror"
_SHOWN = 3
_LEAVING = "is ending"
_LOST = {"bare_pods": "has no controller", "empty_dir": "has data in an emptyDir"}


class Options(ApiOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`node` is this machine's name in the cluster: else what `DUENOTICE_NODE_NAME` says, else the VM's name."""

    node: str = ""
    cordon_only: bool = False
    """Evict nothing: no new pods come, and those that are here stay."""
    grace_period: SpanSeconds | None = None
    """How long evicted pods have to end; without it, as long as each pod says itself."""
    bare_pods: Literal["evict", "keep", "refuse"] = "evict"
    """Pods without a controller, which nobody starts again: `keep` leaves them, `refuse` waits until there is none."""
    empty_dir: Literal["evict", "keep", "refuse"] = "evict"
    """The same for pods with data in an `emptyDir`, which are lost with the pod."""


class Kubernetes(Handler[Options]):
    """Cordon and taint are one patch, so the taint on the node is the mark that the cordon is ours."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        api, node = KubeApi(self._options, context), self._node(context)
        await self._check_pods(api, node)
        found = await api.get(node_path(node))
        if not _is_marked(found):
            await context.note("cordoned", not found["spec"].get("unschedulable"))
            mark = {"key": TAINT, "value": _label(context.event.type), "effect": "NoSchedule"}
            await _patch_spec(api, found, {"unschedulable": True, "taints": [*_taints(found), mark]})
        elif not found["spec"].get("unschedulable"):  # somebody has uncordoned it since
            await context.note("cordoned", True)
            await _patch_spec(api, found, {"unschedulable": True})
        await _tell(api, found, context, "prepare")
        if not self._options.cordon_only:
            await self._empty(api, node, context)

    async def _empty(self, api: KubeApi, node: str, context: HandlerContext) -> None:
        """Evict until no pod is left that must leave; an error says which ones are, and why."""
        kind = {"apiVersion": await eviction_version(api), "kind": "Eviction"}
        grace = self._options.grace_period
        how = kind if grace is None else kind | {"deleteOptions": {"gracePeriodSeconds": int(grace)}}
        left: dict[str, str] = {}

        async def is_empty() -> bool:
            found = await _evict(api, await self._leaving(api, node), how)
            left.clear()
            left.update(found)
            return not left

        await until(context, lambda: f"pods to leave {node}: {_listed(left)}", is_empty, pause=1.0)

    async def _check_pods(self, api: KubeApi, node: str) -> None:
        """Before anything is changed: whether there is a pod that must not be evicted."""
        if self._options.cordon_only or "refuse" not in (self._options.bare_pods, self._options.empty_dir):
            return
        lost = {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": _LOST[what]
            for pod in (await api.get(pods_path(node)))["items"]
            for what in _kinds(pod)
            if must_leave(pod) and getattr(self._options, what) == "refuse"
        }
        if lost:
            raise TryAgain(
                f"Nothing is evicted from {node}: {_listed(lost)}.",
                hint="Move them, or allow it with bare_pods and empty_dir.",
            )

    async def _leaving(self, api: KubeApi, node: str) -> list[dict[str, Any]]:
        """The pods that are to leave; what is kept is not waited for."""
        pods = (await api.get(pods_path(node)))["items"]
        kept = {what for what in _LOST if getattr(self._options, what) == "keep"}
        return [pod["metadata"] for pod in pods if must_leave(pod) and kept.isdisjoint(_kinds(pod))]

    async def recover(self, context: HandlerContext) -> None:
        if "cordoned" not in context.notes:
            return
        api, node = KubeApi(self._options, context), self._node(context)
        found = await api.find(node_path(node))
        if found and _is_marked(found):  # a node that has left the cluster took our taint with it
            left = {"taints": [taint for taint in _taints(found) if taint["key"] != TAINT] or None}
            await _patch_spec(api, found, left | ({"unschedulable": None} if context.notes["cordoned"] else {}))
            await _tell(api, found, context, "recover")

    async def undone(self, context: HandlerContext) -> str:
        """Somebody has uncordoned the node, or taken our taint away."""
        node = self._node(context)
        found = await KubeApi(self._options, context).get(node_path(node))
        is_closed = _is_marked(found) and found["spec"].get("unschedulable")
        return "" if is_closed else f"new pods may come to {node} again"

    def files(self) -> list[str]:
        options = self._options
        return [options.token_file, options.ca_file, options.certificate_file, options.key_file]

    def _node(self, context: HandlerContext) -> str:
        return self._options.node or os.environ.get(NODE_NAME) or context.vm.lower()


async def _evict(api: KubeApi, pods: list[dict[str, Any]], how: dict[str, Any]) -> dict[str, str]:
    """Ask them to leave. Gives those that are still there, and what keeps each."""
    return {f"{pod['namespace']}/{pod['name']}": await _evict_pod(api, pod, how) for pod in pods}


async def _evict_pod(api: KubeApi, pod: dict[str, Any], how: dict[str, Any]) -> str:
    """What keeps the pod. A budget's 429 means: not now, ask again."""
    name, namespace = pod["name"], pod["namespace"]
    if "deletionTimestamp" in pod:
        return _LEAVING
    body = how | {"metadata": {"name": name, "namespace": namespace}}
    status, said = await api.send("POST", eviction_path(namespace, name), body)
    if status < 400 or status == 404:
        return _LEAVING
    if status not in (409, 429) and status < 500:
        raise HandlerFailed(f"Kubernetes refused to evict {namespace}/{name} ({status}): {said.get('message', '')}")
    return f"{status} {said.get('message', '')}".rstrip(" .")


def _listed(left: dict[str, str]) -> str:
    """The first of them in words for people."""
    shown = [f"{pod} ({why})" for pod, why in sorted(left.items())[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")


def must_leave(pod: dict[str, Any]) -> bool:
    """Not a DaemonSet's (it would come back here), not a mirror of a static pod, not one that has ended."""
    metadata = pod["metadata"]
    owners = [owner["kind"] for owner in metadata.get("ownerReferences") or [] if owner.get("controller")]
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not (ended or "DaemonSet" in owners or _MIRROR in (metadata.get("annotations") or {}))


def _kinds(pod: dict[str, Any]) -> set[str]:
    """What would be lost with it, by the name of the option."""
    owners = [owner for owner in pod["metadata"].get("ownerReferences") or [] if owner.get("controller")]
    volumes = pod["spec"].get("volumes") or []
    found = {"bare_pods"} if not owners else set()
    return found | ({"empty_dir"} if any("emptyDir" in volume for volume in volumes) else set())


async def _patch_spec(api: KubeApi, found: dict[str, Any], spec: dict[str, Any]) -> None:
    """Only if nobody has changed the node since it was read: taints are replaced as a whole."""
    metadata = {"resourceVersion": found["metadata"]["resourceVersion"]}
    await api.patch(node_path(found["metadata"]["name"]), {"metadata": metadata, "spec": spec})


async def _tell(api: KubeApi, found: dict[str, Any], context: HandlerContext, phase: str) -> None:
    """Write a condition and an Event for people; if that fails, the work goes on."""
    event, node, now = context.event, found["metadata"]["name"], wall().strftime("%Y-%m-%dT%H:%M:%SZ")
    coming = phase == "prepare"
    reason = _label(event.type) if coming else "Over"
    message = f"{event.type} {event.event_id} {'is coming' if coming else 'is over'}. {event.description}"[:1000]
    condition = {"type": CONDITION, "status": str(coming), "reason": reason, "message": message}
    times = {"lastHeartbeatTime": now, "lastTransitionTime": _since(found, str(coming)) or now}
    shown = {
        "metadata": {"name": _event_name(node, event.event_id, phase), "namespace": "default"},
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


def _since(node: dict[str, Any], status: str) -> str:
    """Since when the condition has that status, if it has."""
    conditions = node.get("status", {}).get("conditions") or []
    same = (each for each in conditions if (each["type"], each["status"]) == (CONDITION, status))
    return next((each.get("lastTransitionTime") or "" for each in same), "")


def _event_name(node: str, event_id: str, phase: str) -> str:
    """The same for the same news, so that the server refuses to show it twice."""
    return f"{node}.{hashlib.sha256(event_id.encode()).hexdigest()[:16]}.{phase}"


def _taints(node: dict[str, Any]) -> list[dict[str, Any]]:
    return node["spec"].get("taints") or []


def _is_marked(node: dict[str, Any]) -> bool:
    return any(taint["key"] == TAINT for taint in _taints(node))


def _label(text: str) -> str:
    """The text with only the characters that a taint's value and a condition's reason may have."""
    return "".join(letter for letter in text if letter.isascii() and letter.isalnum())[:63] or "Event"
