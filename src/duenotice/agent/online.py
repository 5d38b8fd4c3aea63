"""`agent check --online`: this VM's name at the metadata service, and whether its clock agrees with ours.

It asks for the instance only: a poll would turn Scheduled Events on for the whole set (F01).
"""

from typing import NamedTuple

from duenotice.agent.config import Config
from duenotice.agent.plan import RESERVE
from duenotice.client import MetadataClient
from duenotice.wire.spans import span


class Online(NamedTuple):
    """What the service said; `ahead` is by how many seconds its clock is ahead of ours, if it told the time."""

    name: str
    ahead: float | None


def ask(config: Config) -> Online:
    """Ask once, as the agent would; raises a `MetadataError` when there is no answer."""
    source = config.metadata.source_address or None
    with MetadataClient(config.metadata.endpoint or None, source_address=source) as client:
        name = client.instance_name()
        return Online(name, client.service_ahead)


def findings(config: Config, online: Online) -> list[str]:
    """What would keep the agent from doing its work in time."""
    found = []
    if config.metadata.name not in ("", online.name):
        found.append(
            f"metadata.name: it is {config.metadata.name!r} here, but the service calls this VM {online.name!r}, "
            "so the agent would ignore all events"
        )
    if online.ahead is not None and abs(online.ahead) > RESERVE:
        how = "behind" if online.ahead > 0 else "ahead of"
        found.append(
            f"clock: this machine is {span(online.ahead)} {how} the service, so the notice left would be wrong. "
            "Use NTP to keep it correct"
        )
    return found


def summary(online: Online) -> str:
    """What was learned, in one line."""
    clock = (
        "it does not say what time it is" if online.ahead is None else f"our clocks differ by {abs(online.ahead):.0f} s"
    )
    return f"The metadata service calls this VM {online.name!r}; {clock}."
