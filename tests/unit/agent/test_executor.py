"""Running handlers: what is recorded around them, what cuts them off, and what they cannot hold up."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from duenotice.agent import executor
from duenotice.agent.executor import Executor, RetryLater, within
from duenotice.agent.handlers.base import HandlerContext, HandlerFailed, TryAgain
from duenotice.agent.ledger import MemoryLedger, Recorder
from duenotice.agent.planner import RESERVE, HandlerSpec, Prepare, Recover
from duenotice.agent.runtime import Jobs
from duenotice.agent.state import LedgerRecord
from duenotice.backoff import Backoff
from duenotice.clock import monotonic, wall
from tests.unit.agent.build import ID, NOW, event, events, record, seen

LONG = event(notice=1e9)
"""An event that is far away, also for those who look at the clock."""
Verb = Callable[[HandlerContext], Awaitable[None]]


async def nothing(context: HandlerContext) -> None:
    """Does nothing, well."""


async def for_ever(context: HandlerContext) -> None:
    await asyncio.Event().wait()


class Scripted:
    """A handler that does what a test says."""

    options = dict

    def __init__(self, prepare: Verb = nothing, recover: Verb = nothing) -> None:
        self.prepare, self.recover = prepare, recover


class Bench:
    """A worker with one handler `a`, and the records it makes."""

    def __init__(self, handler: Scripted, *begun: LedgerRecord, is_there: Callable[[], bool] = lambda: True) -> None:
        self.made: list[LedgerRecord] = []
        pretended = MemoryLedger(events(*(begun or (seen(LONG),))))
        keep = pretended.append

        async def append(*records: LedgerRecord) -> None:
            await keep(*records)
            self.made += records

        pretended.append = append  # type: ignore[method-assign]
        self.executor = Executor(Recorder(pretended), lambda: "web-0", "boot-1", lambda _: is_there())
        self.executor.handlers = {"a": handler}  # type: ignore[dict-item]
        self.executor.specs = {"a": HandlerSpec("a", timeout=0.05)}

    def prepare(self, seconds: float = 5.0) -> list[tuple[str, str]]:
        asyncio.run(self.executor.prepare(Prepare(ID, "a", seconds)))
        return self.told

    def recover(self) -> list[tuple[str, str]]:
        asyncio.run(self.executor.recover(Recover(ID, "a")))
        return self.told

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(each.kind, each.reason) for each in self.made]


def test_a_preparation_is_recorded_before_and_after():
    """Before it begins, so that a crash is known to have left something; after, so that it is not done again."""
    assert Bench(Scripted()).prepare() == [("preparing", ""), ("prepared", "")]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (HandlerFailed("No such unit."), "No such unit."),
        (ValueError("odd"), "ValueError: odd"),
        (asyncio.CancelledError(), "The handler cancelled itself."),
    ],
)
def test_whatever_a_handler_raises_is_a_failure(error: BaseException, reason: str):
    """Ours or a plugin's bug: recorded, and the agent lives."""

    async def fails(context: HandlerContext) -> None:
        raise error

    assert Bench(Scripted(fails)).prepare() == [("preparing", ""), ("failed", reason)]


def test_a_handler_that_hangs_is_cut_off_at_its_deadline():
    """And counts as failed (H07)."""
    assert Bench(Scripted(for_ever)).prepare(0.02)[-1] == ("failed", "TimeoutError: it was not done in time")


def test_a_handler_that_will_not_be_cut_off_is_left_to_itself(monkeypatch: pytest.MonkeyPatch):
    """It has a moment to clean up, and no more."""
    monkeypatch.setattr(executor, "GRACE", 0.02)

    async def stubborn(context: HandlerContext) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    began = time.monotonic()
    assert Bench(Scripted(stubborn)).prepare(0.02)[-1][0] == "failed"
    assert time.monotonic() - began < 10


def test_a_handler_that_cleans_up_is_waited_for_though_we_are_stopped_meanwhile():
    """Otherwise the next work of the handler would begin beside it (S13)."""
    cleaned: list[bool] = []

    async def tidy(context: HandlerContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.1)
            cleaned.append(True)

    async def stopped_while_it_cleans_up() -> None:
        task = asyncio.ensure_future(Bench(Scripted(tidy)).executor.prepare(Prepare(ID, "a", 0.02)))
        await asyncio.wait([task], timeout=0.05)
        task.cancel()
        await asyncio.wait([task])
        assert cleaned

    asyncio.run(stopped_while_it_cleans_up())


def test_a_handler_that_is_free_only_when_the_notice_is_over_is_not_begun():
    """There would be no time to approve (H07)."""
    notice = (wall() - NOW).total_seconds() + RESERVE + 0.5
    bench = Bench(Scripted(for_ever), seen(event(notice=notice)))

    async def both() -> None:
        await asyncio.gather(*(bench.executor.prepare(Prepare(ID, "a", 60.0)) for _ in range(2)))

    asyncio.run(both())
    assert [what for what, _ in bench.told] == ["preparing", "failed"]


