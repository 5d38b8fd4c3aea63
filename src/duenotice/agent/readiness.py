"""Whether this machine takes traffic: a switch that handlers turn and the agent's port shows. It decides nothing.

Each drain has a reason, and the machine is ready again when no reason is left: of two events at once, the first one
to end does not make it ready. The reasons are kept in a file, so that an agent that starts again answers as before.
"""

import json
from contextlib import suppress
from pathlib import Path


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
