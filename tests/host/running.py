"""`duenotice host run` on a test's hypervisor, and what an operator and a murderer do with it."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.host.hypervisor import BRIDGE, PATIENCE, Hypervisor, until
from tests.support.namespaces import ENVIRONMENT, Server

DUENOTICE = str(Path(sys.executable).with_name("duenotice"))


class HostService:
    """The service on a hypervisor; `folder` has its journal and its log."""

    def __init__(self, host: Hypervisor, folder: Path, *flags: str) -> None:
        self._host, self._folder, self._flags = host, folder, flags
        self.log = folder / "duenotice.log"
        self._process: subprocess.Popen[str] | None = None
        self._operator: Server | None = None

    def start(self) -> None:
        """And wait until it serves."""
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                self._host.command(*self.command()), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout
        assert self._process.stdout.readline(), self.log.read_text()
        if "--follow" not in self._flags:
            self._operator = Server(self._host, self._folder)

    def command(self, *more: str) -> list[str]:
        """What is run in the namespace."""
        places = ["--connect", self._host.uri, "--bridge", BRIDGE, "--name", self._host.name]
        places += [] if "--follow" in self._flags else ["--data-dir", f"{self._folder}/data"]
        return [DUENOTICE, "host", "run", *places, *self._flags, *more]

    def kill(self) -> None:
        """With SIGKILL: it can do nothing about it."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """With SIGTERM, and it must end well."""
        assert self._end(signal.SIGTERM) == 0, self.log.read_text()

    def _end(self, how: signal.Signals) -> int:
        assert self._process and self._process.stdout
        self._process.send_signal(how)
        self._process.stdout.close()
        return self._process.wait(PATIENCE)

    def operate(self, path: str, body: Any = None, method: str = "POST") -> Any:
        """A call of the operator's API that must succeed."""
        assert self._operator is not None, "a follower is not asked"
        return self._operator.operate(path, body, method)

    def vms(self) -> dict[str, dict[str, Any]]:
        """The fleet."""
        return {vm["name"]: vm for vm in self.operate("/v1/vms", method="GET")}

    def wait_for_vms(self, *names: str) -> None:
        """Until the fleet is these."""
        until(
            lambda: set(self.vms()) == set(names), lambda: f"{set(self.vms())} is not {names}: {self.log.read_text()}"
        )

    def history(self, event_id: str) -> list[str]:
        """What has happened to an event, in order."""
        return [record["action"] for record in self.operate(f"/v1/events/{event_id}/history", method="GET")]

    def wait_for(self, event_id: str, action: str) -> None:
        """Until this has happened to an event."""
        until(
            lambda: action in self.history(event_id),
            lambda: f"{self.history(event_id)} has no {action}: {self.log.read_text()[-3000:]}",
        )


@contextlib.contextmanager
def host_service(host: Hypervisor, folder: Path, *flags: str) -> Iterator[HostService]:
    """One that serves until the end of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    made = HostService(host, folder, *flags)
    made.start()
    try:
        yield made
    except BaseException:
        made.kill()
        raise
    made.stop()
