"""The dispatcher: each impact once, not too many at a time, and every outcome reported."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from duenotice.backoff import Backoff
from duenotice.domain.commands import FailHost, ReportImpact
from duenotice.domain.event import Event
from duenotice.domain.policy import Policy
from duenotice.engine.engine import Engine
from duenotice.errors import Unavailable
from duenotice.impact.dispatcher import Dispatcher
from duenotice.impact.driver import AttemptEnd, AttemptOutcome
from duenotice.store.memory import MemoryJournal
from duenotice.wire.operator.from_domain import action_of, event_id_of
from tests.unit.domain.build import SEED, id_of
from tests.unit.engine.rig import FailingJournal, approval, ask, in_loop, listen, once, reboot, running, shown

DRIVEN = Policy(simulated_impact=False, impact_attempts=3)
DONE, ACCEPTED = AttemptOutcome(AttemptEnd.DONE), AttemptOutcome(AttemptEnd.ACCEPTED)
FAILED, HOPELESS = AttemptOutcome(AttemptEnd.FAILED, "broken"), AttemptOutcome(AttemptEnd.HOPELESS, "never")


class ScriptedDriver:
    """A driver whose outcomes are given beforehand, for each event in turn; without any it works until let go."""

    name = "scripted"

    def __init__(self, *outcomes: AttemptOutcome | Exception) -> None:
        self.runs: list[tuple[str, int]] = []
        self.forgotten: list[tuple[str, int]] = []
        self.swept: list[str] = []
        self.at_work = self.most_at_work = 0
        self.closed = False
        self.if_lost: AttemptOutcome | None = None
        self.gate = asyncio.Event()
        self._outcomes = list(outcomes)

    async def run(self, event: Event, attempt: int) -> AttemptOutcome:
        self.runs.append((event.id, attempt))
        if self._outcomes:
            outcome = self._outcomes.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        try:
            await self.gate.wait()
        finally:
            self.at_work -= 1
        return DONE

    def directory(self) -> str:
        return ""

    def lost(self, node: str) -> AttemptOutcome | None:
        return self.if_lost

    def forget(self, event_id: str, attempt: int) -> None:
        self.forgotten.append((event_id, attempt))

    def sweep(self, live: Mapping[str, Event]) -> None:
        self.swept = list(live)

    async def close(self) -> None:
        self.closed = True


@asynccontextmanager
async def dispatching(
    driver: ScriptedDriver, journal: MemoryJournal | None = None, at_once: int = 2, **more: float
) -> AsyncIterator[Engine]:
    """A running engine with a dispatcher that has begun."""
    async with running(journal, policy=DRIVEN) as engine:
        options: dict[str, Any] = {"retry_after": 0.001, "report_within": 600.0, **more}
        dispatcher = Dispatcher(engine, driver, at_once=at_once, **options)
        await listen(engine, "alone", "zonal", "spot", "adrift")
        dispatcher.start()
        try:
            yield engine
        finally:
            await dispatcher.stop()


async def start(engine: Engine, *vms: str) -> None:
    """Events number 1, 2, … on these VMs, started."""
    for number, vm in enumerate(vms, start=1):
        await ask(engine, reboot(vm, number))
        await ask(engine, approval(None, number))


async def history(engine: Engine, number: int = 1) -> list[tuple[str, str]]:
    """What became of an event since it started, and by whom."""
    records = [r for r in await engine.history(0, 1000) if event_id_of(r) == id_of(number)]
    return [(action_of(record), record.actor) for record in records][3:]


@in_loop
async def test_an_event_that_starts_is_brought_about_and_completed() -> None:
    driver = ScriptedDriver(DONE)
    async with dispatching(driver) as engine:
        await start(engine, "alone")
        await once(lambda: driver.forgotten)
        assert driver.runs == driver.forgotten == [(id_of(1), 1)]
        assert await history(engine) == [("event-completed", "driver/scripted")]
        assert shown(engine, "alone") == []


@in_loop
async def test_an_event_that_is_only_scheduled_is_left_alone() -> None:
    driver = ScriptedDriver()
    async with dispatching(driver) as engine:
        await ask(engine, reboot("alone"))
        await start(engine)
        assert driver.runs == []


@in_loop
async def test_events_born_started_are_brought_about() -> None:
    """A host that failed: its VMs come up elsewhere (D04)."""
    driver = ScriptedDriver(DONE)
    async with dispatching(driver) as engine:
        await ask(engine, FailHost("host-3", SEED))
        await once(lambda: driver.forgotten)
        assert engine.state.fleet.vms["spot"].host != "host-3"


@in_loop
async def test_failures_are_recorded_and_tried_again_until_it_works() -> None:
    driver = ScriptedDriver(FAILED, FAILED, DONE)
    async with dispatching(driver) as engine:
        await start(engine, "alone")
        await once(lambda: len(driver.forgotten) == 3)
        assert driver.runs == [(id_of(1), 1), (id_of(1), 2), (id_of(1), 3)]
        assert [what for what, _ in await history(engine)] == ["impact-failed", "impact-failed", "event-completed"]


@in_loop
async def test_the_last_failure_gives_up() -> None:
    driver = ScriptedDriver(FAILED, FAILED, FAILED, DONE)
    async with dispatching(driver) as engine:
        await start(engine, "alone")
        await once(lambda: len(driver.forgotten) == 3)
        assert [what for what, _ in await history(engine)] == ["impact-failed", "impact-failed", "event-failed"]
        assert shown(engine, "alone") == []


@in_loop
async def test_a_hopeless_attempt_is_the_last() -> None:
    driver = ScriptedDriver(HOPELESS, DONE)
    async with dispatching(driver) as engine:
        await start(engine, "alone")
        await once(lambda: driver.forgotten)
        assert await history(engine) == [("event-failed", "driver/scripted")]


@pytest.mark.parametrize("error", [Unavailable("disk"), OSError("io"), RuntimeError("a fault of ours")])
def test_an_attempt_of_which_nothing_is_known_is_made_again_under_its_number(error: Exception) -> None:
    """It counts as no failure: the driver can find out what became of it."""

    @in_loop
    async def test() -> None:
        driver = ScriptedDriver(error, DONE)
        async with dispatching(driver) as engine:
            await start(engine, "alone")
            await once(lambda: driver.forgotten)
            assert driver.runs == [(id_of(1), 1), (id_of(1), 1)]
            assert [what for what, _ in await history(engine)] == ["event-completed"]
            assert engine.broken is None

    test()


@in_loop
async def test_an_accepted_impact_waits_for_its_report() -> None:
    """It is not asked for again, and not while somebody else starts the service anew either."""
    journal, driver = MemoryJournal(), ScriptedDriver(ACCEPTED)
    async with dispatching(driver, journal) as engine:
        await start(engine, "alone")
        await once(lambda: driver.forgotten)
        assert await history(engine) == [("impact-accepted", "driver/scripted")]
    later = ScriptedDriver()
    async with dispatching(later, journal) as engine:
        assert shown(engine, "alone") == [(id_of(1), "started")]
        await ask(engine, ReportImpact(id_of(1)))
        assert shown(engine, "alone") == []
    assert later.runs == []


@pytest.mark.parametrize("restarted", [False, True])
def test_an_accepted_impact_that_nobody_reports_fails_in_the_end(restarted: bool) -> None:
    """A receiver that forgot us cannot hold a maintenance for ever; a restart begins the wait anew."""

    @in_loop
    async def test() -> None:
        journal = MemoryJournal()
        if restarted:
            async with dispatching(first := ScriptedDriver(ACCEPTED), journal) as engine:
                await start(engine, "alone")
                await once(lambda: first.forgotten)
        async with dispatching(ScriptedDriver(ACCEPTED), journal, report_within=0.01) as engine:
            if not restarted:
                await start(engine, "alone")
            await once(lambda: not engine.state.events)
            await once(lambda: shown(engine, "alone") == [])
            assert (await history(engine))[-1] == ("event-failed", "driver/scripted")

    test()


@in_loop
async def test_so_many_at_once_and_no_more_and_one_that_hangs_holds_up_only_itself() -> None:
    driver = ScriptedDriver()
    async with dispatching(driver, at_once=2) as engine:
        await start(engine, "alone", "zonal", "spot", "adrift")
        await once(lambda: driver.at_work == 2)
        assert len(driver.runs) == 2
        driver.gate.set()
        await once(lambda: not engine.state.events)
        assert (len(driver.runs), driver.most_at_work) == (4, 2)


@in_loop
async def test_a_start_goes_on_with_what_has_started_before() -> None:
    """Also under the number of the attempt that is next; and an unfinished one under its own."""
    journal = MemoryJournal()
    first = ScriptedDriver(FAILED)
    async with dispatching(first, journal) as engine:
        await start(engine, "alone")
        await once(lambda: first.at_work == 1)
        assert first.runs == [(id_of(1), 1), (id_of(1), 2)]
    assert first.closed
    second = ScriptedDriver(DONE)
    async with dispatching(second, journal) as engine:
        await once(lambda: second.forgotten)
        assert (second.swept, second.runs) == ([id_of(1)], [(id_of(1), 2)])
        assert [what for what, _ in await history(engine)] == ["impact-failed", "event-completed"]


@in_loop
async def test_what_somebody_else_reported_meanwhile_is_left_at_that() -> None:
    """The operator was quicker: the driver's own end changes nothing, and no attempt follows."""
    driver = ScriptedDriver()
    async with dispatching(driver) as engine:
        await start(engine, "alone")
        await once(lambda: driver.at_work == 1)
        await ask(engine, ReportImpact(id_of(1), "seen to burn"))
        driver.gate.set()
        await once(lambda: driver.forgotten)
        assert await history(engine) == [("event-failed", "test")]


