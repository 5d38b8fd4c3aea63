"""Our server as people run it, on the server's core: a real `duenotice serve` with every check on."""

import re
import sys
import time
from pathlib import Path

from benchmarks.support.children import Child
from benchmarks.support.http import Address, exchange, poll
from benchmarks.support.machine import SERVER_CORE, pinned
from benchmarks.support.process import cpu_seconds

SETTINGS = {
    "--throttle": "1e9",
    "--approvals-throttle": "1e9",
    "--connections-per-address": "20000",
    "--max-connections": "20000",
    "--log-format": "json",
}
"""Limits so high that nobody meets them; they are looked at all the same."""

_VMS = re.compile(rb"serves (\d+) VM")
_ADDRESS = re.compile(rb"http://([\d.]+):(\d+)")


class Node(Child):
    """A node on a data directory; made once it listens.

    `vms` is how many it says it serves; `started_in` is from exec to the first answered poll, `start_cpu` the
    processor time of that. More `flags` come last, and so they win.
    """

    def __init__(self, data_dir: Path, fleet: Path | None = None, *flags: str, core: int = SERVER_CORE) -> None:
        listen = ["--metadata-listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0"]
        settings = [part for setting in SETTINGS.items() for part in setting]
        command = [sys.executable, "-m", "duenotice", "serve", "--data-dir", str(data_dir), *listen, *settings]
        command += [*(["--fleet", str(fleet)] if fleet else []), *flags]
        began = time.monotonic()
        super().__init__(pinned(core, command), data_dir.with_suffix(".log"))
        try:
            self.vms = int(self._next(_VMS)[1])
            self.metadata, self.operator = self._next_address(), self._next_address()
            first = exchange(self.metadata, poll())
            self.started_in = time.monotonic() - began
            self.start_cpu = cpu_seconds(self.pid)
            if not first.startswith(b"HTTP/1.1 200 "):
                raise self.failed(f"answered {first!r}")
            self.token = (data_dir / "admin.token").read_text().strip()
        except BaseException:
            self.kill()
            raise

    def _next_address(self) -> Address:
        host, port = self._next(_ADDRESS).groups()
        return Address(host.decode(), int(port))

    def _next(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """The next such thing in what the server prints once it is open."""
        for line in self.output:
            if found := pattern.search(line):
                return found
        raise self.failed("ended before it listened")
