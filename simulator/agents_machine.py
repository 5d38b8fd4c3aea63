"""A VM with the real agent on it: its process, its disk, the hooks of its handlers, and all that can happen to them."""

import asyncio
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, cast

from duenotice.agent.config import Config, read_config
from duenotice.agent.ledger import NAME, Ledger, Recorder
from duenotice.agent.runtime import Agent
from duenotice.errors import Damaged
from simulator.agents_disk import Disk, DiskFile
from simulator.agents_line import Door, WorldClient
from simulator.loop import Killed, VirtualLoop
from simulator.machine import Machine, Process
from simulator.transcripts import Transcripts

RESTART_AFTER = 2.0
"""As systemd's unit of the agent says."""
REPAIR_AFTER = 60.0
"""Seconds until a person has put back by hand what a damaged ledger does not tell any more."""
LEDGER = f"state/{NAME}"

CONFIG = """
[metadata]
endpoint = "http://169.254.169.254"
name = "{name}"
[approval]
policy = "{policy}"
[[rules]]
types = ["Freeze"]
handlers = []
[[rules]]
types = ["Reboot"]
handlers = ["a", "b"]
[[rules]]
types = ["Redeploy"]
handlers = ["b", "c"]
approve_after_failure = true
[[rules]]
types = ["Terminate"]
handlers = ["c", "a"]
[[rules]]
types = ["Preempt"]
handlers = ["a"]
within = "40s"
[handlers.a]
kind = "command"
prepare = ["/hooks/a", "prepare"]
recover = ["/hooks/a", "recover"]
timeout = "20s"
[handlers.b]
kind = "command"
prepare = ["/hooks/b", "prepare"]
recover = ["/hooks/b", "recover"]
timeout = "1m"
[handlers.c]
kind = "command"
prepare = ["/hooks/c", "prepare"]
recover = ["/hooks/c", "recover"]
timeout = "10s"
required = false
"""


@cache
def config_of(name: str, policy: str = "own") -> Config:
    """The agent's configuration, as its file would say it."""
    return read_config(CONFIG.format(name=name, policy=policy))


class HookRun:
    """A program of a handler while it runs."""

    def __init__(self, vm: "AgentVm", life: "AgentLife", argv: Sequence[str], told: dict[str, Any]) -> None:
        self.vm, self.life = vm, life
        self.handler, self.phase = argv[0].rpartition("/")[2], argv[1]
        self.event_id: str = told["EventId"]
        self.content = told["EventType"], tuple(sorted(told["Resources"]))
        self.boot, self.began = vm.machine.boot_id, vm.loop.time()
        self.code: int | None = None
        self.is_over = self.was_told_to_end = False
        vm.last_pid += 1
        self.pid = vm.last_pid
        self._ended: asyncio.Future[int] = vm.loop.create_future()
        self.seconds, self.exit, self.when_asked_to_end = vm.behaviour(self)
        if self.seconds is not None:
            vm.later(self.seconds, self.end, self.exit)

    def end(self, code: int | None) -> None:
        """It exits; None: killed with its agent."""
        if self.is_over:
            return
        self.is_over, self.code = True, code
        self.vm.watcher.ended(self)
        if code is not None and not self._ended.done():
            self._ended.set_result(code)

    @property
    def returncode(self) -> int | None:
        return self.code

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    @property
    def succeeded(self) -> bool:
        """Whether it has done its work, as far as an agent can know."""
        return self.code == 0 and not self.was_told_to_end

    def terminate(self) -> None:
        """SIGTERM: some programs ignore it, some say that all went well."""
        self.was_told_to_end = True
        if self.when_asked_to_end is not None:
            self.vm.later(0.01, self.end, self.when_asked_to_end)

    def signal(self, number: int) -> None:
        if number == signal.SIGTERM:
            self.terminate()
        else:
            self.end(-9)


class AgentLife(Process):
    """One life of the agent's process."""

    def __init__(self, vm: "AgentVm") -> None:
        super().__init__(vm.machine, f"agent of {vm.name}")
        self.vm, self.starter = vm, self
        self.hooks: list[HookRun] = []
        self.on_death.append(self._end_hooks)

    def start_program(self, argv: Sequence[str], environment: Mapping[str, str], stdin: bytes) -> HookRun:
        told = sorted(f"{key}={value}" for key, value in environment.items() if key.startswith("DUENOTICE_"))
        self.vm.write_down("runs", *argv, f"{told}:", data=stdin)
        run = HookRun(self.vm, self, argv, json.loads(stdin))
        self.hooks = [each for each in self.hooks if not each.is_over] + [run]
        self.vm.watcher.started(run)
        return run

    def signal_program(self, pid: int, number: int) -> None:
        for each in self.hooks:
            if each.pid == pid and not each.is_over:
                each.signal(number)

    def hear(self, line: dict[str, Any]) -> None:
        self.vm.watcher.logged(line)

    def kill(self) -> None:
        """What waits is kept to the end of the world: if it were collected before, its `finally` would run."""
        self.vm.graves |= asyncio.all_tasks(self.vm.loop)
        super().kill()

    def _end_hooks(self) -> None:
        for each in self.hooks:
            each.end(None)


