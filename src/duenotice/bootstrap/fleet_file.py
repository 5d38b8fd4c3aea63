"""The fleet file of a node: what it says newly is applied; if it cannot be applied, the last good fleet stays."""

import asyncio
from collections.abc import Callable, Collection, Iterator
from hashlib import sha256
from pathlib import Path

import structlog

from duenotice.domain.commands import ApplyFleet
from duenotice.domain.fleet import LastApplied
from duenotice.domain.last_applied import HOST, VM, by_key, difference, is_away, some_of
from duenotice.domain.records import GroupsPut, HostsPut, VmsPut
from duenotice.domain.rules.fleet_changes import file_of
from duenotice.engine.engine import SELF, Engine, Records
from duenotice.errors import DuenoticeError, InvariantBroken, Misconfigured, Unavailable, reason
from duenotice.wire.fleet_file import read_fleet

KEPT = "The last good fleet is served. Fix the file and send SIGHUP."
AWAY = (
    "An operator or the platform has removed it, or another node was there first. "
    "To make the fleet what a file says: duenotice fleet apply FILE."
)

log = structlog.get_logger()


def check_first(path: str, data_dir: Path | None) -> None:
    """Before a first start: a mistake in the file must not leave a data directory behind."""
    if path and data_dir is not None and not data_dir.exists():
        read_fleet(text_of(path), path)


class FleetFile:
    """Knows the file, and why it was not applied, if so.

    `node` is who has it: a node among others its name, a node on its own "". `others` are the nodes that take part.
    """

    def __init__(
        self, path: str, engine: Engine, node: str = "", others: Callable[[], Collection[str]] = tuple
    ) -> None:
        self.problem: str | None = None
        self._path, self._engine, self._node, self._others = path, engine, node, others

    async def begin(self) -> None:
        """At the start: without a fleet in the journal a bad file is an error; else VMs are answered as before.

        A node among others tries again when no other node leads: its file must not be forgotten.
        """
        try:
            await self._apply()
        except DuenoticeError as error:
            if isinstance(error, Unavailable) and self._node:
                raise
            self._refuse(error)
            if not self._engine.state.fleet.digest or self._engine.broken is not None:
                raise

    async def apply(self) -> None:
        """Apply what it says newly (N21); a file that cannot be applied is reported and changes nothing."""
        try:
            await self._apply()
        except DuenoticeError as error:
            self._refuse(error)
            raise

    async def _apply(self) -> None:
        if not self._path:
            return
        before = self._engine.state.fleet.last_applied.get(self._node)
        records: Records = ()
        asked = await asyncio.to_thread(self._asked, before)
        now = await asyncio.to_thread(file_of, asked[0]) if asked else before
        if asked:
            records = await self._engine.submit(asked[0], SELF)
            self._engine.free(asked)
        self.problem = None
        if now is not None:
            await asyncio.to_thread(self._warn, before, now, records)

    def _refuse(self, error: DuenoticeError) -> None:
        if not self._engine.state.fleet.digest:
            return  # there is no fleet to go on with: the caller reports it
        self.problem = f"{error.message} {error.hint} {KEPT}"
        hint, vms = f"{error.hint} {KEPT}", len(self._engine.state.fleet.vms)
        log.error("fleet refused", action="fleet-refused", error=error.message, hint=hint, vms=vms)

    def _asked(self, before: LastApplied | None) -> list[ApplyFleet]:
        """The command, if the file says anything new. A text that was applied last is not parsed.

        A list, so that nobody but its owner has the million VMs in it: who lets go of them last takes a while (S26).
        """
        text = text_of(self._path)
        hashed = sha256(text.encode()).hexdigest()
        if before is not None and before.text == hashed:
            return []
        try:
            declared = read_fleet(text, self._path)
        except DuenoticeError:
            raise
        except Exception as error:
            raise InvariantBroken(f"{self._path}: {error!r}.", hint="Please report this.") from error
        if before is not None and before.digest == declared.digest:
            return []
        return [ApplyFleet(declared, node=self._node, text=hashed)]

    def _warn(self, before: LastApplied | None, now: LastApplied, records: Records) -> None:
        """Say which things of the file are not followed, and in what it differs from the files of other nodes."""
        fleet = self._engine.state.fleet
        if now is not before:
            then, came = by_key(b"" if before is None else before.lines), set(_put_by(records))
            new = (key for key in by_key(now.lines) if key not in then and key not in came)
            if away := [key for key in new if is_away(fleet, key)]:
                what = f"the fleet file names what is not in the fleet, and it stays so: {some_of(away)}"
                log.warning(what, action="fleet-file-not-followed", file=self._path, hint=AWAY)
        for node in sorted(self._others()):
            other = fleet.last_applied.get(node)
            if other is not None and other.digest != now.digest:
                log.warning(
                    f"the fleet files of the nodes {self._node} and {node} differ",
                    action="fleet-files-differ",
                    nodes=[self._node, node],
                    difference=difference(now, other, (self._node, node)),
                    hint="Make them the same. What only one of them says is in the fleet if it was applied there.",
                )


def _put_by(records: Records) -> Iterator[str]:
    """The keys of what came or changed: this node may not show it yet."""
    for record in records:
        match record.transition:
            case HostsPut(hosts):
                yield from (HOST + host.name for host in hosts)
            case GroupsPut(groups):
                yield from (group.key for group in groups)
            case VmsPut(vms):
                yield from (VM + vm.name for vm in vms)


def text_of(path: str) -> str:
    """The text of a fleet file."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"Cannot read the fleet file {path}: {reason(error)}.", hint="Check the path.") from None
