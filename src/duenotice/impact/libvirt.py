"""The driver that carries out impacts on libvirt's domains; each VM is a domain of the same name.

What is already so, libvirt tells: it keeps our notes with the domain. So an attempt can be made again after a kill -9
at any point, by this process or by another node.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

import structlog

from duenotice.clock import boot_id, boot_micros, monotonic, wall
from duenotice.domain.event import IMPACT_SECONDS, Cause, Event, EventType
from duenotice.errors import Unavailable
from duenotice.host.hypervisor import GONE, DomainState, Hypervisor, HypervisorRefused, Note, find_note, put_note
from duenotice.host.power import Action, Begin, CannotBe, IsOver, LookAgain, Next, PowerOperation, WriteNote, next_step
from duenotice.impact.driver import OUTPUT_KEPT, AttemptEnd, AttemptOutcome

LOOK_AGAIN = 0.25
"""Seconds between two looks at a domain while a guest shuts down, or its pause lasts."""
HELD_AGAIN = 1.0
"""Seconds between two looks while a host is out of service."""
_MOVING = frozenset({Cause.LIVE_MIGRATION, Cause.DEGRADED_HOST, Cause.HOST_FAILURE})

log = structlog.get_logger()


class Whereabouts(NamedTuple):
    """Where a VM is, and where it may go; `is_held`: its host is under maintenance."""

    host: str
    target: str | None = None
    is_held: bool = False


class LibvirtDriver:
    """`hosts` by name; `place` tells where a VM is."""

    name = "libvirt"

    def __init__(
        self, hosts: Mapping[str, Hypervisor], place: Callable[[str], Whereabouts], grace: float, undefines: bool
    ) -> None:
        self._hosts, self._place = hosts, place
        self._grace, self._undefines = grace, undefines
        self._turns: dict[str, asyncio.Lock] = {}

    async def run(self, event: Event, attempt: int) -> AttemptOutcome:
        """Hit each of its VMs; those that were hit already are not hit again."""
        ends = await asyncio.gather(*(self._hit(event, vm) for vm in event.resources), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
        return _together([end for end in ends if isinstance(end, AttemptOutcome)])

    def directory(self) -> str:
        """Nothing is noted here."""
        return ""

    def lost(self, node: str) -> AttemptOutcome | None:
        """Anybody may go on: libvirt has the notes."""
        return None

    def forget(self, event_id: str, attempt: int) -> None:
        """The notes stay with the domain; there are few of them."""

    def sweep(self, live: Mapping[str, Event]) -> None:
        """As above."""

    async def close(self) -> None:
        """A guest that is on its way down goes on."""

    async def _hit(self, event: Event, vm: str) -> AttemptOutcome:
        """One impact at a time for each VM."""
        async with self._turns.setdefault(vm, asyncio.Lock()):
            place = self._place(vm)
            if place.host not in self._hosts:
                return AttemptOutcome(AttemptEnd.HOPELESS, f"{vm}: no libvirt is named for its host {place.host!r}.")
            if event.host not in (None, place.host):  # somebody has moved it since it was told
                return AttemptOutcome(AttemptEnd.DONE, what=f"{vm}: it had left {event.host} before")
            moves = event.type is EventType.REDEPLOY or event.cause in _MOVING
            noted = await asyncio.to_thread(self._noted_target, event.id, vm, place.host) if moves else ""
            if not noted and event.to is not None and event.to not in self._hosts:
                return AttemptOutcome(AttemptEnd.HOPELESS, f"{vm}: no libvirt is named for the host {event.to!r}.")
            there = self._hosts.get(noted or event.to or place.target or "") if moves else None
            impact = _Impact(event, vm, self._hosts[place.host], there, lambda: self._place(vm).is_held)
            try:
                return await impact.run(self._grace, self._undefines)
            except HypervisorRefused as refusal:
                return AttemptOutcome(AttemptEnd.FAILED, f"{vm}: {refusal.message}")

    def _noted_target(self, event: str, vm: str, host: str) -> str:
        """The host to which its move has begun; empty if it has not.

        The fleet would perhaps name another one by now, and then the domain would run on both.
        """
        sight = self._hosts[host].look(vm)
        if sight.state is DomainState.GONE:
            return self._who_has_it(event, vm, host)
        note = find_note((*sight.kept, *sight.running), event)
        target = "" if note is None or note.step == "done" else note.target
        if target and target not in self._hosts:
            what = f"{vm} is on its way to {target}, and no libvirt is named for {target}."
            raise Unavailable(what, hint=f"Name it as before (--also {target}=URI, or libvirt_hosts).")
        return target

    def _who_has_it(self, event: str, vm: str, left: str) -> str:
        """Its notes go with it, so they tell where it has come to."""
        silent: Unavailable | None = None
        for name in self._hosts.keys() - {left}:
            try:
                sight = self._hosts[name].look(vm)
            except Unavailable as error:
                silent = error
                continue
            if find_note((*sight.kept, *sight.running), event) is not None:
                return name
        if silent is not None:
            raise silent
        return ""


class _Impact:
    """The impact of one event on one VM: look, decide, do, until it is over. `_domain` is its name in libvirt now."""

    def __init__(
        self, event: Event, vm: str, here: Hypervisor, there: Hypervisor | None, is_held: Callable[[], bool]
    ) -> None:
        self._event, self._vm, self._here, self._there, self._is_held = event, vm, here, there, is_held
        self._domain = vm
        self._did: list[str] = []
        self._refused, self._boot = "", boot_id()

    async def run(self, grace: float, undefines: bool) -> AttemptOutcome:
        """To its end, which is logged with what happened and how long it took."""
        began = monotonic()
        while True:
            operation = await asyncio.to_thread(self._look, grace, undefines)
            step = next_step(operation)
            if isinstance(step, IsOver | CannotBe):
                return self._ended(step, monotonic() - began)
            await self._take(step, operation)

    def _look(self, grace: float, undefines: bool) -> PowerOperation:
        here = self._here.look(self._domain)
        there = None if self._there is None else self._there.look(self._domain)
        if here.state is DomainState.GONE and there in (None, GONE) and self._is_renamed():
            return self._look(grace, undefines)
        lasts = self._event.duration if self._event.duration > 0 else IMPACT_SECONDS[EventType.FREEZE]
        return PowerOperation(
            self._event.id,
            self._event.type,
            here,
            wall(),
            there,
            duration=lasts,
            grace=grace,
            moves=self._there is not None,
            undefines=undefines,
            pressed=Action.PRESS.value in self._did,
            refused=self._refused,
            is_held=self._is_held(),
            boot=self._boot,
            target="" if self._there is None else self._there.name,
            steady=boot_micros(),
        )

    def _is_renamed(self) -> bool:
        """Whether somebody has renamed it in the middle of this: its note tells. It goes on by its new name."""
        event, others = self._event, [one for one in self._here.guests("") if one.name not in self._event.resources]
        found = [
            one.name for one in others if (note := find_note(one.impact_notes, event.id)) and note.uuid == one.uuid
        ]
        if len(found) != 1 or found[0] == self._domain:
            return False
        self._domain = found[0]
        hint = "Its event goes on by the new name."
        what = f"domain {self._vm} is named {self._domain} now"
        log.warning(what, action="domain-renamed", event_id=event.id, host=self._here.name, hint=hint)
        return True

    async def _take(self, step: Next, operation: PowerOperation) -> None:
        match step:
            case Begin(note, marks):
                if marks:
                    marked = put_note(operation.here.running, note._replace(mark=True))
                    await asyncio.to_thread(self._here.mark_run, self._domain, marked)
                await self._keep(note, operation)
            case WriteNote(note):
                await self._keep(note, operation)
            case LookAgain(seconds):
                await asyncio.sleep(HELD_AGAIN if seconds is None else min(LOOK_AGAIN, seconds))
            case Action():
                await self._do(step)

    async def _keep(self, note: Note, operation: PowerOperation) -> None:
        notes = operation.here.running if operation.here.is_transient else operation.here.kept
        await asyncio.to_thread(self._here.keep_notes, self._domain, put_note(notes, note))

    async def _do(self, step: Action) -> None:
        log.info("impact", action=f"libvirt-{step.value}", event_id=self._event.id, vm=self._vm, host=self._here.name)
        try:
            await asyncio.to_thread(self._call, step)
        except HypervisorRefused as refusal:
            if step not in _OF_THE_TARGET:
                raise
            self._refused = refusal.message
        self._did.append(step.value)

    def _call(self, step: Action) -> None:
        here, there, vm = self._here, self._there, self._domain
        if step is Action.DEFINE_THERE and there is not None:
            there.define(here.description(vm))
        elif step is Action.MIGRATE and there is not None:
            here.migrate(vm, there)
        elif step in _OF_THE_TARGET and there is not None:
            _CALLS[step](there, vm)
        else:
            _CALLS[step](here, vm)

    def _ended(self, end: IsOver | CannotBe, seconds: float) -> AttemptOutcome:
        took = {"vm": self._vm, "steps": self._did, "seconds": round(seconds, 2)}
        if isinstance(end, IsOver):
            log.info("impact is over", action="impact-done", event_id=self._event.id, what=end.what, **took)
            return AttemptOutcome(AttemptEnd.DONE, what=f"{self._named}: {end.what}", took=seconds)
        log.error("impact failed", action="impact-failed", event_id=self._event.id, reason=end.reason, **took)
        return AttemptOutcome(AttemptEnd.HOPELESS, f"{self._named}: {end.reason}", took=seconds)

    @property
    def _named(self) -> str:
        return self._vm if self._domain == self._vm else f"{self._vm} (named {self._domain} now)"


def _together(ends: list[AttemptOutcome]) -> AttemptOutcome:
    """How an event ended that hits several VMs; it took as long as the slowest of them."""
    failed = [end for end in ends if end.end is not AttemptEnd.DONE]
    took = max((end.took for end in ends if end.took is not None), default=None)
    if failed:
        return AttemptOutcome(failed[0].end, " ".join(end.reason for end in failed)[:OUTPUT_KEPT], took=took)
    return AttemptOutcome(AttemptEnd.DONE, what="; ".join(end.what for end in ends)[:OUTPUT_KEPT], took=took)


_OF_THE_TARGET = frozenset({Action.DEFINE_THERE, Action.START_THERE, Action.UNDEFINE_THERE, Action.MIGRATE})
_CALLS: dict[Action, Callable[[Hypervisor, str], None]] = {
    Action.SUSPEND: lambda host, vm: host.suspend(vm),
    Action.RESUME: lambda host, vm: host.resume(vm),
    Action.PRESS: lambda host, vm: host.press(vm),
    Action.DESTROY: lambda host, vm: host.destroy(vm),
    Action.START: lambda host, vm: host.start(vm),
    Action.UNDEFINE: lambda host, vm: host.undefine(vm),
    Action.START_THERE: lambda host, vm: host.start(vm),
    Action.UNDEFINE_THERE: lambda host, vm: host.undefine(vm),
}
