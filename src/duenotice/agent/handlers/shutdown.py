"""`shutdown`: stops things one after another, may switch the machine off, and starts them again in reverse."""

from dataclasses import replace
from typing import Annotated

from msgspec import Meta, Struct

from duenotice.agent.handlers.base import Argv, Handler, HandlerContext
from duenotice.agent.handlers.command import HookStep, prepare_step, recover_step
from duenotice.agent.handlers.processes import run_hook
from duenotice.agent.handlers.systemd import SYSTEMCTL, Systemd, check_unit
from duenotice.agent.handlers.systemd import Options as SystemdOptions


class StepOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to stop: a systemd unit, or something with programs that stop and start it."""

    unit: str = ""
    stop: Argv = ()
    start: Argv = ()

    def __post_init__(self) -> None:
        if bool(self.unit) == bool(self.stop or self.start):
            raise ValueError("a step is a `unit`, or `stop` and `start`")
        if self.unit:
            check_unit(self.unit)


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """Steps in the order in which they stop. `power_off` comes last, and not in a drill."""

    steps: Annotated[tuple[StepOptions, ...], Meta(min_length=1)]
    power_off: bool = False
    power_off_command: Argv = ("/usr/bin/systemctl", "poweroff")
    systemctl: Annotated[Argv, Meta(min_length=1)] = SYSTEMCTL


class Shutdown(Handler[Options]):
    """Each step is done by the `systemd` or the `command` handler, with notes of its own."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        for index, step in enumerate(self._options.steps):
            if step.unit:
                await self._unit(step).prepare(_under(context, index))
            else:
                await prepare_step(_programs(index, step), context)
        if self._options.power_off and not context.drill:
            await run_hook(self._options.power_off_command, "prepare", context)

    async def recover(self, context: HandlerContext) -> None:
        for index, step in reversed(list(enumerate(self._options.steps))):
            if step.unit:
                await self._unit(step).recover(_under(context, index))
            else:
                await recover_step(_programs(index, step), context)

    @property
    def looks(self) -> bool:
        return any(step.unit for step in self._options.steps)

    async def undone(self, context: HandlerContext) -> str:
        """A unit that was stopped has been started; whether a program's work was undone is not known."""
        said = [await self._unit(step).undone(context) for step in self._options.steps if step.unit]
        return "; ".join(filter(None, said))

    def programs(self) -> list[Argv]:
        steps = [argv for step in self._options.steps for argv in (step.stop, step.start)]
        steps += [self._options.systemctl for step in self._options.steps if step.unit]
        return [*steps, *([self._options.power_off_command] if self._options.power_off else [])]

    def _unit(self, step: StepOptions) -> Systemd:
        return Systemd(self.name, SystemdOptions(units=(step.unit,), systemctl=self._options.systemctl))


def _programs(index: int, step: StepOptions) -> HookStep:
    return HookStep(f"step {index + 1}", step.stop, step.start)


def _under(context: HandlerContext, index: int) -> HandlerContext:
    """The same context with the notes of one step only."""
    prefix = f"step {index + 1}: "

    async def note(key: str, value: object) -> None:
        await context.note(prefix + key, value)

    notes = {key.removeprefix(prefix): value for key, value in context.notes.items() if key.startswith(prefix)}
    return replace(context, notes=notes, note=note)
