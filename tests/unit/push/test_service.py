"""Workers run where the leader is, and the journal knows how far they are (M13, N12)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from duenotice.domain.commands import (
    CancelEvent,
    ClaimPushes,
    Command,
    CreateSubscription,
    DeleteSubscription,
    EnableScope,
    NotePushes,
    PauseSubscription,
    PushNote,
    ReplaySubscription,
    ResumeSubscription,
    ScheduleEvent,
)
from duenotice.domain.event import EventType
from duenotice.domain.fleet import Site
from duenotice.domain.subscription import PushFormat, Subscription, SubscriptionStatus
from duenotice.engine.engine import Engine
from duenotice.errors import Conflict, Unavailable
from duenotice.push.receiver import PushEnd, PushOutcome
from duenotice.push.service import ACTOR, PushService, PushTerms
from duenotice.push.worker import slim
from duenotice.store.memory import MemoryJournal
from duenotice.wire.azure import EventChange
from tests.unit.domain.build import DAY, EVERYBODY, HOUR, id_of
from tests.unit.engine.cluster_rig import Cluster, Node, three
from tests.unit.engine.rig import FailingJournal, SettableClock, in_loop, running

TAKEN = PushOutcome(PushEnd.TAKEN)
TERMS = PushTerms(retry_after=0.001, longest_pause=0.002, note_every=0.0)
Told = tuple[str, str]


class Town:
    """All receivers, by the URL of their subscription: what each was told, and what it answers."""

    def __init__(self) -> None:
        self.told: dict[str, list[Told]] = {}
        self.answers: dict[str, Callable[[EventChange], PushOutcome]] = {}
        self.agrees: Callable[[], PushOutcome] = lambda: TAKEN
        self.asked = 0
        self.open = True
        self.hold: asyncio.Event | None = None

    def receiver(self, known: Subscription) -> "Townsman":
        return Townsman(self, known.url)

    async def close(self) -> None:
        self.open = False


class Townsman:
    """One receiver."""

    def __init__(self, town: Town, url: str) -> None:
        self._town, self._url = town, url

    async def validate(self, site: Site) -> PushOutcome:
        self._town.asked += 1
        await asyncio.sleep(0)
        return self._town.agrees()

    async def deliver(self, change: EventChange, site: Site, tries: int) -> PushOutcome:
        await asyncio.sleep(0)
        if self._town.hold is not None:
            await self._town.hold.wait()
        answer = self._town.answers.get(self._url)
        said = TAKEN if answer is None else answer(change)
        if said is TAKEN:
            self._town.told.setdefault(self._url, []).append((change.event.id, change.event.phase.value))
        return said


def failing(reason: str = "away", end: PushEnd = PushEnd.FAILED) -> Callable[[EventChange], PushOutcome]:
    return lambda _: PushOutcome(end, reason)


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that workers do."""
    while not condition():  # noqa: ASYNC110 (there is no event to wait for: the condition is what is tested)
        await asyncio.sleep(0.001)


def subscription(number: int = 1) -> CreateSubscription:
    return CreateSubscription(id_of(100 + number), f"https://r-{number}/", PushFormat.EVENTGRID, "s" * 16)


def event(number: int, vm: str = "alone") -> ScheduleEvent:
    return ScheduleEvent(id_of(number), EventType.REBOOT, (vm,))


class House:
    """An engine with a pusher and its town."""

    def __init__(self, engine: Engine, town: Town) -> None:
        self.engine, self.town = engine, town
        self.pusher = PushService(engine, town, TERMS)

    async def do(self, *commands: Command) -> None:
        await asyncio.gather(*(self.engine.submit(command, "test") for command in commands))

    def known(self, number: int = 1) -> Subscription:
        return self.engine.state.subscriptions[id_of(100 + number)]

    def told(self, number: int = 1) -> list[Told]:
        return self.town.told.get(f"https://r-{number}/", [])


@asynccontextmanager
async def house(journal: MemoryJournal, town: Town, clock: SettableClock | None = None) -> AsyncIterator[House]:
    async with running(journal, clock) as engine:
        await engine.submit(EnableScope("alone"), "test")
        made = House(engine, town)
        made.pusher.start()
        yield made
        await made.pusher.stop()


