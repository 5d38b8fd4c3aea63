"""This VM's name as documents have it: configured, told by the service, or remembered from the last run.

The service is asked beside the polls for events, and never instead of them: an answer that is odd, or does not come,
keeps nothing else from its work.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from duenotice.agent.log import complain, describe, log
from duenotice.agent.problems import Problem
from duenotice.backoff import Backoff
from duenotice.client import AsyncMetadataClient
from duenotice.client.errors import MetadataError
from duenotice.errors import Malformed
from duenotice.system import read_whole, sync_directory

NAME_FILE = "vm-name"
LONGEST = 1024
AGAIN = Backoff(1.0, 10.0)
UNKNOWN = Backoff(1.0, 1.0)
"""While no name is known: each second of it may be one of an event's notice."""
LOOK_AGAIN = 600.0
"""Seconds until a name that was told is asked for again: a VM may get another one while it runs."""


class OwnName:
    """`me` is the name to go by, and empty as long as none is known."""

    def __init__(self, configured: str, directory: Path, may_write: bool) -> None:
        self._configured, self._told, self._failure = configured, "", ""
        self._directory, self._file, self._may_write = directory, directory / NAME_FILE, may_write
        self._remembered = "" if configured else self._read()
        self._again = asyncio.Event()

    @property
    def me(self) -> str:
        return self._configured or self._told or self._remembered

    @property
    def is_sure(self) -> bool:
        """Whether to approve under this name: one from the last run may be that of the VM whose disk was copied."""
        return bool(self._configured or self._told)

    def problem(self) -> Problem | None:
        """What keeps the agent from knowing which events hit this VM (S32)."""
        hint = "Ask from this VM: duenotice agent check --online. A name in [metadata] needs no answer."
        if self._configured:
            if self._told in ("", self._configured):
                return None
            what = f"agent.toml calls this VM {self._configured!r}, but the service calls it {self._told!r}"
            return Problem("name", f"{what}: events of {self._told!r} are ignored.", "Correct name in [metadata].")
        if self._told or not self._failure:
            return None
        if self._remembered:
            what = f"The service has not said that this VM is still {self._remembered!r}, so nothing is approved"
        else:
            what = "This VM's name is not known, so it is not known which events hit it"
        return Problem("name", f"{what}. {self._failure}", hint)

    def look_again(self) -> None:
        """The name may be another one by now: ask at once, and not in some minutes."""
        self._again.set()

    async def follow(self, client: AsyncMetadataClient, changed: Callable[[], None]) -> None:
        """Ask until the service has told it, and now and then again."""
        failures = 0
        while True:
            pause = LOOK_AGAIN
            self._again.clear()
            try:
                await self._take(await client.instance_name())
                failures = 0
            except Exception as error:  # whatever the answer was, it is asked for again
                self._failure = describe(error)
                if not self._configured:  # else the answer only confirms it
                    complain("name-unknown", error)
                least = error.retry_after if isinstance(error, MetadataError) else None
                pause = max((AGAIN if self.me else UNKNOWN).after(failures), least or 0.0)
                failures += 1
            changed()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await (self._again.wait() if pause == LOOK_AGAIN else asyncio.sleep(pause))

    async def _take(self, name: str) -> None:
        if not _is_name(name):
            raise Malformed(f"The service calls this VM {name[:80]!r}, which is not a name.", hint="Ask again.")
        if name != self._told:
            log("name-learned", vm=name)
        self._told, self._failure = name, ""
        if self._may_write and not self._configured and name != self._remembered:
            await self._keep(name)

    def _read(self) -> str:
        """The name of the last run. One damaged byte makes another name, or none."""
        try:
            name = read_whole(self._file).decode()
            if not _is_name(name):
                raise ValueError("it holds no name")
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as error:
            hint = "The service is asked for the name; then the file is written again."
            log("name-unreadable", "warning", file=str(self._file), error=describe(error), hint=hint)
            return ""
        return name

    async def _keep(self, name: str) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._write, name)  # a disk may take long
        except OSError as error:  # a full disk does not keep us from our work; the next start asks the service again
            complain("name-not-kept", error)
        else:
            self._remembered = name

    def _write(self, name: str) -> None:
        """Whole or not at all, also if the power is cut."""
        fresh = self._directory / f"{NAME_FILE}.new"
        file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            data = name.encode()
            if os.write(file, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file)
        finally:
            os.close(file)
        fresh.replace(self._file)
        sync_directory(self._directory)


def _is_name(text: str) -> bool:
    return bool(text) and len(text) <= LONGEST and text.isprintable() and text == text.strip()