class VmWatcher:
    """Hears what can be seen of a VM from outside; see the checkers."""

    def started(self, run: HookRun) -> None: ...
    def ended(self, run: HookRun) -> None: ...
    def logged(self, line: dict[str, Any]) -> None: ...
    def born(self, life: AgentLife) -> None: ...
    def died(self, why: str) -> None: ...
    def booted(self) -> None: ...
    def refused(self, error: Exception) -> None: ...
    def repaired(self) -> None: ...
    def disturbed(self, what: str) -> None: ...
    def damaged(self, what: str) -> None: ...


class AgentVm:
    """A machine, its supervisor, and one agent after another."""

    def __init__(
        self,
        loop: VirtualLoop,
        name: str,
        door: Door,
        watcher: VmWatcher,
        seed: object,
        transcripts: Transcripts,
        named: bool = True,
    ) -> None:
        self._transcripts = transcripts
        self.loop, self.name, self.door, self.watcher, self.seed = loop, name, door, watcher, seed
        self.machine, self.disk = Machine(name, loop), Disk()
        self.config = config_of(name if named else "")
        self.life: AgentLife | None = None
        self.agent: Agent | None = None
        self.is_down = self.is_broken = False
        self.last_pid = 1000
        self.habits: dict[str, str] = {}
        """How the hooks of a handler behave now: see `_BEHAVIOURS`."""
        self.backups: list[bytes] = []
        self.counts: dict[str, int] = {}
        self.graves: set[asyncio.Task[Any]] = set()
        self._dying: tuple[int, str] | None = None
        self._runs = 0
        self._outside = copy_context()
        self.disk.before_write, self.disk.after_sync = self._before_write, self._after_sync

    def later(self, seconds: float, work: Callable[..., Any], *args: Any) -> None:
        """Something that happens to the machine, whatever its processes do."""
        self.loop.call_later(seconds, work, *args, context=self._outside.copy())

    def write_down(self, *about: object, data: bytes = b"") -> None:
        """Add to the transcript of what agents do."""
        self._transcripts.agents.add(self.name, *about, data=data)

    def write_down_files(self) -> None:
        """All files that are left at the end."""
        for name, file in sorted(self.disk.names.items()):
            if name.startswith(LEDGER):
                self._transcripts.ledger(self.name, name, file.data)
            else:
                self.write_down("has a file", f"{name}:", data=file.data)

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # The agent's life

    def start(self) -> None:
        """The supervisor starts the agent."""
        if self.is_down or (self.life is not None and not self.life.is_dead):
            return
        self.life = life = AgentLife(self)
        self.watcher.born(life)
        task = life.begin(self._live(life))
        task.add_done_callback(lambda done: self._ended(life, done), context=self._outside.copy())

    async def _live(self, life: AgentLife) -> None:
        directory = cast(Path, self.disk / "state")
        ledger = Ledger(directory)
        now = life.machine.boot_nanos
        dice = Random(f"{self.seed}/{self.name}/dice")
        async with WorldClient(self.door, self.loop, lambda: now() / 1e9, dice) as client:
            self.agent = Agent(self.config, Recorder(ledger), client, directory)
            await self.agent.run()
        await ledger.close()

    def _ended(self, life: AgentLife, task: "asyncio.Task[None]") -> None:
        error = task.exception() if not task.cancelled() else None
        if life.is_dead or isinstance(error, Killed):
            return
        life.kill()
        if isinstance(error, Exception):
            self.watcher.refused(error)
            if isinstance(error, Damaged) and not self.is_broken:
                self.is_broken = True
                self.later(REPAIR_AFTER, self.repair)
        self.watcher.died("ended")
        self.later(RESTART_AFTER, self.start)

    def stop(self) -> None:
        """SIGTERM."""
        if self.life is not None and not self.life.is_dead and self.agent is not None:
            self.count("agent-stopped")
            self.life.do(self.agent.stop)

    def kill(self, why: str = "agent-killed") -> None:
        """kill -9."""
        if self.life is not None and not self.life.is_dead:
            self.count(why)
            self.life.kill()
            self.watcher.died(why)
            self.later(RESTART_AFTER, self.start)

    def freeze(self, seconds: float) -> None:
        """The machine stands still for a while, as in a live migration."""
        if self.life is not None and self.life.runs:
            self.count("machine-frozen")
            self.watcher.disturbed("machine-frozen")
            self.life.stop()
            self.later(seconds, self.life.go_on)

    def die_at(self, records: int, how: str) -> None:
        """Be killed at one of the next records of the ledger: `before` it, in the middle (`torn`), or behind it.

        With `power` the machine loses its power between the write and the sync.
        """
        self._dying = records, how

    def reboot(self, away: float, cut: bool) -> None:
        """Another boot, orderly or by a power cut."""
        if self.is_down:
            return
        self.kill("rebooted")
        self.is_down = True
        if cut:
            self.count("power-cut")
            self.disk.cut_power(Random(f"{self.seed}/{self.name}/cut/{self.loop.time()}"))
        self.machine.boot()
        self.watcher.booted()
        self.later(away, self._up)

    def _up(self) -> None:
        self.is_down = False
        self.start()

    # Its ledger

    def _before_write(self, name: str, data: bytes) -> int | None:
        if not name.startswith(LEDGER):  # the ledger, or the one that replaces it
            return None
        self._transcripts.ledger(self.name, name, data)
        if self._dying is None:
            return None
        at = 0
        for line in data.splitlines(keepends=True):
            left, how = self._dying
            if left > 0:
                self._dying = left - 1, how
                at += len(line)
                continue
            if how == "synced":
                return None
            self._dying = None
            self.kill(f"killed-{how}-record")
            if how == "power":
                self.later(0.0, self.reboot, 5.0, True)
                return len(data)
            return at + {"before": 0, "torn": len(line) // 2, "written": len(line)}[how]
        return None

    def _after_sync(self, name: str) -> None:
        if name.startswith(LEDGER) and self._dying == (0, "synced"):
            self._dying = None
            self.kill("killed-synced-record")

    def ledger_bytes(self) -> bytes:
        """The ledger file as anybody can read it."""
        file = self.disk.names.get(LEDGER)
        return b"" if file is None else file.data

    def back_up(self) -> None:
        """A copy is taken, which may be put back later."""
        self.backups.append(self.ledger_bytes())

    def damage(self, what: str, dice: float) -> None:
        """Something happens to the ledger file while the agent is not there."""
        self.kill("agent-killed")
        data = self.ledger_bytes()
        changed = _DAMAGE[what](data, dice, self.backups)
        if changed != data:
            self.count(what)
            self.disk.names[LEDGER] = DiskFile(changed)
            self.disk.sync_names() if not self.disk.fsync_fails else None
            self.watcher.damaged(what)

    def repair(self) -> None:
        """A person puts back by hand what is drained, and moves the ledger away, as the error says."""
        self.is_broken = False
        self.count("ledger-moved-away")
        self.kill("agent-killed")
        self.disk.names.pop(LEDGER, None)
        self.watcher.repaired()

    def heal(self) -> None:
        """All faults of this VM are over."""
        self.disk.full = self.disk.fsync_fails = self.disk.read_only = False
        self.habits.clear()
        self._dying = None
        self.machine.set_drift(0.0)
        if self.life is not None:
            self.life.go_on()
        self.watcher.disturbed("all faults are over")

    # Its programs

    def behaviour(self, run: HookRun) -> tuple[float | None, int, int | None]:
        """How long a hook takes (None: for ever), its exit code, and its exit code when it is asked to end."""
        self._runs += 1
        habit = self.habits.get(run.handler, "well")
        if habit != "well":
            self.count(f"hook-{habit}")
        seconds, code, asked = _BEHAVIOURS[habit]
        if seconds is None:
            return None, code, asked
        dice = Random(f"{self.seed}/{self.name}/{self._runs}").random()
        return seconds * (0.2 + dice), code, asked


def _flip(data: bytes, dice: float, backups: list[bytes]) -> bytes:
    at = int(dice * len(data))
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if data else data


_DAMAGE: dict[str, Callable[[bytes, float, list[bytes]], bytes]] = {
    "ledger-bit-flipped": _flip,
    "ledger-truncated": lambda data, dice, backups: data[: int(dice * len(data))],
    "ledger-emptied": lambda data, dice, backups: b"",
    "ledger-restored": lambda data, dice, backups: backups[int(dice * len(backups))] if backups else data,
}
_BEHAVIOURS: dict[str, tuple[float | None, int, int | None]] = {
    "well": (2.0, 0, -15),
    "fails": (1.0, 1, -15),
    "asks-again": (0.5, 75, -15),
    "slow": (25.0, 0, -15),
    "hangs": (None, 0, -15),
    "ignores-sigterm": (None, 0, None),
    "lies-when-killed": (None, 0, 0),
}
DAMAGE, HABITS = tuple(_DAMAGE), tuple(_BEHAVIOURS)