def test_an_event_that_waits_for_the_handler_of_another_has_all_of_its_time_for_itself():
    """Two events at once: what the second waits for the first is not taken from what the handler may use (H07)."""

    async def takes_long(context: HandlerContext) -> None:
        assert context.deadline - monotonic() > 2.5
        await asyncio.sleep(0.6)

    bench = Bench(Scripted(takes_long))

    async def both() -> None:
        await asyncio.gather(*(bench.executor.prepare(Prepare(ID, "a", 3.0)) for _ in range(2)))

    asyncio.run(both())
    assert [what for what, _ in bench.told] == ["preparing", "prepared"] * 2


def test_try_again_is_tried_again_within_the_notice(monkeypatch: pytest.MonkeyPatch):
    """As a hook asks for with exit 75; each try has the notes of the last."""
    monkeypatch.setattr(executor, "AGAIN", Backoff(0.01, 10.0))
    met: list[dict[str, Any]] = []

    async def third_time(context: HandlerContext) -> None:
        met.append(dict(context.notes))
        await context.note(f"try-{len(met)}", True)
        assert context.notes[f"try-{len(met)}"]
        if len(met) < 3:
            raise TryAgain("Busy.")

    assert Bench(Scripted(third_time)).prepare()[-1] == ("prepared", "")
    assert met == [{}, {"try-1": True}, {"try-1": True, "try-2": True}]


def test_nothing_is_tried_again_when_a_clock_was_set_right_and_the_notice_is_over(monkeypatch: pytest.MonkeyPatch):
    """H07: how long it may take was counted while the time of day was wrong."""
    monkeypatch.setattr(executor, "AGAIN", Backoff(0.01, 10.0))
    tries: list[HandlerContext] = []

    async def busy(context: HandlerContext) -> None:
        tries.append(context)
        monkeypatch.setattr(executor, "wall", lambda: LONG.not_before)
        raise TryAgain("Busy.")

    told = Bench(Scripted(busy)).prepare()
    assert (told[-1], len(tries)) == (("failed", "Busy."), 1)


def test_nothing_is_begun_when_the_notice_is_over_by_a_clock_that_was_set_while_the_handler_stood_in_line():
    """H07: how long it may take was counted before that."""
    assert Bench(Scripted(), seen(event(notice=-1.0))).prepare() == []


def test_nothing_is_tried_again_when_the_last_document_does_not_have_the_event_although_that_is_not_recorded_yet(
    monkeypatch: pytest.MonkeyPatch,
):
    """S14: the disk may be read-only when it goes (agents_world 1223747143 --changing)."""
    monkeypatch.setattr(executor, "AGAIN", Backoff(0.01, 10.0))
    tries: list[HandlerContext] = []

    async def busy(context: HandlerContext) -> None:
        tries.append(context)
        raise TryAgain("Busy.")

    told = Bench(Scripted(busy), is_there=lambda: not tries).prepare()
    assert (told[-1], len(tries)) == (("failed", "Busy."), 1)


def test_nothing_is_begun_when_the_last_document_does_not_have_the_event():
    """S14: it went while the handler stood in line, and that is not recorded yet."""
    assert Bench(Scripted(), is_there=lambda: False).prepare() == []


def test_try_again_ends_with_the_notice():
    """The last word of the handler is what failed."""

    async def busy(context: HandlerContext) -> None:
        raise TryAgain("Busy.")

    assert Bench(Scripted(busy)).prepare(0.1)[-1] == ("failed", "Busy.")


def test_an_event_that_went_while_the_handler_stood_in_line_is_not_prepared_for():
    """The plan may be older than the turn."""
    bench = Bench(Scripted(), seen(), record("returning", reason="gone"))
    assert bench.prepare() == []


@pytest.mark.parametrize("value", [object(), "x" * 20_000])
def test_what_cannot_be_noted_fails_the_handler(value: Any):
    """Notes are JSON, and small (S24)."""

    async def notes(context: HandlerContext) -> None:
        await context.note("key", value)

    assert Bench(Scripted(notes)).prepare()[-1][0] == "failed"


def test_the_way_back_is_recorded_and_ends():
    """Once it worked it is over (S15)."""
    assert Bench(Scripted(), seen(), record("preparing", "a")).recover() == [("recovering", ""), ("recovered", "")]


def test_a_way_back_that_fails_is_to_be_tried_again_and_noted_once():
    """However often it fails, the ledger does not grow (S15, S24)."""

    async def fails(context: HandlerContext) -> None:
        raise HandlerFailed("Still down.")

    bench = Bench(Scripted(recover=fails), seen(), record("preparing", "a"))
    for _ in range(3):
        with pytest.raises(RetryLater):
            bench.recover()
    assert bench.told == [("recovering", ""), ("stuck", "Still down.")]


