"""What carries out impacts in a world: a receiver of webhooks, or commands on the nodes' machines; both can go wrong.

The dispatcher and both drivers are real. What is outside is here, and it counts: each impact is done once, the same
request is made for it every time, and what the journal says of it is true.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from duenotice.domain import records as t
from duenotice.domain.records import Record
from duenotice.http.fetch import HttpAnswer
from simulator.drivers_reports import expect_report
from simulator.faults import fault
from simulator.loop import Owner

if TYPE_CHECKING:
    from simulator.world import World

TIMEOUT, RETRY_AFTER, REPORT_WITHIN, ATTEMPTS = 30.0, 5.0, 120.0, 3
"""Settings of nodes with drivers."""
KINDS = ("webhook", "command")
OUTSIDE: ContextVar["Outside"] = ContextVar("outside")
"""What the drivers of this world reach."""


class ImpactAsked(NamedTuple):
    """One attempt, as the outside saw it."""

    attempt: int
    body: bytes
    at: float


class Outside:
    """Carries out impacts, badly at times; `habit` is how it behaves now."""

    def __init__(self, world: "World", kind: str) -> None:
        """`kind`: `webhook`, `command`, or empty when impacts are simulated."""
        self.world, self.kind, self.habit = world, kind, "well"
        self.asked: dict[str, list[ImpactAsked]] = {}
        self.done: Counter[str] = Counter()
        self.reported: set[str] = set()
        self._waiting: dict[str, Owner | None] = {}
        self._over: dict[str, float] = {}
        self._heard: dict[str, float] = {}
        self._known: set[str] = set()
        self._hits: dict[str, tuple[str, ...]] = {}
        self._runs, self._removed_at = 0, -1.0
        world.observatory.on_record.append(self.follow)

    @property
    def is_sure(self) -> bool:
        """Whether nothing that was stored can be lost, and no node can be behind: only then is `once` strict."""
        return self.world.shape.nodes == 1 and not self.world.has_lost

    def wrong(self, what: str) -> None:
        self.world.broken(f"impact: {what}")

    def dice(self) -> Random:
        """Fresh for each attempt."""
        self._runs += 1
        return self.world.dice(f"outside/{self._runs}")

    # What the journal says

    def follow(self, record: Record) -> None:
        """A record that everybody can see now."""
        match record.transition:
            case t.EventRaised(event) | t.EventStarted(event):
                self._known.add(event.id)
                self._hits[event.id] = event.resources
            case t.ImpactAccepted(event_id):
                self._heard[event_id] = self.world.loop.time()
            case t.EventCompleted(event_id):
                self._over[event_id] = self.world.loop.time()
                self.world.later(0.0, partial(self._check_done, event_id, self.world.loop.time()))
            case t.VmsRemoved():
                self._removed_at = self.world.loop.time()
            case t.EventFailed(event_id):
                self._over[event_id] = self.world.loop.time()
            case t.ImpactFailed(event_id, _, attempt):
                self._heard[event_id] = self.world.loop.time()
                if event_id in self.asked and attempt > max(each.attempt for each in self.asked[event_id]):
                    self.wrong(f"attempt {attempt} of {event_id} has failed, and was never made")

    def was_heard(self, event_id: str, since: float) -> bool:
        """Whether the journal tells how an attempt went that ended then, or the event is over."""
        return event_id in self._over or self._heard.get(event_id, -1.0) >= since

    def _check_known(self, event_id: str) -> None:
        """The key of an impact is the id of its event, in every attempt: a receiver knows by it what it has done."""
        if event_id not in self._known and not self.world.has_lost:
            self.wrong(f"{event_id} is asked for, and is no event")

    def _check_done(self, event_id: str, at: float) -> None:
        """An event is also over when its VMs are taken out of the fleet, or when it is due and they are not there."""
        done = self.done[event_id] or event_id in self.reported or self._removed_at == at
        there = set(self.world.observatory.by_address.values()).intersection(self._hits[event_id])
        if event_id in self.asked and there and not done:
            self.wrong(f"{event_id} is completed, and nobody has carried it out")

    # What drivers ask for

    def take(self, event_id: str, attempt: int, body: bytes, asked_at: float | None = None) -> None:
        """An attempt begins; `asked_at` is when it was asked for, if that was a moment ago."""
        since = self.world.loop.time() if asked_at is None else asked_at
        self.world.say("outside", f"attempt {attempt} of {event_id}, {self.habit}")
        before = self.asked.setdefault(event_id, [])
        if not self.world.has_lost:
            self._compare(event_id, attempt, body, before, since)
        before.append(ImpactAsked(attempt, body, self.world.loop.time()))

    def _compare(self, event_id: str, attempt: int, body: bytes, before: list[ImpactAsked], since: float) -> None:
        if any(_lasting(each.body) != _lasting(body) for each in before):
            self.wrong(f"{event_id} is asked for with another body than before")
        if before and attempt < before[-1].attempt:
            self.wrong(f"attempt {attempt} of {event_id} comes after attempt {before[-1].attempt}")
        self.world.later(5.0, partial(self._check_known, event_id))
        if attempt > ATTEMPTS:
            self.wrong(f"attempt {attempt} of {event_id} is one too many")
        if self.is_sure and self._over.get(event_id, since) < since:
            self.wrong(f"{event_id} is asked for, and is over")

    async def post(
        self, who: Owner | None, event_id: str, attempt: int, body: bytes, answer: "asyncio.Future[HttpAnswer]"
    ) -> None:
        """A webhook arrives; the receiver knows by its key what it has done."""
        if self.is_sure and self._waiting.get(event_id) is who:
            self.wrong(f"{event_id} is asked for twice at once")
        self._waiting[event_id] = who
        answer.add_done_callback(lambda _: self._waiting.pop(event_id, None))
        self.take(event_id, attempt, body)
        habit = self.habit
        if habit != "well":
            self.world.faults.count(f"driver-{habit}")
        status = await RECEIVER[habit](self, event_id, self.dice())
        if status and not answer.done():
            answer.set_result(HttpAnswer(status, b"as it is"))
            expect_report(self, event_id)

    def carry_out(self, event_id: str) -> None:
        """The impact itself: once for each key."""
        self.done[event_id] = 1

    async def report(self, event_id: str, after: float, failure: str = "") -> None:
        """Somebody outside tells what came of it."""
        await asyncio.sleep(after)
        self.reported.add(event_id)
        await self.world.operator.ask("POST", f"/v1/events/{event_id}/report", {"failure": failure})

    def heal(self) -> None:
        """All faults are over."""
        self.habit = "well"


def _lasting(body: bytes) -> dict[str, Any]:
    """What a request says that does not change when the VM is moved, renamed or taken out in mid-event."""
    told: dict[str, Any] = json.loads(body)
    return {key: value for key, value in told.items() if key not in ("scope", "resources", "update_domain")}


async def _well(outside: Outside, event_id: str, dice: Random) -> int:
    await asyncio.sleep(dice.uniform(2.0, 8.0))
    outside.carry_out(event_id)
    return 200


async def _slow(outside: Outside, event_id: str, dice: Random) -> int:
    """It is done, and nobody is there any more to hear it."""
    await asyncio.sleep(TIMEOUT + dice.uniform(0.0, 20.0))
    outside.carry_out(event_id)
    return 200


async def _silent(outside: Outside, event_id: str, dice: Random) -> int:
    """It is done, and the answer is lost."""
    outside.carry_out(event_id)
    return 0


def _says(status: int) -> "Habit":
    async def answer(outside: Outside, event_id: str, dice: Random) -> int:
        await asyncio.sleep(dice.uniform(0.1, 2.0))
        return status

    return answer


def _accepts(*reports: tuple[float, str]) -> "Habit":
    async def answer(outside: Outside, event_id: str, dice: Random) -> int:
        await asyncio.sleep(dice.uniform(0.1, 2.0))
        for after, failure in reports:
            outside.carry_out(event_id)
            outside.world.begin(outside.report(event_id, after * dice.uniform(0.5, 1.0), failure))
        return 202

    return answer


Habit = Callable[[Outside, str, Random], Awaitable[int]]
RECEIVER: dict[str, Habit] = {
    "well": _well,
    "fails": _says(500),
    "refuses": _says(403),
    "throttles": _says(429),
    "never-answers": _says(0),
    "answer-is-lost": _silent,
    "slow": _slow,
    "accepts": _accepts((60.0, "")),
    "reports-twice": _accepts((20.0, ""), (60.0, "")),
    "reports-at-once": _accepts((0.0, "")),
    "reports-done-and-failed": _accepts((30.0, ""), (30.0, "It broke.")),
    "reports-late": _accepts((4 * REPORT_WITHIN, "")),
    "never-reports": _accepts(),
}


def _habit(name: str) -> Callable[[Any, Random], None]:
    def do(world: Any, dice: Random) -> None:
        outside: Outside = world.outside
        outside.habit = name

        def end() -> None:
            outside.habit = "well" if outside.habit == name else outside.habit

        world.later(dice.uniform(30.0, 900.0), end)

    return do


for _name in RECEIVER:
    if _name != "well":
        _says_what = f"What carries out impacts behaves badly for a while: {_name}."
        fault(f"receiver-{_name}", _says_what, 0.3, ("webhook",))(_habit(_name))
