"""Whether this machine takes traffic: a switch that handlers turn and the agent's port shows. It decides nothing.

Each who drains gives a reason, and the machine is ready again when no reason is left: of two events at once the first
to end does not put it back. The reasons are kept in a file, so that an agent that starts again answers as before.
"""

import json
from contextlib import suppress
from pathlib import Path


class Switch:
    """`drain(reason)` and `ready(reason)`, each as often as one likes."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()
        self._file: Path | None = None

    def keep_in(self, file: Path) -> None:
        """From now on remember in this file, beginning with what it says."""
        self._file = file
        with suppress(OSError, ValueError):  # none yet, or not ours: the ledger is what must not be lost
            self._reasons = {str(reason) for reason in json.loads(file.read_text())}

    def drain(self, reason: str) -> None:
        """Take no more traffic, for this reason."""
        self._change(self._reasons | {reason})

    def ready(self, reason: str) -> None:
        """This reason is over."""
        self._change(self._reasons - {reason})

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
"""The one of this process: a machine is ready or not, whoever asks."""
