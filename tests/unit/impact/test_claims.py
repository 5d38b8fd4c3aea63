"""Of several nodes one makes an attempt, and a new leader asks first what is already done (N12)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from duenotice.domain.commands import AcceptImpact, ClaimImpact
from duenotice.domain.event import Event
from duenotice.domain.state import State
from duenotice.engine.engine import Engine, Records
from duenotice.impact.dispatcher import Claim, Dispatcher, ImpactClaims, NodeClaims, OnlyNode
from duenotice.impact.driver import AttemptEnd, AttemptOutcome
from tests.unit.domain.build import id_of
from tests.unit.engine.rig import ask, in_loop, listen, once, running
from tests.unit.impact.test_dispatcher import ACCEPTED, DONE, DRIVEN, ScriptedDriver, history, start

PATIENCE = 600.0


class Others:
    """The other nodes, and the time."""

    def __init__(self, *there: str) -> None:
        self.there, self.now = set(there), 1000.0

    def claims(self, engine: Engine, node: str = "b", directory: str = "") -> NodeClaims:
        return NodeClaims(engine, node, self.there.__contains__, PATIENCE, lambda: self.now, directory)


@asynccontextmanager
async def led(claimed_by: str = "") -> AsyncIterator[tuple[Engine, Event]]:
    """A node that leads, and a started event that perhaps another node has claimed before."""
    async with running(policy=DRIVEN) as engine:
        await listen(engine, "alone")
        await start(engine, "alone")
        if claimed_by:
            await ask(engine, ClaimImpact(id_of(1), 1, claimed_by))
        yield engine, engine.state.events[id_of(1)]


@asynccontextmanager
async def dispatched(
    engine: Engine, driver: ScriptedDriver, claims: ImpactClaims, report_within: float = 600.0
) -> AsyncIterator[None]:
    dispatcher = Dispatcher(engine, driver, at_once=2, retry_after=0.001, report_within=report_within, claims=claims)
    dispatcher.start()
    try:
        yield
    finally:
        await dispatcher.stop()


@in_loop
async def test_the_leader_claims_what_nobody_has_before_it_begins() -> None:
    async with led() as (engine, event):
        driver = ScriptedDriver()
        async with dispatched(engine, driver, Others().claims(engine)):
            await once(lambda: driver.at_work)
            assert engine.state.events[event.id].claimed_by == "b"
            driver.gate.set()
            await once(lambda: not engine.state.events)
        assert [what for what, _ in await history(engine)] == ["impact-claimed", "event-completed"]


@in_loop
async def test_what_another_node_makes_is_left_to_it_as_long_as_it_may_come_back() -> None:
    """It reports; away for a while it may be starting again, with its notes."""
    async with led("a") as (engine, event):
        others = Others("a")
        claims = others.claims(engine)
        assert await claims.claim(event, 1) is Claim.THEIRS
        others.there.clear()
        assert await claims.claim(event, 1) is Claim.THEIRS
        others.now += PATIENCE - 1
        assert await claims.claim(event, 1) is Claim.THEIRS
        others.there.add("a")
        assert await claims.claim(event, 1) is Claim.THEIRS
        others.there.clear()
        others.now += PATIENCE
        assert await claims.claim(event, 1) is Claim.THEIRS
        others.now += PATIENCE
        assert await claims.claim(event, 1) is Claim.LOST


@in_loop
async def test_what_a_node_has_claimed_it_attends_also_when_another_leads() -> None:
    """Also its next process: nothing has to be claimed again."""
    async with led("a") as (engine, event):
        claims = Others("b").claims(engine, "a")
        assert claims.attends(event)
        assert await claims.claim(event, 1) is Claim.OURS
        assert OnlyNode().attends(event)


@in_loop
async def test_a_restarted_process_in_the_same_directory_goes_on_with_what_it_had_claimed() -> None:
    """It finds the notes of what it had begun."""
    async with led() as (engine, event):
        assert await Others().claims(engine, "b", "first").claim(event, 1) is Claim.OURS
        claimed = engine.state.events[event.id]
        assert await Others().claims(engine, "b", "first").claim(claimed, 1) is Claim.OURS


@in_loop
async def test_a_process_does_not_run_what_another_process_of_its_node_has_claimed_in_another_directory() -> None:
    """The old one stood still with its claim: it may begin when it wakes, and only it has the notes."""
    async with led() as (engine, event):
        await Others().claims(engine, "b", "first").claim(event, 1)
        claimed, others, driver = engine.state.events[event.id], Others("b"), ScriptedDriver()
        driver.if_lost = AttemptOutcome(AttemptEnd.HOPELESS, "lost")
        claims = others.claims(engine, "b", "second")
        assert claims.attends(claimed)
        assert await claims.claim(claimed, 1) is Claim.THEIRS
        others.now += PATIENCE
        async with dispatched(engine, driver, claims):
            await once(lambda: not engine.state.events)
        assert driver.runs == []
        assert [what for what, _ in await history(engine)] == ["impact-claimed", "event-failed"]


@in_loop
async def test_who_stood_still_before_its_claim_was_stored_leaves_it_to_the_newer_process_of_its_node() -> None:
    """It does not know yet that the other one is there: the journal decides."""
    async with led() as (engine, event):
        newer = await Others().claims(engine, "b", "second").claim(event, 1)
        assert (newer, await Others().claims(engine, "b", "first").claim(event, 1)) == (Claim.OURS, Claim.THEIRS)


@in_loop
async def test_who_comes_second_leaves_it_to_the_first() -> None:
    """Two nodes that both believe to lead: the journal decides."""
    async with led() as (engine, event):
        first = await Others().claims(engine, "a").claim(event, 1)
        assert (first, await Others().claims(engine, "b").claim(event, 1)) == (Claim.OURS, Claim.THEIRS)


@pytest.mark.parametrize(
    ("if_lost", "runs", "happened"),
    [
        (None, [(id_of(1), 1)], ["impact-claimed", "impact-claimed", "event-completed"]),
        (AttemptOutcome(AttemptEnd.HOPELESS, "lost"), [], ["impact-claimed", "event-failed"]),
        (
            AttemptOutcome(AttemptEnd.FAILED, "lost"),
            [(id_of(1), 2)],
            ["impact-claimed", "impact-failed", "impact-claimed", "event-completed"],
        ),
    ],
    ids=["it can be asked again", "it is given up", "there is another attempt"],
)
def test_what_a_lost_node_had_begun(
    if_lost: AttemptOutcome | None, runs: list[tuple[str, int]], happened: list[str]
) -> None:
    """The driver says how that counts; this node makes an attempt only under its own claim."""

    @in_loop
    async def test() -> None:
        async with led("a") as (engine, event):
            others, driver = Others(), ScriptedDriver(DONE)
            driver.if_lost = if_lost
            claims = others.claims(engine)
            await claims.claim(event, 1)
            others.now += PATIENCE
            async with dispatched(engine, driver, claims):
                await once(lambda: not engine.state.events)
                await asyncio.sleep(0)
            assert (driver.runs, [what for what, _ in await history(engine)]) == (runs, happened)

    test()


class Behind:
    """A node that has its commands done by the one that leads, and sees the result when it is told."""

    leads = False

    def __init__(self, leader: Engine) -> None:
        self._leader, self._state, self.looks = leader, leader.publisher.freeze(), 0
        self.on_commit: list[Callable[[Records], None]] = []
        self.on_recover: list[Callable[[], None]] = []
        self.submit, self.lost = leader.submit, leader.lost

    @property
    def state(self) -> State:
        self.looks += 1
        return self._state

    async def catch_up(self) -> None:
        records = tuple(await self._leader.history(self._state.position, 100))
        self._state = self._leader.publisher.freeze()
        for tell in self.on_commit:
            tell(records)


class Taken(OnlyNode):
    """Another node makes every attempt, which is known only once the gate is open."""

    def __init__(self) -> None:
        self.gate, self.asked = asyncio.Event(), False

    async def claim(self, event: Event, attempt: int, *, instead: bool = False) -> Claim:
        self.asked = True
        await self.gate.wait()
        return Claim.THEIRS


@in_loop
async def test_an_impact_that_is_accepted_while_it_is_claimed_has_one_timer_and_not_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its report is missed once, and no timer outlives the event."""
    monkeypatch.setattr("duenotice.impact.dispatcher._LOOK_AGAIN", 0.001)
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
    async with led() as (engine, event):
        claims = Taken()
        async with dispatched(engine, ScriptedDriver(), claims, report_within=0.01):
            await once(lambda: claims.asked)
            await ask(engine, AcceptImpact(event.id))
            claims.gate.set()
            await once(lambda: not engine.state.events)
            await asyncio.sleep(0.01)  # whatever was set before has come by then
        assert [what for what, _ in await history(engine)] == ["impact-accepted", "event-failed"]
    assert complaints == []


