"""The lines of the documents, typed as they stand there, in a machine that can reach nothing but the server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import require_program
from tests.support.namespaces import Machine, Server, plug_in, serving

pytestmark = pytest.mark.machine

URL = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
FLEET = '[[vms]]\nname = "web-0"\naddress = "192.0.2.10"\n'


@pytest.fixture
def platform() -> Iterator[Machine]:
    """Where the server runs."""
    with Machine("platform") as made:
        yield made


@pytest.fixture
def vm(platform: Machine) -> Iterator[Machine]:
    """A VM with a cable to it."""
    with Machine("web-0") as made:
        plug_in(made, "192.0.2.10", platform)
        yield made


@pytest.fixture
def server(platform: Machine, vm: Machine, tmp_path: Path) -> Iterator[Server]:
    """The server, up."""
    with serving(platform, FLEET, tmp_path) as running:
        yield running


def test_stock_curl_polls_and_approves_at_the_documented_address(vm: Machine, server: Server) -> None:
    """Stock curl GETs and POSTs at http://169.254.169.254 and is known by its source address (A01, A09)."""
    curl = [require_program("curl", "curl"), "--silent", "--show-error", "--fail", "-H", "Metadata:true"]
    assert json.loads(vm.run(*curl, URL)) == {"DocumentIncarnation": 0, "Events": []}

    server.operate("/v1/vms/web-0/restart")
    [event] = json.loads(vm.run(*curl, URL))["Events"]
    assert (event["EventType"], event["EventStatus"], event["Resources"]) == ("Reboot", "Scheduled", ["web-0"])

    approval = json.dumps({"StartRequests": [{"EventId": event["EventId"]}]})
    assert vm.run(*curl, "-d", approval, URL) == ""
    [event] = json.loads(vm.run(*curl, URL))["Events"]
    assert (event["EventStatus"], event["NotBefore"]) == ("Started", "")