@in_loop
async def test_who_has_subscribed_is_told_and_the_journal_knows_it() -> None:
    """After a restart it goes on from there: nothing is told twice."""
    journal, town = MemoryJournal(), Town()
    async with house(journal, town) as first:
        await first.do(subscription(), event(1), CancelEvent(id_of(1)))
        await until(lambda: first.known().position >= 10 and len(first.told()) == 2)
    async with house(journal, town) as second:
        assert second.known().pending == ()
        await second.do(event(2))
        await until(lambda: len(second.told()) == 3)
    assert second.told() == [(id_of(1), "scheduled"), (id_of(1), "cancelled"), (id_of(2), "scheduled")]
    assert (town.asked, town.open) == (1, False)


@in_loop
async def test_thousands_of_deliveries_cost_the_journal_some_notes() -> None:
    """Not one each; who cannot keep up in memory reads the journal (S24)."""
    journal, town = MemoryJournal(), Town()
    async with house(journal, town) as home:
        home.pusher._terms = PushTerms(note_every=30.0)
        await home.do(subscription())
        await until(lambda: home.known().status is SubscriptionStatus.ACTIVE)
        for begin in range(0, 2_400, 800):
            numbers = range(begin, begin + 800)
            await home.do(*(event(number) for number in numbers), *(CancelEvent(id_of(n)) for n in numbers))
        await until(lambda: len(home.told()) == 4_800)
        kinds = Counter(type(record.transition).__name__ for record in journal.read(0))
        assert kinds["PushNoted"] <= 8
    for number in (0, 1_000, 2_399):
        mine = [phase for event_id, phase in home.told() if event_id == id_of(number)]
        assert mine == ["scheduled", "cancelled"]


@in_loop
async def test_what_was_not_taken_is_told_after_a_restart_in_order() -> None:
    """Also what was read long ago: the position goes on, and what is left is noted with it."""
    journal, town = MemoryJournal(), Town()
    town.answers["https://r-1/"] = lambda change: (
        PushOutcome(PushEnd.NOT_THIS, "no") if change.event.id == id_of(1) else TAKEN
    )
    async with house(journal, town) as first:
        await first.do(subscription(), event(1), CancelEvent(id_of(1)), event(2))
        await until(lambda: len(first.known().pending) == 2 and first.told() == [(id_of(2), "scheduled")])
    town.answers.clear()
    async with house(journal, town) as second:
        await until(lambda: len(second.told()) == 3)
        await until(lambda: second.known().pending == ())
    assert second.told()[1:] == [(id_of(1), "scheduled"), (id_of(1), "cancelled")]


@in_loop
async def test_one_that_hangs_holds_up_nobody() -> None:
    town = Town()
    async with house(MemoryJournal(), town) as home:
        await home.do(subscription(1), subscription(2))
        town.answers["https://r-1/"] = failing()
        await home.do(event(1))
        await until(lambda: home.told(2) == [(id_of(1), "scheduled")])
        await until(lambda: home.known(1).trouble == "away")
        assert home.told(1) == []
        (ill, well) = home.pusher.measures()
        assert (ill.delivered, ill.waiting, well.delivered, well.waiting) == (0, 1, 1, 0)
        assert ill.failed > 0


@in_loop
async def test_a_try_that_failed_is_made_again_though_nothing_else_happens() -> None:
    """No commit wakes the worker: it wakes up by itself."""
    town, tries = Town(), Counter[str]()

    def third_time(change: EventChange) -> PushOutcome:
        tries[change.event.id] += 1
        return TAKEN if tries[change.event.id] > 2 else PushOutcome(PushEnd.FAILED, "away")

    town.answers["https://r-1/"] = third_time
    async with house(MemoryJournal(), town) as home:
        await home.do(subscription())
        await until(lambda: home.known().status is SubscriptionStatus.ACTIVE)
        home.pusher._terms = PushTerms(note_every=30.0)
        await home.do(event(1), event(2))
        position = home.engine.state.position
        await until(lambda: len(home.told()) == 2)
        assert home.engine.state.position - position <= 1


@in_loop
async def test_a_day_later_it_is_set_aside_and_can_be_replayed() -> None:
    """An old message is not tried for ever; and a replay is delivered whatever happens meanwhile."""
    clock, town = SettableClock(), Town()
    town.answers["https://r-1/"] = failing()
    async with house(MemoryJournal(), town, clock) as home:
        await home.do(subscription(), event(1))
        await until(lambda: home.known().trouble)
        clock.pass_by(DAY)
        assert home.pusher.measures()[0].lag == timedelta(days=1).total_seconds()
        await until(lambda: home.known().dead_letters)
        assert [each.event_id for each in home.known().dead_letters] == [id_of(1)]
        town.answers.clear()
        await home.do(ReplaySubscription(home.known().id))
        await until(lambda: (id_of(1), "scheduled") in home.told())
        await until(lambda: home.known().pending == () and home.known().dead_letters == ())


