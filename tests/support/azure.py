"""The real clients of the Azure door, pointed to a node."""

import http.client
import ssl
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

from azure.identity import ClientSecretCredential
from azure.mgmt.compute import ComputeManagementClient

from duenotice.azure_api.sign_in import TENANT
from tests.support.node import SECONDS, Answer, Node

SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
GROUP = "demo"
CLIENT = "11111111-1111-1111-1111-111111111111"


class Azure:
    """What a program that speaks to Azure needs, for one node; `with Azure(node) as azure:` closes its clients."""

    def __init__(self, node: Node | None, token: str = "") -> None:
        self._clients, self.token, self.signed_in_as = ExitStack(), token, ""
        if node is not None:
            assert node.service.azure is not None
            self.url, self.ca = node.service.azure.url, node.service.azure.ca
            self.token = token or node.token

    @classmethod
    def at(cls, url: str, ca: str, token: str) -> "Azure":
        """The same for a process."""
        made = cls(None, token)
        made.url, made.ca = url, ca
        return made

    def __enter__(self) -> "Azure":
        return self

    def __exit__(self, *_: object) -> None:
        self._clients.close()

    @property
    def credential(self) -> ClientSecretCredential:
        """Signs in with an operator's token as secret."""
        authority = self.url.removeprefix("https://")
        made = ClientSecretCredential(
            TENANT,
            CLIENT,
            self.token,
            authority=authority,
            disable_instance_discovery=True,
            connection_verify=self.ca,
        )
        self._clients.callback(made.close)
        return made

    def client(self, kind: type[Any], *arguments: Any, **more: Any) -> Any:
        """A management client of any kind."""
        scopes = [f"{self.url}/.default"]
        given = {"base_url": self.url, "credential_scopes": scopes, "connection_verify": self.ca, **more}
        return self._clients.enter_context(kind(self.credential, *arguments, **given))

    def compute(self, **more: Any) -> Any:
        """The client of Microsoft.Compute."""
        return self.client(ComputeManagementClient, SUBSCRIPTION, **more)

    def access(self) -> str:
        """An access token."""
        return self.credential.get_token(f"{self.url}/.default").token

    def ask(
        self, method: str, target: str, body: bytes | None = None, signed_in: bool = True, **headers: str
    ) -> Answer:
        """One exchange without a library in between."""
        if signed_in:
            headers["Authorization"] = f"Bearer {self.signed_in_as or self.access()}"
        parts = urlsplit(self.url)
        tls = ssl.create_default_context(cafile=self.ca)
        line = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=SECONDS, context=tls)
        try:
            line.request(method, target, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = line.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            line.close()

    def get(self, target: str, signed_in: bool = True) -> Any:
        """The JSON of an answer that must be 200."""
        answer = self.ask("GET", target, signed_in=signed_in)
        assert answer.status == 200, answer
        return answer.json()
