"""Which handlers an event needs, by the rules of the configuration: the first match wins. Pure."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from duenotice.wire.seen_documents import SeenEvent


class HandlerRule(NamedTuple):
    """One `[[rules]]` table; an empty field matches everything, but advice has to be named. Spans are in seconds."""

    handlers: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    shorter_than: float | None = None
    longer_than: float | None = None
    within: float | None = None
    approve_after_failure: bool = False

    def matches(self, event: SeenEvent) -> bool:
        is_meant = event.type in self.types or (not self.types and not event.is_advice)
        return (
            is_meant
            and (not self.sources or event.source in self.sources)
            and (not self.resources or any(fnmatchcase(vm, each) for vm in event.resources for each in self.resources))
            and self._fits(event.duration)
        )

    def _fits(self, duration: int) -> bool:
        """An unknown duration (-1) is neither shorter nor longer than anything."""
        if duration < 0:
            return self.shorter_than is None and self.longer_than is None
        shorter = self.shorter_than is None or duration < self.shorter_than
        return shorter and (self.longer_than is None or duration > self.longer_than)


class HandlerSpec(NamedTuple):
    """What the plan needs to know about a handler."""

    name: str
    required: bool = True
    timeout: float = 60.0
    holds: float = 900.0
    """For how many seconds the way back of handlers before it waits while it is stuck."""
    looks: bool = False
    """Whether it can tell that what it prepared was undone."""
    healthy: tuple[str, ...] | str = ()
    """A command, or an address, that must say that the machine is healthy before it puts back."""


def rule_for(rules: Sequence[HandlerRule], event: SeenEvent) -> HandlerRule | None:
    """The first rule that matches; with None the event is left alone."""
    return next((rule for rule in rules if rule.matches(event)), None)