@in_loop
async def test_a_clock_that_is_wrong_gives_up_nothing_and_a_restart_begins_no_new_day() -> None:
    """Two days ahead nothing is set aside; then 23 hours pass, a restart, and one hour more (S34)."""
    journal, town, clock = MemoryJournal(), Town(), SettableClock()
    town.answers["https://r-1/"] = failing("still away")
    async with house(journal, town, clock) as here:
        await here.do(subscription(), event(1))
        await until(lambda: here.known().trouble)
        clock.set_wall(2 * DAY)
        tries = next(iter(here.pusher.measures())).failed
        await until(lambda: next(iter(here.pusher.measures())).failed > tries + 3)
        clock.set_wall(-2 * DAY)
        clock.pass_by(23 * HOUR)
        assert here.known().dead_letters == ()
    async with house(journal, town, clock) as here:
        clock.pass_by(HOUR)
        await until(lambda: here.known().dead_letters)


@in_loop
async def test_a_message_whose_record_is_gone_is_set_aside() -> None:
    """A journal in memory forgets."""
    town = Town()
    async with house(MemoryJournal(), town) as home:
        await home.do(subscription())
        await until(lambda: home.known().status is SubscriptionStatus.ACTIVE)
        home.pusher.pause()
        await home.do(ClaimPushes("x"))
        await home.do(NotePushes("x", (PushNote(home.known().id, 5, pending=(999_999,)),)))
        home.pusher.start()
        await until(lambda: home.known().dead_letters)
        assert home.known().dead_letters[0].reason == "It is no longer in the journal."


@in_loop
async def test_a_receiver_is_asked_until_it_answers_and_a_no_is_a_no() -> None:
    town = Town()
    town.agrees = lambda: PushOutcome(PushEnd.FAILED, "away")
    async with house(MemoryJournal(), town) as home:
        await home.do(subscription())
        await until(lambda: home.known().reason == "away" and town.asked > 2)
        assert home.known().status is SubscriptionStatus.WAITING
        town.agrees = lambda: PushOutcome(PushEnd.GONE, "no")
        await until(lambda: home.known().status is SubscriptionStatus.REFUSED)
        assert (home.known().reason, home.pusher.measures()) == ("no", [])
        town.agrees = lambda: TAKEN
        await home.do(ResumeSubscription(home.known().id), event(1))
        await until(lambda: home.told())


@in_loop
async def test_who_does_not_answer_for_a_day_is_refused() -> None:
    clock, town = SettableClock(), Town()
    town.agrees = lambda: PushOutcome(PushEnd.FAILED, "away")
    async with house(MemoryJournal(), town, clock) as home:
        await home.do(subscription())
        await until(lambda: town.asked)
        clock.set_wall(2 * DAY)
        asked = town.asked
        await until(lambda: town.asked > asked + 2)
        assert home.known().status is SubscriptionStatus.WAITING
        clock.set_wall(-2 * DAY)
        clock.pass_by(DAY)
        await until(lambda: home.known().status is SubscriptionStatus.REFUSED)
        assert home.known().reason == "away"


@in_loop
async def test_who_is_gone_is_paused_and_told_nothing_more() -> None:
    town = Town()
    town.answers["https://r-1/"] = failing("410", PushEnd.GONE)
    async with house(MemoryJournal(), town) as home:
        await home.do(subscription(), event(1))
        await until(lambda: home.known().status is SubscriptionStatus.PAUSED)
        assert (home.known().reason, home.pusher.measures()) == ("410", [])


@in_loop
async def test_what_a_receiver_says_to_a_leader_that_is_one_no_more_changes_nothing() -> None:
    """And one that starts twice delivers once."""
    town = Town()
    async with house(MemoryJournal(), town) as home:
        await home.do(subscription())
        await until(lambda: home.known().status is SubscriptionStatus.ACTIVE)
        home.pusher.start()
        await home.do(event(1))
        await until(lambda: home.told() and home.known().position >= home.engine.state.position - 2)
        town.answers["https://r-1/"] = failing("410", PushEnd.GONE)
        await home.do(ClaimPushes("another"), event(2))
        await until(lambda: not home.pusher._open or home.pusher._workers[id_of(101)]._is_over)
        assert (home.known().status, home.told()) == (SubscriptionStatus.ACTIVE, [(id_of(1), "scheduled")])