@in_loop
async def test_a_retry_is_dropped_when_its_event_is_gone() -> None:
    driver = ScriptedDriver(FAILED, DONE)
    async with dispatching(driver, retry_after=600.0) as engine:
        await start(engine, "alone")
        await once(lambda: driver.forgotten)
        await ask(engine, ReportImpact(id_of(1)))
        assert driver.runs == [(id_of(1), 1)]


@in_loop
async def test_an_outcome_is_reported_once_it_can_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk delays the report; the impact is not brought about again."""
    monkeypatch.setattr("duenotice.impact.dispatcher._STORE_AGAIN", Backoff(0.001, 30.0))
    journal, driver = FailingJournal(), ScriptedDriver()
    async with dispatching(driver, journal) as engine:
        await start(engine, "alone")
        await once(lambda: driver.at_work == 1)
        journal.failures = [Unavailable("full"), Unavailable("full")]
        driver.gate.set()
        await once(lambda: driver.forgotten)
        assert driver.runs == [(id_of(1), 1)]
        assert shown(engine, "alone") == []


@in_loop
async def test_a_start_that_seemed_not_to_be_stored_is_found_all_the_same() -> None:
    """The disk said no and had written it: nobody was told of that commit, yet the impact is due."""
    journal, driver = FailingJournal(), ScriptedDriver(DONE)
    async with dispatching(driver, journal) as engine:
        await ask(engine, reboot("alone"))
        journal.failures, journal.kept = [Unavailable("who knows")], True
        with pytest.raises(Unavailable):
            await ask(engine, approval(None))
        await once(lambda: driver.forgotten)
        assert driver.runs == [(id_of(1), 1)]
