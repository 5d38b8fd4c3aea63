"""`command`: the administrator's own programs, one for each verb or a folder of them run in order."""

import re
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from duenotice.agent.handlers.base import Argv, Handler, HandlerContext, HandlerFailed
from duenotice.agent.handlers.processes import look_with, run_hook
from duenotice.agent.state import revision_of

_HOOK_NAME = re.compile(r"\d\d-[\w.-]+", re.ASCII)


class Options(Struct, frozen=True, forbid_unknown_fields=True):
    """Either a program for each verb, or a folder of hooks, which get the verb as an argument."""

    prepare: Argv = ()
    """The program that prepares, and its arguments."""
    recover: Argv = ()
    """The program that puts things back."""
    prepared: Argv = ()
    """The program that looks whether all is still prepared: exit 0 if so, 75 if it cannot say; else it is undone."""
    hooks: str = ""
    """A folder of programs, run in the order of their names; back in the opposite order."""

    def __post_init__(self) -> None:
        if bool(self.hooks) == bool(self.prepare or self.recover):
            raise ValueError("give `hooks`, or `prepare` and `recover`")
        for path in (self.hooks, *self.prepare[:1], *self.recover[:1], *self.prepared[:1]):
            if path and not path.startswith("/"):
                raise ValueError(f"{path!r} is not an absolute path")


class HookStep(NamedTuple):
    """One program for each verb; an empty one does nothing. Its state is noted under its name."""

    name: str
    prepare: Argv
    recover: Argv


class CommandHandler(Handler[Options]):
    """Notes each step as begun and as done. A second try goes on where the first ended; recover undoes what began."""

    options = Options

    async def prepare(self, context: HandlerContext) -> None:
        for step in self._steps():
            await prepare_step(step, context)

    async def recover(self, context: HandlerContext) -> None:
        for step in reversed(self._steps()):
            await recover_step(step, context)

    @property
    def looks(self) -> bool:
        return bool(self._options.prepared)

    async def undone(self, context: HandlerContext) -> str:
        """What the administrator's program says."""
        return await look_with(self._options.prepared, context)

    def programs(self) -> list[Argv]:
        argvs = [argv for step in self._steps() for argv in (step.prepare, step.recover)]
        return [*argvs, self._options.prepared]

    def _steps(self) -> list[HookStep]:
        if not self._options.hooks:
            return [HookStep("program", self._options.prepare, self._options.recover)]
        return [HookStep(path.name, (str(path), "prepare"), (str(path), "recover")) for path in self._hooks()]

    def _hooks(self) -> list[Path]:
        try:
            return sorted(path for path in Path(self._options.hooks).iterdir() if _HOOK_NAME.fullmatch(path.name))
        except OSError as error:
            raise HandlerFailed(f"Cannot read the folder of hooks: {error}.", hint="Make the folder.") from None


async def prepare_step(step: HookStep, context: HandlerContext) -> None:
    """Run it, unless an earlier try for this content did (S12); `begun` is durable before anything happens (S15)."""
    done = f"done {revision_of(context.event)}" + (f" {context.again}" if context.again else "")
    if context.notes.get(step.name) == done:
        return
    await context.note(step.name, "begun")
    if step.prepare:
        await run_hook(step.prepare, "prepare", context)
    await context.note(step.name, done)


async def recover_step(step: HookStep, context: HandlerContext) -> None:
    """Undo once what had begun, however far it got."""
    if context.notes.get(step.name, "undone") == "undone":
        return
    if step.recover:
        await run_hook(step.recover, "recover", context)
    await context.note(step.name, "undone")
