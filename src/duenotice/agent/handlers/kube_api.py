"""The Kubernetes API as one node's agent needs it: nodes, pods, evictions and events, with the status of answers."""

import json
import os
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from duenotice.agent.handlers.base import HandlerFailed, Occasion, TryAgain
from duenotice.agent.handlers.deadline import seconds_left
from duenotice.agent.handlers.secrets import read_secret, trusting
from duenotice.errors import Malformed
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

    def __init__(self, options: ApiOptions, occasion: Occasion) -> None:
        self._options = options
        self._occasion = occasion

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
            timeout=min(30.0, seconds_left(self._occasion)),
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
