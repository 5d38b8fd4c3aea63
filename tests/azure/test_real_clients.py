"""Unchanged clients on both sides: one restarts a VM through an Azure SDK, the other is told of it inside the VM."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from azure.identity.aio import ClientSecretCredential
from azure.mgmt.compute.aio import ComputeManagementClient

from duenotice import MetadataClient
from duenotice.azure_api.sign_in import TENANT
from duenotice.domain.records import EventCompleted
from tests.programs import require_program, require_unpacked
from tests.support.azure import CLIENT, GROUP, SUBSCRIPTION, Azure
from tests.support.node import SECONDS, Node

HERE = Path(__file__).parent
DEMO = HERE.parent / "support" / "fleet.toml"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node on which an approved restart takes a moment of real time."""
    with Node(DEMO, azure_listen="127.0.0.1:0", clock="6000x") as running:
        yield running


@pytest.fixture(scope="module")
def azure(node: Node) -> Iterator[Azure]:
    """What clients need."""
    with Azure(node) as clients:
        yield clients


class InTheVm:
    """The program of docs/client.md inside the VM `me`: it sees an event, prepares, and approves."""

    def __init__(self, node: Node) -> None:
        self._client = MetadataClient("http://{}:{}".format(*node.metadata_address))
        self.seen: list[str] = []
        self._client.document()  # turns Scheduled Events on (F01)
        self._thread = Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "InTheVm":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        self._client.close()

    def _watch(self) -> None:
        for document in self._client.watch():
            for event in document.events:
                if not event.started and event.event_id not in self.seen:
                    self.seen.append(event.event_id)
                    self._client.approve(event)
            if self.seen and not document.events:
                return


def is_over(node: Node, event_id: str) -> bool:
    """Whether the journal says that the event was carried out to its end."""
    return any(
        isinstance(record.transition, EventCompleted) and record.transition.event_id == event_id
        for record in node.emulator.history()
    )


def test_the_poller_of_the_sdk_ends_when_the_vm_has_approved_and_was_restarted(node: Node, azure: Azure) -> None:
    """azure-mgmt-compute and our client: neither knows of the other."""
    with InTheVm(node) as vm:
        poller = azure.compute().virtual_machines.begin_restart(GROUP, "me")
        poller.wait(SECONDS)
        assert is_over(node, vm.seen[0])
        assert poller.status() == "Succeeded"


def test_the_asyncio_sdk_does_the_same(node: Node, azure: Azure) -> None:
    """azure-mgmt-compute.aio, over aiohttp."""

    async def restart() -> tuple[list[str | None], str]:
        trust: dict[str, Any] = {"connection_verify": azure.ca}
        credential = ClientSecretCredential(
            TENANT, CLIENT, azure.token, authority=azure.url, disable_instance_discovery=True, **trust
        )
        scopes = [f"{azure.url}/.default"]
        compute = ComputeManagementClient(
            credential, SUBSCRIPTION, base_url=azure.url, credential_scopes=scopes, **trust
        )
        async with credential, compute:
            names = [vm.name async for vm in compute.virtual_machines.list(GROUP)]
            poller = await compute.virtual_machines.begin_restart(GROUP, "me")
            await poller.result()
        # aiohttp does not wait for the end of its TLS connections, and the loop would end before them.
        await asyncio.sleep(0.25)
        return names, poller.status()

    with InTheVm(node) as vm:
        names, status = asyncio.run(asyncio.wait_for(restart(), SECONDS))
        assert is_over(node, vm.seen[0])
    assert ("me" in names, status) == (True, "Succeeded")


def test_node_does_the_same(node: Node, azure: Azure) -> None:
    """@azure/arm-compute."""
    modules = require_unpacked("node/node_modules")
    environment = {
        "MODULES": str(modules.parent),
        "NODE_EXTRA_CA_CERTS": azure.ca,
        "URL_OF": azure.url,
        "TENANT": TENANT,
        "TOKEN": azure.token,
        "SUBSCRIPTION": SUBSCRIPTION,
        "GROUP": GROUP,
        "VM": "me",
    }
    program = [require_program("node", "nodejs"), str(HERE / "restart.mjs")]
    with InTheVm(node) as vm:
        done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        assert is_over(node, vm.seen[0])
    names, *steps = done.stdout.splitlines()
    assert ("me" in names.split(), steps) == (True, ["submitted", "done"])


def test_the_older_client_of_maintenance_applies_what_is_pending() -> None:
    """azure-mgmt-maintenance 2.1.0; the newer one is in tests/acceptance."""
    packages = require_unpacked("azure")
    with Node(DEMO, azure_listen="127.0.0.1:0") as node, Azure(node) as azure:
        node.enable("db-0")
        node.schedule("Freeze", "db-0")
        program = [sys.executable, str(HERE / "old_maintenance.py"), azure.url, azure.ca, TENANT, azure.token]
        command, environment = [*program, SUBSCRIPTION, GROUP, "db-0"], {"PYTHONPATH": str(packages)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert (done.stdout, done.stderr) == ("2.1.0 Freeze Pending InProgress\n", "")
        assert node.statuses("db-0") == ["Started"]
