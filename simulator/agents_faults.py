"""The rows of the table of faults that are about agents: their process, machine, disk, hooks, clocks and answers."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

from simulator.agents_machine import DAMAGE, HABITS, AgentVm
from simulator.agents_service import FAULTY, ScriptedService, ToldEvent
from simulator.faults import act, fault

AGENTS, SCRIPT = ("agents",), ("agents", "script")
TYPES = ("Freeze", "Reboot", "Redeploy", "Terminate", "Preempt", "Melt")
"""The last one is newer than the agent."""


def _vm(world: Any, dice: Random) -> AgentVm:
    vm: AgentVm = dice.choice(world.agents)
    return vm


def _for_a_while(world: Any, dice: Random, longest: float, begin: Callable[[], None], end: Callable[[], None]) -> None:
    begin()
    world.loop.call_later(dice.uniform(0.5, longest), end)


@fault("agent-killed", "kill -9 of an agent", 2.0, AGENTS)
def _kill(world: Any, dice: Random) -> None:
    _vm(world, dice).kill()


@fault("agent-stopped", "SIGTERM to an agent, which its supervisor starts again", 1.0, AGENTS)
def _stop(world: Any, dice: Random) -> None:
    _vm(world, dice).stop()


@fault("agent-frozen", "an agent stands still for a while and goes on", 1.0, AGENTS)
def _freeze(world: Any, dice: Random) -> None:
    _vm(world, dice).freeze(dice.uniform(0.5, 90.0))


def _die_at(how: str) -> Callable[[Any, Random], None]:
    return lambda world, dice: _vm(world, dice).die_at(dice.randrange(8), how)


for _how, _says in (
    ("before", "an agent is killed before a record of its ledger is written"),
    ("torn", "an agent is killed in the middle of a record of its ledger"),
    ("written", "an agent is killed when a record is written and not yet synced"),
    ("power", "the VM loses its power while a record is written: of its blocks any may be on the disk"),
    ("synced", "an agent is killed when a record is safe, and nothing was done about it"),
):
    fault(f"agent-killed-{_how}-record", _says, 2.0, AGENTS)(_die_at(_how))


@fault("vm-rebooted", "a VM is booted again in an orderly way", 1.0, AGENTS)
def _reboot(world: Any, dice: Random) -> None:
    _vm(world, dice).reboot(dice.uniform(1.0, 40.0), cut=False)


@fault("vm-power-cut", "a VM loses its power: of what was not synced anything may be left", 1.5, AGENTS)
def _cut(world: Any, dice: Random) -> None:
    _vm(world, dice).reboot(dice.uniform(1.0, 40.0), cut=True)


@fault("vm-clock-jumps", "the time of day of a VM jumps", 1.0, AGENTS)
def _jump(world: Any, dice: Random) -> None:
    vm = _vm(world, dice)
    vm.machine.set_wall(dice.choice((-1, 1)) * dice.choice((0.5, 5.0, 100.0, 4000.0)))
    vm.watcher.disturbed("vm-clock-jumps")


@fault("vm-clock-drifts", "the steady clock of a VM is too fast or too slow", 1.0, AGENTS)
def _drift(world: Any, dice: Random) -> None:
    _vm(world, dice).machine.set_drift(dice.uniform(-0.05, 0.05))


def _disk_fault(name: str) -> Callable[[Any, Random], None]:
    def do(world: Any, dice: Random) -> None:
        vm = _vm(world, dice)
        vm.disk.room = dice.randrange(200)

        def switch(on: bool) -> None:
            setattr(vm.disk, name, on)
            vm.watcher.disturbed(f"{name} {'begins' if on else 'ends'}")

        _for_a_while(world, dice, 40.0, lambda: switch(True), lambda: switch(False))

    return do


for _name, _row, _says in (
    ("full", "vm-disk-full", "the disk of a VM is full for a while"),
    ("fsync_fails", "vm-fsync-fails", "fsync fails on a VM for a while"),
    ("read_only", "vm-disk-read-only", "the disk of a VM is read-only for a while, as after an error"),
):
    fault(_row, _says, 1.0, AGENTS)(_disk_fault(_name))


@act("ledger-backed-up", "a copy of a ledger is taken", 1.0, AGENTS)
def _back_up(world: Any, dice: Random) -> None:
    _vm(world, dice).back_up()


def _damage(what: str) -> Callable[[Any, Random], None]:
    return lambda world, dice: _vm(world, dice).damage(what, dice.random())


for _what in DAMAGE:
    fault(_what, f"the file of a ledger is damaged: {_what}", 0.15, AGENTS)(_damage(_what))


def _habit(habit: str) -> Callable[[Any, Random], None]:
    def do(world: Any, dice: Random) -> None:
        vm, handler = _vm(world, dice), dice.choice("abc")

        def end() -> None:
            vm.habits.pop(handler, None)

        _for_a_while(world, dice, 120.0, lambda: vm.habits.update({handler: habit}), end)

    return do


for _what in HABITS:
    if _what != "well":
        fault(f"hook-{_what}", f"the hooks of a handler behave badly for a while: {_what}", 0.8, AGENTS)(_habit(_what))


# What a started event does to its VM


def hit_by(kind: str, vm: AgentVm, dice: Random) -> bool:
    """Whether a started event of this type reboots the VM: mostly, if that was announced."""
    reboots = kind in ("Reboot", "Redeploy") and dice.random() < 0.7
    if reboots:
        vm.later(1.0, vm.reboot, dice.uniform(1.0, 60.0), dice.random() < 0.3)
    return reboots


def pauses(vm: AgentVm, dice: Random, within: float) -> None:
    """While its event is Started a VM may be paused, more than once, whatever was announced (D07)."""
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        vm.later(dice.uniform(0.0, within), vm.freeze, dice.uniform(0.2, 9.0))


# Only where the service is scripted


def _service(world: Any) -> ScriptedService:
    service: ScriptedService = world.service
    return service


def _answers(name: str) -> Callable[[Any, Random], None]:
    def do(world: Any, dice: Random) -> None:
        service = _service(world)

        def end() -> None:
            if service.fault == name:
                service.fault = ""

        _for_a_while(world, dice, 40.0, lambda: setattr(service, "fault", name), end)

    return do


for _what in FAULTY:
    fault(f"answer-{_what}", f"the metadata service answers badly for a while: {_what}", 0.3, SCRIPT)(_answers(_what))


@act("event-scheduled", "a new event", 9.0, SCRIPT)
def _schedule(world: Any, dice: Random) -> None:
    service = _service(world)
    not_before = service.now() + timedelta(seconds=dice.choice((5.0, 20.0, 60.0, 300.0)))
    event_id, kind = f"E{dice.randrange(1_000_000)}", dice.choice(TYPES)
    who, lasts = _who(world, dice), dice.choice((0.0, 5.0, 60.0))
    service.schedule(ToldEvent(event_id, kind, who, "Scheduled", not_before.replace(microsecond=0), lasts))


def _who(world: Any, dice: Random) -> tuple[str, ...]:
    me = world.agents[0].name
    groups: tuple[tuple[str, ...], ...] = ((me,), (me,), (me, "other"), ("other", me), ("other",))
    return dice.choice(groups)


def _one(world: Any, dice: Random) -> ToldEvent | None:
    known = [event for event in _service(world).events.values() if event.status == "Scheduled"]
    return dice.choice(known) if known else None


@act("event-changed", "an event hits other VMs than was said before", 1.5, SCRIPT)
def _change(world: Any, dice: Random) -> bool:
    if event := _one(world, dice):
        _service(world).put(replace(event, resources=_who(world, dice)))
    return event is not None


@act("event-postponed", "an event begins later than was said before", 1.0, SCRIPT)
def _postpone(world: Any, dice: Random) -> bool:
    if event := _one(world, dice):
        _service(world).put(replace(event, not_before=event.not_before + timedelta(seconds=60)))
    return event is not None


@act("event-cancelled", "an event is called off", 1.5, SCRIPT)
def _cancel(world: Any, dice: Random) -> bool:
    if event := _one(world, dice):
        _service(world).drop(event.id)
        if dice.random() < 0.3:  # and comes back, as at Azure
            world.loop.call_later(dice.uniform(0.1, 10.0), _service(world).schedule, event)
    return event is not None
