"""Commands on a node's machine: their wrappers outlive the node, leave notes on its disk, and can be killed too."""

import asyncio
import json
from contextvars import copy_context
from random import Random
from typing import Any

from simulator.agents_disk import Disk, DiskFile
from simulator.drivers import OUTSIDE, TIMEOUT, Outside
from simulator.drivers_reports import expect_report
from simulator.faults import fault
from simulator.machine import Machine

GRACE = 5.0
HABITS: dict[str, tuple[float, int]] = {
    "well": (8.0, 0),
    "fails": (2.0, 1),
    "hangs": (1e6, 0),
    "is-killed": (8.0, -9),
}
"""How long a command takes at most, and its status."""
LOSSES = {"wrapper-killed-first": 0.0, "wrapper-killed-later": 1.0, "wrapper-killed-last": 1e6}
"""When the wrapper is killed: before it has noted anything, while the command runs, before it notes the end."""


class Wrapper:
    """Runs one command, as `impact.wrapper` does."""

    def __init__(self, commands: "Commands", pid: int, task: dict[str, Any], environment: dict[str, str]) -> None:
        self._commands, self.pid, self._place = commands, pid, task["place"].lstrip("/")
        self._event_id = environment["DUENOTICE_EVENT_ID"]
        self._attempt, self._body = int(environment["DUENOTICE_EVENT_ATTEMPT"]), task["input"].encode()
        self._asked_at = commands.machine.loop.time()
        self._boot, self.is_alive = commands.machine.boot_id, True
        self.ended: asyncio.Future[None] = commands.machine.loop.create_future()
        commands.later(0.001, self._begin)

    def _is_gone(self) -> bool:
        """Killed, or with another boot of the machine."""
        if self.is_alive and self._boot != self._commands.machine.boot_id:
            self.end()
        return not self.is_alive

    def end(self) -> None:
        self.is_alive = False
        if not self.ended.done():
            self.ended.set_result(None)

    def _begin(self) -> None:
        outside = self._commands.outside
        habit = outside.habit
        begun = f"{self._place}.begun"
        if self._is_gone() or begun in self._commands.disk.names:
            self.end()
            return
        if habit == "wrapper-killed-first":
            outside.world.faults.count("driver-" + habit)
            self.end()
            return
        self._note(begun, {"boot": self._boot, "pid": self.pid, "started": self.pid})
        # A process takes a moment to begin. If its event is over meanwhile, with its VMs, nobody calls it back.
        self._commands.ran(self._event_id, self._attempt, self._body, self._asked_at)
        self._run(habit, outside.dice())

    def _run(self, habit: str, dice: Random) -> None:
        seconds, status = HABITS.get(habit, HABITS["well"])
        if habit != "well":
            self._commands.outside.world.faults.count("driver-" + habit)
        taken = min(seconds * dice.uniform(0.3, 1.0), TIMEOUT)
        if LOSSES.get(habit, 0.0) > 0.0:
            self._commands.later(min(taken, LOSSES[habit]) * dice.random(), self.end)
        late = taken >= TIMEOUT
        self._commands.later(taken + (GRACE if late else 0.0), self._finish, -9 if late else status, late)

    def _finish(self, status: int, late: bool) -> None:
        if self._boot == self._commands.machine.boot_id and status == 0:
            self._commands.succeeded(self._event_id)  # the command goes on without its wrapper
        if not self._is_gone():
            self._note(f"{self._place}.exit", {"status": status, "timed_out": late, "output": ""})
            self.end()
            expect_report(self._commands.outside, self._event_id)

    def _note(self, name: str, note: dict[str, Any]) -> None:
        disk = self._commands.disk
        disk.names[name] = DiskFile(json.dumps(note).encode())
        disk.sync_names()


class Commands:
    """All commands of one machine, over all lives of its node."""

    def __init__(self, machine: Machine, outside: Outside) -> None:
        self.machine, self.outside, self.disk = machine, outside, Disk()
        self._wrappers: dict[int, Wrapper] = {}
        self._context = copy_context()
        self._ran: set[tuple[str, int]] = set()

    def later(self, seconds: float, work: Any, *args: Any) -> None:
        """It happens even if the node is killed."""
        self.machine.loop.call_later(seconds, work, *args, context=self.outside.world.outside_context())

    def spawn(self, task: dict[str, Any], environment: dict[str, str]) -> int:
        pid = 1000 + len(self._wrappers)
        self._wrappers[pid] = Wrapper(self, pid, task, environment)
        return pid

    async def end_of(self, pid: int) -> None:
        """Wait until a wrapper has ended."""
        wrapper = self._wrappers.get(pid)
        if wrapper is not None and self.start_time(pid) is not None:
            await asyncio.shield(wrapper.ended)

    def start_time(self, pid: int) -> int | None:
        wrapper = self._wrappers.get(pid)
        return None if wrapper is None or wrapper._is_gone() else pid

    def ran(self, event_id: str, attempt: int, body: bytes, asked_at: float) -> None:
        """A command begins: it must be the first of its attempt, and no other may have succeeded."""
        outside = self.outside
        outside.take(event_id, attempt, body, asked_at)
        if outside.world.has_lost:
            return
        if (event_id, attempt) in self._ran:
            outside.wrong(f"the command of attempt {attempt} of {event_id} runs twice")
        if outside.done[event_id]:
            outside.wrong(f"a command for {event_id} runs again, and had succeeded")
        self._ran.add((event_id, attempt))

    def succeeded(self, event_id: str) -> None:
        self.outside.done[event_id] += 1


def commands_of(machine: Machine) -> Commands:
    """The commands of a machine."""
    if machine.commands is None:
        machine.commands = Commands(machine, OUTSIDE.get())
    commands: Commands = machine.commands
    return commands


def _habit(name: str) -> Any:
    def do(world: Any, dice: Random) -> None:
        outside: Outside = world.outside
        outside.habit = name

        def end() -> None:
            outside.habit = "well" if outside.habit == name else outside.habit

        world.later(dice.uniform(30.0, 900.0), end)

    return do


for _name in (*HABITS, *LOSSES):
    if _name != "well":
        fault(f"command-{_name}", f"Commands behave badly for a while: {_name}.", 0.5, ("command",))(_habit(_name))
