"""What Debian's cloud-init and WALinuxAgent ask of the instance metadata, unmodified, in a machine of their own."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.programs import require_program, require_unpacked
from tests.support.namespaces import Machine, plug_in, serving

pytestmark = pytest.mark.machine

SCRIPT = Path(__file__).with_name("metadata_functions.py")
FLEET = '[[vms]]\nname = "web-0"\naddress = "192.0.2.10"\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What they make of it."""
    packages = require_unpacked("debian/usr/lib/python3/dist-packages")
    python = require_program("/usr/bin/python3", "python3")
    with Machine("platform") as platform, Machine("web-0") as vm:
        plug_in(vm, "192.0.2.10", platform)
        with serving(platform, FLEET, tmp_path_factory.mktemp("server")):
            text = vm.run(python, str(SCRIPT), PYTHONPATH=str(packages))
    found: dict[str, Any] = json.loads(text)
    return found


def test_cloud_init_gets_the_version_that_it_wants(made: dict[str, Any]) -> None:
    """Without falling back to an older one; it knows its name, and could set up its network."""
    assert made["cloud-init"] == {"version": "2021-08-01", "host": "web-0", "name": "web-0", "interfaces": ["eth0"]}


def test_walinuxagent_finds_the_service_healthy(made: dict[str, Any]) -> None:
    """It wants compute and network whole, each with values."""
    waagent = made["waagent"]
    assert (waagent["healthy"], waagent["name"]) == ([True, ""], "web-0")
    assert len(waagent["vm_id"]) == 36
