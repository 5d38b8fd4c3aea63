"""What every handler has: the two verbs `prepare` and `recover`. A handler decides nothing about events."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from duenotice.clock import monotonic
from duenotice.errors import DuenoticeError, Malformed, Unavailable
from duenotice.wire.seen_documents import SeenEvent
from duenotice.wire.spans import parse_duration

Argv = tuple[str, ...]
"""A program and its arguments; never a line for a shell."""


class SpanSeconds(float):
    """Seconds, written as `30s`, `5m` or a plain number."""


def read_value(kind: type, value: Any) -> Any:
    """msgspec's hook for the types that TOML does not have."""
    if kind is not SpanSeconds or isinstance(value, bool):
        raise TypeError("Expected a span such as 30s")
    try:
        return SpanSeconds(parse_duration(str(value)))
    except Malformed as error:
        raise ValueError(f"{error.message} {error.hint}") from None


Keys = TypeVar("Keys")
Note = Callable[[str, Any], Awaitable[None]]


KEPT = 4096
"""Bytes of what a program printed that are kept: the last ones."""


class Printed:
    """The end of what programs have written, as it came."""

    def __init__(self) -> None:
        self._kept = b""
        self.late = ""
        """Which program did not end in time, and what it was waiting for."""

    def add(self, data: bytes) -> None:
        self._kept = (self._kept + data)[-KEPT:]

    def text(self) -> str:
        """Not escaped: that is done where it is shown (S28)."""
        return self._kept.decode(errors="replace").strip()


class HandlerFailed(DuenoticeError):
    """The handler could not do its work."""


class TryAgain(HandlerFailed, Unavailable):
    """The handler could not do its work yet; another try within the notice may succeed (exit 75 of a hook)."""


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """What a handler is told.

    `deadline` is the moment, in seconds of `duenotice.clock.monotonic`, by which the verb must have returned.
    `notes` is what this handler noted for this event, also before a restart of the agent.
    """

    event: SeenEvent
    vm: str
    deadline: float
    notes: Mapping[str, Any]
    note: Note
    """`await note(key, value)` is durable when it returns: say what you are about to do, then do it (S15)."""
    drill: bool = False
    """A rehearsal: the work is real, the event is not (`DUENOTICE_DRILL=1` for hooks)."""
    handler: str = ""
    """The name of the handler; none of its programs starts while an earlier one of them is alive."""
    again: int = 0
    """How often it was prepared and must be prepared again; what was noted as done before does not count."""
    printed: Printed = field(default_factory=Printed)
    """What hooks have printed; it is recorded with the result, also if the handler is cut off."""


class Handler(Generic[Keys]):
    """One kind of work. It is made as `Class(name, options)` from `[handlers.NAME]`; both verbs may be called again.

    A plugin may inherit from it, or have the same parts.
    """

    options: ClassVar[type]
    """The kind's own keys, as a frozen msgspec.Struct that forbids unknown fields."""

    def __init__(self, name: str, options: Keys) -> None:
        self.name = name
        self._options = options

    async def prepare(self, context: HandlerContext) -> None:
        """Prepare for the event; returning means ready, raising means not ready."""
        raise NotImplementedError

    async def recover(self, context: HandlerContext) -> None:
        """Put back what was noted; called once the event is gone or the machine has rebooted, until it works."""
        raise NotImplementedError

    # A handler may also have `async def undone(self, context) -> str`: what of its work was undone since it prepared,
    # in words, and "" when nothing was. It is asked every ten seconds until the event begins, and has as long for its
    # answer. One that can tell only with some options has `looks`, too: whether these are given.

    def programs(self) -> Iterable[Argv]:
        """The programs that it would run; `agent check` says which of them would be refused."""
        return ()

    def files(self) -> Iterable[str]:
        """The files with addresses, secrets or certificates that it would read; an empty text is none."""
        return ()


PAUSE = 0.2


def seconds_left(context: HandlerContext) -> float:
    """How long the verb still has (H07)."""
    return max(0.0, context.deadline - monotonic())


async def until(
    context: HandlerContext,
    what: str | Callable[[], str],
    reached: Callable[[], Awaitable[bool]],
    pause: float = PAUSE,
) -> None:
    """Return when `reached`, or fail shortly before the deadline with an error that says what was waited for."""
    while not await reached():
        if seconds_left(context) <= pause:
            raise HandlerFailed(
                f"Gave up waiting for {what if isinstance(what, str) else what()}.",
                hint="Give the handler a longer timeout, or find out why it takes so long.",
            )
        await asyncio.sleep(pause)