@in_loop
async def test_a_journal_that_has_gone_back_is_followed_from_where_it_is() -> None:
    """A database may lose its last commits (N14): what comes then has positions that were there before."""
    town = Town()
    async with house(MemoryJournal(), town) as home:
        await home.do(subscription())
        await until(lambda: home.known().status is SubscriptionStatus.ACTIVE)
        home.pusher._position += 1000
        for worker in home.pusher._workers.values():
            worker.outbox.position += 1000
        await home.do(event(1))
        await until(lambda: home.told())
        assert home.told() == [(id_of(1), "scheduled")]


@in_loop
async def test_paused_and_deleted_ones_are_left_alone() -> None:
    town = Town()
    async with house(MemoryJournal(), town) as home:
        await home.do(subscription(1), subscription(2))
        await home.do(PauseSubscription(home.known(1).id), DeleteSubscription(home.known(2).id), event(1))
        await until(lambda: not home.pusher.measures())
        assert town.told == {}
        await home.do(ResumeSubscription(home.known(1).id))
        await until(lambda: home.told(1))


@in_loop
async def test_a_journal_that_is_away_for_a_moment_costs_nothing_but_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be noted is noted later; a worker that could not read begins again."""
    monkeypatch.setattr("duenotice.push.service.BEGIN_AGAIN", 0.01)
    journal, town = FailingJournal(), Town()
    async with house(journal, town) as home:
        await home.do(subscription())
        await until(lambda: home.known().status is SubscriptionStatus.ACTIVE)
        town.hold = asyncio.Event()
        await home.do(event(1))
        journal.failures = [Unavailable("full")]
        town.hold.set()
        await until(lambda: home.told() and not journal.failures)
        await home.do(event(2))
        await until(lambda: home.told() == [(id_of(1), "scheduled"), (id_of(2), "scheduled")])
        await until(lambda: home.known().position >= 8 and home.known().pending == ())
        await home.do(PauseSubscription(home.known().id), event(3))
        journal.read_failures = [Unavailable("away")]
        await home.do(ResumeSubscription(home.known().id))
        await until(lambda: len(home.told()) == 3 and not journal.read_failures)
        assert home.told()[-1] == (id_of(3), "scheduled")


@in_loop
async def test_what_one_leader_has_told_the_next_does_not_tell_again() -> None:
    """Only the leader delivers; what the old one still says counts no more (N12)."""
    town = Town()
    async with three() as cluster:
        pushers = {node.name: pushed(node, town) for node in cluster.nodes}
        old = cluster.leader
        await old.engine.submit(EnableScope("alone"), "test")
        await old.engine.submit(subscription(), "test")
        await old.engine.submit(event(1), "test")
        await until(lambda: len(town.told.get("https://r-1/", ())) == 1)
        await until(lambda: old.engine.state.subscriptions[id_of(101)].position >= old.engine.state.position - 2)
        assert [bool(each.measures()) for name, each in pushers.items() if name != old.name] == [False, False]
        claim = old.engine.state.push_claim
        cluster.kill(old)
        new = await led_by_another(cluster, old)
        await new.engine.submit(event(2), "test")
        await until(lambda: len(town.told["https://r-1/"]) == 2)
        assert town.told["https://r-1/"] == [(id_of(1), "scheduled"), (id_of(2), "scheduled")]
        with pytest.raises(Conflict, match="Another process delivers"):
            await new.engine.submit(NotePushes(claim, (PushNote(id_of(101), 1),)), ACTOR)
        for each in pushers.values():
            await each.stop()


def pushed(node: Node, town: Town) -> PushService:
    """A pusher that runs while its node leads."""
    made = PushService(node.engine, town, TERMS)
    node.engine.on_lead.append(made.start)
    node.engine.on_follow.append(made.pause)
    if node.engine.leads:
        made.start()
    return made


async def led_by_another(cluster: Cluster, old: Node) -> Node:
    others = [node for node in cluster.nodes if node is not old]
    await cluster.until(lambda: any(node.engine.leads for node in others))
    return next(node for node in others if node.engine.leads)


def test_a_worker_keeps_little_of_large_records() -> None:
    """A whole fleet may be in one."""
    from duenotice.domain.records import Record, VmsRemoved
    from tests.unit.domain.build import NOW

    assert slim(Record(7, NOW.at, "test", VmsRemoved(EVERYBODY))) == 7
