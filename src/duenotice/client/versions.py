"""Which api-version to ask in: the newest that we and the service both know. Pure."""

import re
from dataclasses import dataclass, field

from duenotice.errors import Misconfigured
from duenotice.http.http1 import Response
from duenotice.wire.seen_documents import load_json

EVENT_VERSIONS = (
    "2020-07-01",
    "2019-08-01",
    "2019-04-01",
    "2019-01-01",
    "2017-11-01",
    "2017-08-01",
    "2017-03-01",
)
"""Newest first, as in `wire.api_versions`, which needs more than the standard library."""

WITH_ADVICE = "2024-07-09"
"""Shows the advice that spot VMs are given; most services do not have it."""

INSTANCE_VERSIONS = ("2021-02-01", "2019-08-01", "2017-08-01")
PREVIEW = "2017-03-01"
"""Its names have an extra underscore (B10)."""

_DATE = re.compile(r"\b20[0-9]{2}-[0-9]{2}-[0-9]{2}\b")


def chosen_versions(only: str | None, advice: bool = False) -> tuple[str, ...]:
    """All that we know, or the one that was asked for; with `advice` first the one that shows it."""
    if only is None:
        return (WITH_ADVICE, *EVENT_VERSIONS) if advice else EVENT_VERSIONS
    known = (WITH_ADVICE, *EVENT_VERSIONS)
    if only not in known:
        raise Misconfigured(f"The api-version {only!r} is unknown.", hint=f"Use one of {', '.join(known)}.")
    return (only,)


@dataclass(slots=True)
class Choice:
    """The version that is asked in, remembered while it works."""

    known: tuple[str, ...]
    current: str = ""
    settled: bool = False
    """Whether one has worked, or all were refused: then a refusal that names no version is about something else.

    A VM that falls back to the preview because of a passing 404 would never hear of a Preempt.
    """

    def __post_init__(self) -> None:
        self.current = self.current or self.known[0]

    def worked(self, version: str) -> None:
        """Stay with this one."""
        self.current, self.settled = version, True


@dataclass(slots=True)
class Search:
    """The versions that one request tries, from the newest to the oldest."""

    choice: Choice
    version: str = ""
    blind: bool = False
    """Whether a version was tried that the service had not offered."""
    tried: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.version = self.choice.current

    def next(self, refusal: Response) -> bool:
        """Go on to the next version worth a try; False when this refusal is not about the version, or none is left."""
        named = versions_named(refusal)
        self.tried.add(self.version)
        left = [version for version in self.choice.known if version not in self.tried]
        offered = [version for version in left if version in named]
        if not offered and (self.choice.settled or not _may_be_about_the_version(refusal, named)):
            return False
        if not left:
            self.choice.settled = True
            return False
        self.blind = not offered
        self.version = (offered or left)[0]
        return True


def _may_be_about_the_version(refusal: Response, named: set[str]) -> bool:
    """A04: 400 names the versions that are known; some services answer 404 and name none."""
    return refusal.status == 404 or (refusal.status == 400 and bool(named))


def versions_named(refusal: Response) -> set[str]:
    """The api-versions that a refusal offers, under `newest-versions` or in its message."""
    if refusal.status not in (400, 404):
        return set()
    try:
        top = load_json(refusal.body)
    except ValueError:
        return set()
    offered = top.get("newest-versions") if isinstance(top, dict) else None
    words = top.get("error") if isinstance(top, dict) else None
    listed = {name for name in offered if isinstance(name, str)} if isinstance(offered, list) else set()
    return listed | set(_DATE.findall(words) if isinstance(words, str) else ())
