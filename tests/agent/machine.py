"""A VM with a real agent process on it: hooks that leave a trace, a ledger, a boot that can be renewed."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from duenotice.agent.ledger import NAME, read_events, read_ledger
from duenotice.agent.state import LedgerRecord, TrackedEvent
from tests.agent import dying
from tests.support.node import Node
from tests.support.nursery import Forked

ROOT = Path(__file__).parents[2]
SECONDS = 30.0
CONFIG = """
[metadata]
endpoint = "{endpoint}"
source_address = "{address}"
name = "{name}"
[approval]
policy = "{policy}"
[[rules]]
handlers = ["drain"]
[handlers.drain]
kind = "command"
prepare = ["{hooks}/drain"]
recover = ["{hooks}/undrain"]
timeout = "20s"
"""
HOOKS = {
    "drain": 'echo "prepare $DUENOTICE_EVENT_ID$DUENOTICE_DRILL" >> {trace}; touch {drained}',
    "undrain": 'echo "recover $DUENOTICE_EVENT_ID$DUENOTICE_DRILL" >> {trace}; rm -f {drained}',
}


class Machine:
    """`with Machine(folder, endpoint, address) as machine:`; an agent that dies is started again by `until`."""

    def __init__(
        self,
        folder: Path,
        endpoint: str,
        address: str,
        policy: str = "own",
        more: str = "",
        drain: str = "",
        name: str = "",
        config: str = CONFIG,
    ) -> None:
        """`more` is added to the configuration, `drain` to what the hook of that name does first."""
        folder.mkdir(mode=0o700, parents=True)
        self.folder, self.state = folder, folder / "state"
        self.trace_file, self.drained, self.boot_file = folder / "trace", folder / "drained", folder / "boot"
        self.boots = self.deaths = 0
        self.on_death: Callable[[], None] = lambda: None
        self.process: Forked | None = None
        self.reboot()
        self._write_hooks(drain)
        values = {"endpoint": endpoint, "address": address, "policy": policy, "hooks": folder, "name": name}
        (folder / "agent.toml").write_text(config.format(**values) + more)

    def _write_hooks(self, drain: str) -> None:
        for name, text in HOOKS.items():
            hook = self.folder / name
            first = drain if name == "drain" else ""
            hook.write_text(f"#!/bin/sh\n{first}\n" + text.format(trace=self.trace_file, drained=self.drained) + "\n")
            hook.chmod(0o755)

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def reboot(self) -> None:
        """The next agent finds itself on another boot."""
        self.boots += 1
        self.boot_file.write_text(f"boot-{self.boots}\n")

    def start(self, dying_at: str = "never:0", *arguments: str) -> None:
        """Start the agent's process."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DUENOTICE_")}
        environment |= {"BOOT_ID_FILE": str(self.boot_file), "DYING_AT": dying_at}
        files = ["--config", str(self.folder / "agent.toml"), "--state-dir", str(self.state)]
        log = self.folder / "log"
        self.process = Forked(dying.run, ["agent", "run", *files, *arguments], environment, ROOT, log, log)

    def kill(self) -> None:
        """kill -9, now."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(SECONDS)
            self.process = None

    def pause(self) -> None:
        """The machine stands still, as in a live migration."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It goes on where it was."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; should the agent die meanwhile, it is started again, and dies no more."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"waited too long\n{self.log}"
            if self.process is not None and (code := self.process.poll()) is not None:
                assert code == -9, self.log
                self.deaths += 1
                self.on_death()
                self.start()
            time.sleep(0.01)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def trace(self) -> list[str]:
        """The verbs that hooks really ran, in order."""
        text = self.trace_file.read_text() if self.trace_file.exists() else ""
        return [line.split()[0] for line in text.splitlines()]

    @property
    def records(self) -> list[LedgerRecord]:
        """Without the snapshot, which stands at the beginning for all that was before the file was begun."""
        return [record for record in read_ledger(self.state / NAME).records if record.kind != "snapshot"]

    @property
    def whats(self) -> list[str]:
        """What the ledger recorded, in order."""
        return [record.kind for record in self.records]

    def tracked(self, event_id: str) -> TrackedEvent | None:
        return read_events(self.state).get(event_id)

    def stop(self) -> int:
        """SIGTERM; how it ended."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(SECONDS)

    def is_over(self, event_id: str) -> bool:
        tracked = self.tracked(event_id)
        return tracked is not None and tracked.is_closed


def metadata_endpoint(node: Node) -> str:
    return "http://{}:{}".format(*node.metadata_address)
