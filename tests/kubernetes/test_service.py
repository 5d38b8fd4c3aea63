"""The service as its chart and its base start it: the rendered files and arguments, without the container."""

import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.handlers.contexts import wait_until
from tests.kubernetes.rendering import Object, base_text, chart_text, objects, the
from tests.support.ports import free_port

pytestmark = pytest.mark.kubernetes
FLEET = '[[vms]]\nname = "app-0"\naddress = "127.0.0.1"\n'


@pytest.mark.parametrize("by", ["chart", "base"])
def test_the_service_starts_as_its_pod_says(by: str, tmp_path: Path) -> None:
    """Its probes answer on the port that the pod names, its data are on the volume, and the fleet is the given one."""
    values: dict[str, Any] = {"fleet": FLEET, "settings": {"clock": "manual"}}
    text = chart_text("duenotice", values, tmp_path) if by == "chart" else base_text("service", tmp_path)
    found = objects(text)
    (container,) = the("StatefulSet", found)["spec"]["template"]["spec"]["containers"]
    for name, content in the("ConfigMap", found)["data"].items():
        (tmp_path / name).write_text(content)
    ports = {str(port["containerPort"]): str(free_port()) for port in container["ports"]}
    operator = next(str(port["containerPort"]) for port in container["ports"] if port["name"] == "operator")
    with subprocess.Popen(
        [sys.executable, "-m", *command(container, tmp_path, ports)], stdout=subprocess.DEVNULL
    ) as run:
        try:
            paths = {container[f"{name}Probe"]["httpGet"]["path"] for name in ("readiness", "liveness", "startup")}
            wait_until(lambda: all(answers(f"http://127.0.0.1:{ports[operator]}{path}") for path in paths), 60.0)
        finally:
            run.terminate()
            assert run.wait(20) == 0
    assert (tmp_path / "volume" / "data" / "journal.db").exists()


def command(container: Object, folder: Path, ports: dict[str, str]) -> list[str]:
    """What the container runs, with the folders and ports of a test."""
    line = " ".join([*container["command"], *container["args"]])
    for place in ("/etc/duenotice/fleet/", "/etc/duenotice/"):
        line = line.replace(place, f"{folder}/")
    line = line.replace("/var/lib/duenotice/", f"{folder}/volume/").replace("0.0.0.0", "127.0.0.1")
    for port, free in ports.items():
        line = line.replace(f":{port}", f":{free}")
    (folder / "volume").mkdir()
    return [*line.split(), "--log-format=none"]


def answers(url: str) -> bool:
    """Whether a probe would be content."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
