"""Locks of what it needs to run, to be worked on, and in the image: all hashed, none says where from."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN, DEV = (ROOT / "requirements.lock").read_text(), (ROOT / "requirements-dev.lock").read_text()
IMAGE = (ROOT / "requirements-image.lock").read_text()
UV = (ROOT / "tools" / "uv.lock").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+).*?(?=^[A-Za-z0-9]|\Z)", re.MULTILINE | re.DOTALL)


def versions(lock: str) -> dict[str, str]:
    return {entry[1]: entry[2] for entry in _ENTRY.finditer(lock)}


def normal(names: list[str]) -> set[str]:
    return {re.split(r"[ ;<>=]", name)[0].lower().replace("_", "-") for name in names}


def test_to_run_it_takes_no_tool_of_developers() -> None:
    """447 MB of them would come with the first `make run`."""
    assert normal(PROJECT["optional-dependencies"]["dev"]).isdisjoint(versions(RUN))
    assert normal(PROJECT["dependencies"]) <= versions(RUN).keys()
    assert "hatchling" in versions(RUN)  # installs the package in place
    assert len(versions(RUN)) < 40


def test_developers_work_with_what_is_run() -> None:
    """The same versions in both, and the tools besides."""
    assert versions(RUN).items() <= versions(DEV).items()
    assert normal(PROJECT["optional-dependencies"]["dev"]) <= versions(DEV).keys()


def test_the_image_has_what_the_service_needs_and_no_tool() -> None:
    """In the versions that were tested."""
    extras = PROJECT["optional-dependencies"]
    server = [name for name in extras["server"] if not name.startswith("duenotice[")]
    wanted = normal([*PROJECT["dependencies"], *extras["cli"], *server, "cryptography", "psycopg"])
    assert wanted <= versions(IMAGE).keys()
    assert versions(IMAGE).items() <= versions(DEV).items()
    assert {"hatchling", "pytest"}.isdisjoint(versions(IMAGE))


@pytest.mark.parametrize("lock", [RUN, DEV, IMAGE, UV], ids=["run", "dev", "image", "uv"])
def test_every_package_has_its_hashes_and_no_address(lock: str) -> None:
    """Whatever pip is set up to ask, it gets the same bytes."""
    assert all("--hash=sha256:" in entry[0] for entry in _ENTRY.finditer(lock))
    assert "://" not in lock