class Led(OnlyNode):
    """This node leads until it is told otherwise."""

    leading = True

    def leads(self) -> bool:
        return self.leading


@in_loop
async def test_a_node_that_has_lost_the_lead_does_not_report_that_no_report_came() -> None:
    """The one that leads now waits for it."""
    async with led() as (engine, event):
        claims, driver = Led(), ScriptedDriver(ACCEPTED)
        async with dispatched(engine, driver, claims, report_within=0.01):
            await once(lambda: driver.forgotten)
            claims.leading = False
            await asyncio.sleep(0.01)  # now the time for the report is over
            await listen(engine, "zonal")  # and what was submitted before this is done
            assert event.id in engine.state.events


@in_loop
async def test_notes_go_as_soon_as_this_node_has_seen_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """It need not look again: what was to come for the event is dropped with it."""
    monkeypatch.setattr("duenotice.impact.dispatcher._LOOK_AGAIN", 600.0)
    async with led("b") as (engine, event):
        driver, node = ScriptedDriver(), cast(Engine, behind := Behind(engine))
        async with dispatched(node, driver, Others().claims(node)):
            await once(lambda: driver.at_work)
            looks = behind.looks
            driver.gate.set()
            await once(lambda: behind.looks > looks)
            assert driver.forgotten == []
            await behind.catch_up()
            assert driver.forgotten == [(event.id, 1)]


@in_loop
async def test_notes_are_kept_until_this_node_has_seen_the_result_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them the attempt would be made again, as long as the leader is ahead of this node."""
    monkeypatch.setattr("duenotice.impact.dispatcher._LOOK_AGAIN", 0.001)
    async with led("b") as (engine, event):
        driver, node = ScriptedDriver(DONE, DONE), cast(Engine, behind := Behind(engine))
        async with dispatched(node, driver, Others().claims(node)):
            await once(lambda: not engine.state.events)
            looks = behind.looks
            await once(lambda: behind.looks > looks + 10)
            assert (driver.runs, driver.forgotten) == ([(event.id, 1)], [])
            await behind.catch_up()
            await once(lambda: driver.forgotten)
        assert driver.runs == driver.forgotten == [(event.id, 1)]
