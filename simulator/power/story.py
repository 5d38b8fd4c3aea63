"""One life of a node on its own disk: a real engine on a real journal, under load that a seed chooses, overheard.

A life begins on what the last power cut has left, and ends in a moment chosen by chance, or is closed in peace.
"""

import asyncio
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch
from uuid import UUID

from duenotice.clock import Alive, ManualClock, Mark
from duenotice.domain.commands import (
    ApplyFleet,
    ApproveEvents,
    CancelEvent,
    Command,
    EnableScope,
    LiftIncarnations,
    OperateVm,
    ScheduleEvent,
    Tick,
)
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Declaration, Group, GroupKind, Vm, scope_of
from duenotice.domain.policy import Policy
from duenotice.domain.records import Record
from duenotice.domain.state import State
from duenotice.engine import engine as engine_module
from duenotice.engine.engine import Engine, load
from duenotice.engine.publisher import Publisher
from duenotice.errors import DuenoticeError
from duenotice.store import sqlite, sqlite_file
from duenotice.store.codec import RECORDS, Row
from duenotice.store.sqlite import SqliteJournal
from simulator.power.disk import Act, Image
from simulator.power.recorder import Recorder

DATA = "data"
BEGIN = Mark(datetime(2030, 1, 1, tzinfo=UTC), 0)
STEPS = 40
MINUTE = 60 * 10**6
_NAMES = ("solo", "spot", "web-0", "web-1", "web-2", "batch_0", "batch_1")


class Begun(NamedTuple):
    """A commit was begun: from now on these rows may be there, all or none."""

    rows: tuple[Row, ...]


class Durable(NamedTuple):
    """A commit was answered: up to here everything must be there."""

    position: int


class Shown(NamedTuple):
    """Readers have seen the journal up to here, and VMs these incarnations."""

    position: int
    incarnations: dict[str, int]


class Refusal(NamedTuple):
    """A command that would have raised an event with this id was refused."""

    event_id: str


class Life(NamedTuple):
    """What was done to the disk, beginning with this image of it."""

    before: Image
    acts: list[Act]


class OverheardJournal(SqliteJournal):
    """The real journal; it also tells when commits begin and end, and what readers have seen."""

    def __init__(self, data_dir: Path, recorder: Recorder) -> None:
        self._recorder = recorder
        super().__init__(data_dir)

    def append(self, records: Sequence[Record]) -> None:
        if records:
            self._recorder.mark(Begun(tuple(map(RECORDS.pack, records))))
        super().append(records)
        if records:
            self._recorder.mark(Durable(records[-1].position))

    def note_seen(self, position: int) -> None:
        self._recorder.mark(Shown(position, {}))  # it was published a moment ago
        super().note_seen(position)


@contextmanager
def small_sizes(chance: random.Random) -> Iterator[None]:
    """So that in a short life the log is moved, cut off and begun again, and snapshots are taken, many times."""
    with ExitStack() as undo:
        for module, name, value in (
            (sqlite_file, "LOG_SIZE_AT_FIRST", 4096 * chance.choice((0, 2, 8))),
            (sqlite_file, "LOG_SIZE_KEPT", 4096 * chance.choice((0, 4, 16))),
            (sqlite, "TIDY_PAGES", chance.choice((4, 12, 30))),
            (sqlite, "OVERDUE_PAGES", chance.choice((8, 40))),
            (engine_module, "SNAPSHOT_EVERY", chance.choice((8, 20, 1000))),
        ):
            undo.enter_context(patch.object(module, name, value))
        yield


def incarnations(state: State) -> dict[str, int]:
    """What each VM of the fleet is shown."""
    return {vm.name: state.incarnation(scope_of(vm)) for vm in state.fleet.vms.values()}


