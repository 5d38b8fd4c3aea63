"""A small Kubernetes API server for one node, over real HTTP: patches, budgets, graceful deletion, conflicts, tokens.

`make test-kubernetes` runs the same stories against a real one, which takes too long for every day. What this one
answers was seen there: merge patches replace lists and drop nulls, a patch with an old resourceVersion is a 409, an
eviction beyond the budget is a 429, an evicted pod is first marked and then gone, and errors are `Status` objects.
"""

import http.server
import json
import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "t0ken"
NODE = "web-0"


def pod(name: str, *, app: str = "web", node: str = NODE, **more: Any) -> dict[str, Any]:
    """A pod of a namespace `prod`; `more` goes into its metadata."""
    metadata = {"name": name, "namespace": "prod", "uid": f"uid-{name}", "labels": {"app": app}, **more}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}


class Cluster(http.server.ThreadingHTTPServer):
    """One node, some pods, and how many of each app may be away (`budgets`)."""

    daemon_threads = True

    def __init__(self, *pods: dict[str, Any], **spec: Any) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.node: dict[str, Any] = {"metadata": {"name": NODE, "resourceVersion": "1"}, "spec": spec, "status": {}}
        self.node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        self.pods = list(pods)
        self.budgets: dict[str, int] = {}
        self.events: list[dict[str, Any]] = []
        self.policy = "v1"
        """Servers before 1.22 take `v1beta1`, and nothing else."""
        self.asked: set[tuple[str, str]] = set()
        self.evictions: list[dict[str, Any]] = []
        self.refused = 0
        self.conflicts = 0
        self.lock = threading.RLock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def names(self) -> list[str]:
        with self.lock:
            return [pod["metadata"]["name"] for pod in self.pods]

    def finish(self, name: str) -> None:
        """The kubelet has ended the pod."""
        with self.lock:
            self.pods = [pod for pod in self.pods if pod["metadata"]["name"] != name]


class Answering(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Cluster

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.asked.add((self.command, urlsplit(self.path).path))
            status, shown = self.route(json.loads(body or b"{}"))
        data = json.dumps(shown).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "10")
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")  # as the real one does with what it has not counted
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))

    do_GET = do_POST = do_PATCH = answer  # noqa: N815

    def route(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _status(401, "Unauthorized")
        match self.command, urlsplit(self.path).path.strip("/").split("/")[2:]:
            case "GET", []:
                return 200, {"resources": [{"name": "pods/eviction", "group": "policy", "version": self.server.policy}]}
            case "GET", ["nodes", name] if name == NODE:
                return 200, self.server.node
            case "PATCH", ["nodes", name] if name == NODE:
                return self.patch_node(body)
            case "PATCH", ["nodes", name, "status"] if name == NODE:
                return self.patch_status(body)
            case "GET", ["pods"]:
                return 200, {"items": [pod for pod in self.server.pods if self.selected(pod)]}
            case "POST", ["namespaces", "prod", "pods", name, "eviction"]:
                return self.evict(name, body)
            case "POST", ["namespaces", "default", "events"]:
                if any(each["metadata"]["name"] == body["metadata"]["name"] for each in self.server.events):
                    return _status(409, "already exists")
                self.server.events.append(body)
                return 201, body
        return _status(404, f"{self.path} not found")

    def patch_node(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        assert self.headers["Content-Type"] == "application/merge-patch+json"
        node = self.server.node
        if self.server.conflicts:
            self.server.conflicts -= 1
            node["metadata"]["resourceVersion"] = str(int(node["metadata"]["resourceVersion"]) + 1)
        if body["metadata"].get("resourceVersion") not in (None, node["metadata"]["resourceVersion"]):
            return _status(409, "the object has been modified")
        node["spec"] = {key: value for key, value in (node["spec"] | body["spec"]).items() if value is not None}
        node["metadata"]["resourceVersion"] = str(int(node["metadata"]["resourceVersion"]) + 1)
        return 200, node

    def patch_status(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        assert self.headers["Content-Type"] == "application/strategic-merge-patch+json"
        conditions = {each["type"]: each for each in self.server.node["status"]["conditions"]}
        for each in body["status"]["conditions"]:  # merged by their type
            conditions[each["type"]] = conditions.get(each["type"], {}) | each
        self.server.node["status"]["conditions"] = list(conditions.values())
        return 200, self.server.node

    def selected(self, pod: dict[str, Any]) -> bool:
        key, _, value = parse_qs(urlsplit(self.path).query)["fieldSelector"][0].partition("=")
        assert key == "spec.nodeName"
        return bool(pod["spec"]["nodeName"] == value)

    def evict(self, name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        wanted = (f"policy/{self.server.policy}", "Eviction", name)
        if (body["apiVersion"], body["kind"], body["metadata"]["name"]) != wanted:
            return _status(400, "no kind Eviction is registered for that version")
        self.server.evictions.append(body)
        found = [pod for pod in self.server.pods if pod["metadata"]["name"] == name]
        if not found:
            return _status(404, f'pods "{name}" not found')
        app = found[0]["metadata"]["labels"]["app"]
        if self.server.budgets.get(app, 1) < 1:
            self.server.refused += 1
            return _status(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        if app in self.server.budgets:
            self.server.budgets[app] -= 1
        found[0]["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z"
        threading.Timer(0.1, self.server.finish, [name]).start()
        return 201, {"kind": "Status", "status": "Success", "code": 201}

    def log_message(self, *_: object) -> None:
        pass


def _status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "status": "Failure", "message": message, "code": code}
