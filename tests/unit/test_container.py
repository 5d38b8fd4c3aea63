"""The image and compose.yaml speak of files and settings that exist. (`make test-container` builds and runs them.)"""

import json
import re
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml  # type: ignore[import-untyped]

from duenotice.scenarios.scenario import read_scenario
from duenotice.settings import resolve

ROOT = Path(__file__).parents[2]
IMAGE = (ROOT / "Containerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
HEALTH = ROOT / "packaging/container/health.py"
EXAMPLES = ROOT / "examples/containers"


def environment() -> dict[str, str]:
    """What the image sets."""
    return dict(re.findall(r"(DUENOTICE_\w+)=(\S+)", IMAGE))


def test_the_image_takes_only_what_is_sent_to_its_builder() -> None:
    sent = re.findall(r"^!(.*)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    taken = re.findall(r"^COPY (?!--from)(?:--\S+ )*(\S+) ", IMAGE, re.MULTILINE)
    assert taken and all(any(name == each or name.startswith(f"{each}/") for each in sent) for name in taken)
    assert all((ROOT / each).exists() for each in sent if not each.startswith("dist/"))


def test_its_settings_are_valid() -> None:
    found = resolve({}, environment()).settings
    assert (found.data_dir, found.operator_listen) == ("/var/lib/duenotice", "0.0.0.0:16926")


def test_it_runs_as_a_user_with_a_number() -> None:
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", IMAGE, re.MULTILINE)


DIGEST = "a1" * 32


@pytest.mark.parametrize(
    ("base", "is_taken"),
    [
        (f"python@sha256:{DIGEST}", True),
        (f"registry.example:5000/python:3.13-slim@sha256:{DIGEST}", True),
        ("python:3.13-slim", False),
        ("python", False),
        ("python@sha256:", False),
        (f"python@sha256:{DIGEST[1:]}", False),
        (f"python:sha256-{DIGEST}", False),
    ],
)
def test_a_base_is_named_by_its_digest(base: str, is_taken: bool) -> None:
    """The first step of the build looks at it, and says what to do."""
    assert re.findall(r"^ARG BASE.*", IMAGE, re.MULTILINE) == ["ARG BASE", "ARG BASE"]
    assert set(re.findall(r"^FROM (\S+)", IMAGE, re.MULTILINE)) == {"${BASE}", "libraries"}
    step = re.search(r"^RUN (case .*?esac)$", IMAGE, re.MULTILINE | re.DOTALL)
    assert step is not None
    script = step[1].replace("\\\n", "")
    done = subprocess.run(["sh", "-c", script], env={"BASE": base}, capture_output=True, text=True, check=False)
    assert (done.returncode == 0, base in done.stderr) == (is_taken, not is_taken)


@pytest.mark.parametrize("name", COMPOSE)
def test_what_compose_mounts_is_there(name: str) -> None:
    for volume in COMPOSE[name].get("volumes", []):
        source = volume.partition(":")[0]
        assert source == "data" or (ROOT / source).exists()


def test_the_story_of_the_test_is_a_scenario() -> None:
    assert read_scenario((EXAMPLES / "restart.toml").read_text(), "restart.toml").name == "restart"


def test_the_service_at_the_metadata_address_changes_only_services_that_exist() -> None:
    changed = yaml.safe_load((EXAMPLES / "metadata-address.yaml").read_text())["services"]
    assert changed.keys() == COMPOSE.keys()
    assert resolve({}, changed["duenotice"]["environment"]).settings.metadata_listen == "0.0.0.0:80"


def health(listen: str) -> "subprocess.CompletedProcess[str]":
    """Ask as the container does."""
    return subprocess.run(
        [sys.executable, "-S", HEALTH],
        env={"DUENOTICE_OPERATOR_LISTEN": listen, "http_proxy": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_health_check_asks_whether_it_is_ready(status: int, code: int) -> None:
    class Service(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"title": "This node may not answer VMs now."}).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Service) as service:
        Thread(target=service.handle_request).start()
        done = health(f"0.0.0.0:{service.server_port}")
    assert done.returncode == code
    assert ("may not answer" in done.stderr) == bool(code)


def test_a_service_that_is_not_there_is_not_healthy() -> None:
    done = health("127.0.0.1:1")
    assert (done.returncode, done.stderr.startswith("not ready: ")) == (1, True)