def put(image: Image, root: Path) -> None:
    """Make files of an image, in place of all that is there."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for path, content in image.items():
        if content is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(content)


def live(root: Path, before: Image, chance: random.Random, deaf: tuple[str, ...] = ()) -> Life:
    """One life, from opening the journal to a clean end; cut it wherever you like."""
    put(before, root)
    recorder = Recorder(root, before, deaf)
    with small_sizes(chance), recorder.running():
        asyncio.run(_live(recorder, chance))
    return Life(before, recorder.acts)


async def _live(recorder: Recorder, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 2)):
        journal = OverheardJournal(recorder.root / DATA, recorder)
        state = load(journal)
        clock, publisher = ManualClock(state.mark or BEGIN), Publisher(asyncio.get_running_loop().call_soon)
        engine = Engine(journal, clock, Policy(), state, publisher, threaded=False)
        engine.start()
        await _Load(engine, clock, journal, recorder, chance).run(chance.randint(5, STEPS))
        await engine.stop()


class _Load:
    """Operators and VMs at one engine."""

    def __init__(
        self,
        engine: Engine,
        clock: ManualClock,
        journal: OverheardJournal,
        recorder: Recorder,
        chance: random.Random,
    ) -> None:
        self._engine, self._clock, self._journal = engine, clock, journal
        self._recorder, self._chance = recorder, chance

    async def run(self, steps: int) -> None:
        """What happens, one thing after another; now and then several commands share a commit."""
        if self._journal.restored:
            await self._ask(LiftIncarnations(BEGIN.steady + 1_000_000))
        await self._ask(ApplyFleet(_fleet()))
        for _ in range(steps):
            if self._chance.random() < 0.15:
                await self._look_after()
            else:
                await asyncio.gather(*(self._ask(self._command()) for _ in range(self._chance.choice((1, 1, 2, 5)))))

    async def _ask(self, command: Command) -> None:
        try:
            await self._engine.submit(command, "somebody")
        except DuenoticeError:
            if isinstance(command, ScheduleEvent | OperateVm):
                self._recorder.mark(Refusal(command.event_id))
        self._recorder.mark(Shown(self._engine.state.position, incarnations(self._engine.state)))

    async def _look_after(self) -> None:
        """What the service does beside commands."""
        chosen = self._chance.randrange(4)
        if chosen == 0:
            self._journal.note_alive(Alive("a boot", self._clock.now().steady))
        elif chosen == 1:
            await self._engine.history_of("0", 10)
        elif chosen == 2:
            self._journal.save_snapshot(await self._engine.snapshot())
        else:
            self._clock.advance(self._chance.choice((1, 10, 20)) * MINUTE)
            await self._ask(Tick())

    def _command(self) -> Command:
        events, vm = list(self._engine.state.events), self._chance.choice(_NAMES)
        known: list[Callable[[], Command]] = [
            lambda: ScheduleEvent(self._new_id(), self._type(), (vm,), description=self._words()),
            lambda: OperateVm(self._new_id(), vm, EventType.REBOOT),
            lambda: EnableScope(vm),
            lambda: ApproveEvents((self._chance.choice(events or [self._new_id()]),), None),
            lambda: CancelEvent(self._chance.choice(events or [self._new_id()])),
        ]
        return self._chance.choices(known, (6, 1, 2, 3, 2))[0]()

    def _type(self) -> EventType:
        """A Preempt cannot be scheduled by hand, so some of these are refused."""
        return self._chance.choice((EventType.REBOOT, EventType.FREEZE, EventType.REDEPLOY, EventType.PREEMPT))

    def _words(self) -> str | None:
        """Now and then a row of several pages."""
        return self._chance.choice((None, "short", "long " * 199))

    def _new_id(self) -> str:
        return str(UUID(int=self._chance.getrandbits(128))).upper()


def _fleet() -> Declaration:
    return Declaration(
        "a fleet",
        groups=(Group(GroupKind.AVAILABILITY_SET, "web"), Group(GroupKind.SCALE_SET, "batch")),
        vms=tuple(_vm(number, name) for number, name in enumerate(_NAMES)),
    )


def _vm(number: int, name: str) -> Vm:
    group = {"web": "set/web", "bat": "scale-set/batch"}.get(name[:3])
    return Vm(
        name,
        f"10.0.0.{number}",
        group=group,
        placement_group=0 if name.startswith("batch") else None,
        update_domain=None if group is None else number % 2,
        spot=name == "spot",
    )
