"""The fleet file of a node. It is applied when it has changed; if it cannot be applied, the last good fleet stays."""

import asyncio
from pathlib import Path

import structlog

from duenotice.domain.commands import ApplyFleet
from duenotice.domain.fleet import Declaration
from duenotice.engine.engine import SELF, Engine
from duenotice.errors import DuenoticeError, InvariantBroken, Misconfigured, reason
from duenotice.wire.fleet_toml import digest_of, read_fleet

KEPT = "The last good fleet is served. Fix the file and send SIGHUP."

log = structlog.get_logger()


def check_first(path: str, data_dir: Path | None) -> None:
    """Before a first start: a mistake in the file must not leave a data directory behind."""
    if path and data_dir is not None and not data_dir.exists():
        read_fleet(text_of(path), path)


class FleetFile:
    """Knows the file, and why it was not applied, if so."""

    def __init__(self, path: str, engine: Engine) -> None:
        self.problem: str | None = None
        self._path, self._engine = path, engine

    async def begin(self) -> None:
        """At the start: without a fleet in the journal a bad file is an error; else VMs are answered as before."""
        try:
            await self.apply()
        except DuenoticeError:
            if not self._engine.state.fleet.digest or self._engine.broken is not None:
                raise

    async def apply(self) -> None:
        """Apply it unless it is the one applied last; a file that cannot be applied is reported and changes nothing."""
        try:
            declared = await asyncio.to_thread(self._declared)
            if declared is not None:
                asked = [ApplyFleet(declared)]
                del declared  # the last who has a million VMs gives them back: not the loop (S26)
                await self._engine.submit(asked[0], SELF)
                self._engine.free(asked)
        except DuenoticeError as error:
            self._refuse(error)
            raise
        self.problem = None

    def _refuse(self, error: DuenoticeError) -> None:
        if not self._engine.state.fleet.digest:
            return  # there is no fleet to go on with: the caller reports it
        self.problem = f"{error.message} {error.hint} {KEPT}"
        hint, vms = f"{error.hint} {KEPT}", len(self._engine.state.fleet.vms)
        log.error("fleet refused", action="fleet-refused", error=error.message, hint=hint, vms=vms)

    def _declared(self) -> Declaration | None:
        """What it says, if that is new. A file that was applied before is not parsed."""
        if not self._path:
            return None
        text = text_of(self._path)
        if digest_of(text) == self._engine.state.fleet.digest:
            return None
        try:
            return read_fleet(text, self._path)
        except DuenoticeError:
            raise
        except Exception as error:
            raise InvariantBroken(f"{self._path}: {error!r}.", hint="Please report this.") from error


def text_of(path: str) -> str:
    """The text of a fleet file."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"Cannot read the fleet file {path}: {reason(error)}.", hint="Check the path.") from None
