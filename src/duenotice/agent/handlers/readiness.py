"""`readiness`: makes the agent's own `/readyz` say no, and waits so that load balancers notice.

Each drain has a reason, and the machine is ready again when no reason is left. The reasons are kept in a file, so that
an agent that starts again answers as before.
"""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from duenotice.agent.handlers.base import Handler, Occasion
from duenotice.agent.handlers.deadline import seconds_left
from duenotice.agent.handlers.options import SpanSeconds


class Switch:
    """`drain(reason)` and `ready(reason)`; calling one again does no harm."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()
        self._file: Path | None = None

    def keep_in(self, file: Path) -> None:
        """Read this file, and keep the reasons there from now on."""
        self._file = file
        with suppress(OSError, ValueError):  # no file yet, or not readable: only the ledger must not be lost
            self._reasons = {str(reason) for reason in json.loads(file.read_text())}

    def drain(self, reason: str) -> None:
        """Take no more traffic, for this reason."""
        self._change(self._reasons | {reason})

    def ready(self, reason: str) -> None:
        """This reason is over."""
        self._change(self._reasons - {reason})

    def clear(self) -> None:
        """No reason is left."""
        self._change(set())

    @property
    def is_drained(self) -> bool:
        return bool(self._reasons)

    @property
    def reasons(self) -> list[str]:
        return sorted(self._reasons)

    def _change(self, reasons: set[str]) -> None:
        changed, self._reasons = reasons != self._reasons, reasons
        if changed and self._file is not None:
            fresh = self._file.with_suffix(".new")
            fresh.write_text(json.dumps(self.reasons))
            fresh.replace(self._file)


SWITCH = Switch()
"""The switch of this process: a machine has only one."""


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """`settle` is how long load balancers take to notice: their interval times their failures, and some more."""

    settle: SpanSeconds = SpanSeconds(10)


class Readiness(Handler[Options]):
    """Each event is a reason of its own: of two at once, the first one to end does not make the machine ready."""

    options = Options

    async def prepare(self, occasion: Occasion) -> None:
        await occasion.note("drained", True)
        SWITCH.drain(self._reason(occasion))
        await asyncio.sleep(min(self._options.settle, seconds_left(occasion)))

    async def recover(self, occasion: Occasion) -> None:
        if occasion.notes.get("drained"):
            SWITCH.ready(self._reason(occasion))

    def _reason(self, occasion: Occasion) -> str:
        return f"{self.name} {occasion.event.event_id}"
