"""The scenarios that come with duenotice, and a fleet that has everybody they need."""

from pathlib import Path

from duenotice.errors import NotFound
from duenotice.scenarios.scenario import Scenario, read_scenario
from duenotice.toml import near_miss

_FOLDER = Path(__file__).parent / "shipped"
_FLEET = "fleet.toml"


def names() -> list[str]:
    """What the shipped scenarios are called."""
    return sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir() if file.name != _FLEET)


def shipped(name: str) -> Scenario:
    """A shipped scenario."""
    if name not in (known := names()):
        raise NotFound(f"There is no scenario {name!r}.", hint=near_miss(name, known, "scenarios"))
    return read_scenario((_FOLDER / f"{name}.toml").read_text(), f"{name}.toml")


def fleet() -> Path:
    """The fleet file for a play on its own service."""
    return _FOLDER / _FLEET