def test_the_way_back_is_cut_off_too():
    """By the handler's own timeout; there is no notice to go by."""
    with pytest.raises(RetryLater):
        Bench(Scripted(recover=for_ever), seen(), record("preparing", "a")).recover()


def test_a_handler_does_one_thing_at_a_time():
    """Two events call for it: one waits for the other."""
    running = 0

    async def alone(context: HandlerContext) -> None:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0.01)
        running -= 1

    bench = Bench(Scripted(alone))

    async def both() -> None:
        await asyncio.gather(*(bench.executor.prepare(Prepare(ID, "a", 5.0)) for _ in range(3)))

    asyncio.run(both())
    assert [what for what, _ in bench.told] == ["preparing", "prepared"] * 3


# Tasks


def test_a_task_that_runs_is_not_begun_again_and_one_that_failed_pauses():
    """The pause doubles; the wake-up comes when it is over."""
    begun: list[str] = []

    async def scene() -> list[str]:
        on_boot = asyncio.Event()
        tasks = Jobs(on_boot.set)

        async def fails() -> None:
            begun.append("x")
            raise RetryLater

        tasks.start("key", fails, Backoff(0.02, 0.04))
        tasks.start("key", fails, Backoff(0.02, 0.04))
        await on_boot.wait()
        on_boot.clear()
        tasks.start("key", fails)  # in its pause
        assert begun == ["x"]
        await asyncio.wait_for(on_boot.wait(), 5)
        tasks.start("key", fails, Backoff(0.02, 0.04))
        await asyncio.sleep(0)
        await tasks.stop()
        return begun

    assert asyncio.run(scene()) == ["x", "x"]


class Noted(Backoff):
    """Writes down after how many failures it was asked for a pause; there is none."""

    asked: ClassVar[list[int]] = []

    def after(self, failures: int) -> float:
        self.asked.append(failures)
        return 0.0


def test_each_failure_makes_the_pause_longer_and_a_success_makes_it_short_again():
    """A handler that fails once a day is tried again as soon as on the first day (S15)."""
    Noted.asked.clear()

    async def scene() -> None:
        tasks = Jobs(lambda: None)
        for fails in (True, True, True, False, True):

            async def work(fails: bool = fails) -> None:
                if fails:
                    raise RetryLater

            tasks.start("key", work, Noted(1.0, 60.0))
            for _ in range(3):
                await asyncio.sleep(0)

    asyncio.run(scene())
    assert Noted.asked == [0, 1, 2, 0]


def test_a_failure_is_remembered_only_as_long_as_somebody_asks_about_it():
    """Events come and go for years (S24)."""
    begun: list[str] = []

    async def scene() -> list[int]:
        tasks, counts = Jobs(lambda: None), []

        async def fails() -> None:
            begun.append("x")
            raise RetryLater

        for still_wanted in (True, False, False):
            tasks.start("key", fails, Backoff(3600.0, 3600.0))
            for _ in range(3):
                await asyncio.sleep(0)
            tasks.forget({"key"}.__contains__ if still_wanted else set().__contains__)
            counts.append(len(begun))
        return counts

    assert asyncio.run(scene()) == [1, 1, 2]


def test_a_hung_task_holds_up_no_other():
    """Each key is on its own."""

    async def scene() -> str:
        done = asyncio.Event()
        tasks = Jobs(lambda: None)

        async def hangs() -> None:
            await asyncio.Event().wait()

        async def runs() -> None:
            done.set()

        tasks.start("one", hangs)
        tasks.start("two", runs)
        await asyncio.wait_for(done.wait(), 5)
        await asyncio.wait_for(tasks.stop(), 5)
        return "both through"

    assert asyncio.run(scene()) == "both through"


def test_a_task_is_told_to_stop_only_once():
    """Being told again would disturb it while it cleans up."""

    async def scene() -> list[str]:
        said: list[str] = []
        tasks = Jobs(lambda: None)

        async def runs() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.02)
                said.append("clean")

        tasks.start("key", runs)
        await asyncio.sleep(0)
        for _ in range(3):
            tasks.cancel(lambda key: True)
            await asyncio.sleep(0)
        await tasks.stop()
        return said

    assert asyncio.run(scene()) == ["clean"]


def test_the_error_of_a_handler_is_read_also_when_its_work_is_stopped_in_that_moment() -> None:
    """Else Python complains of an error that nobody has read. Found by the soak (agents, 604814749 and 604818600)."""
    complaints: list[str] = []

    async def fail(now: asyncio.Event) -> None:
        await now.wait()
        raise HandlerFailed("exited with 1")

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what["message"]))
        now = asyncio.Event()
        outer = asyncio.ensure_future(within(monotonic() + 60, fail(now)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        now.set()
        await asyncio.sleep(0)
        outer.cancel()
        await asyncio.wait({outer})
        del outer
        gc.collect()

    asyncio.run(story())
    assert complaints == []
