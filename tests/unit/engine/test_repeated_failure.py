"""A trouble that lasts is told at once, once a minute, and when it is over."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from duenotice.domain.commands import Tick
from duenotice.engine.log import EVERY, RepeatedFailure
from duenotice.errors import Unavailable
from tests.unit.engine.rig import FailingJournal, approval, ask, in_loop, listen, reboot, running

FULL = Unavailable("The disk is full.", hint="Make room.")


class Log:
    """What was told, and what time it is."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.told: list[tuple[str, str, int]] = []
        self.unsaid: list[int] = []
        self.complaints = RepeatedFailure(report=self.report, now=lambda: self.now)

    def report(self, level: str, _message: str, **details: Any) -> None:
        self.told.append((level, details["action"], details["times"]))
        self.unsaid.append(details["unsaid"])


def test_the_first_failure_is_told_at_once_with_what_to_do() -> None:
    told: list[dict[str, Any]] = []
    RepeatedFailure(report=lambda level, message, **details: told.append({"level": level, **details})).failed(FULL)
    wanted = {"level": "error", "action": "commit-failed", "error": "The disk is full.", "hint": "Make room."}
    assert told == [wanted | {"times": 1, "unsaid": 0}]


def test_the_next_ones_are_told_once_a_minute_with_how_many_they_are() -> None:
    log = Log()
    for _ in range(241):  # two minutes, twice a second
        log.complaints.failed(FULL)
        log.now += 0.5
    assert log.told == [("error", "commit-failed", times) for times in (1, 121, 241)]
    assert EVERY == 60.0


def test_that_it_works_again_is_told_once() -> None:
    log = Log()
    log.complaints.failed(FULL)
    log.complaints.failed(FULL)
    log.complaints.worked()
    log.complaints.worked()
    assert log.told == [("error", "commit-failed", 1), ("info", "commits-work-again", 2)]


def test_what_never_failed_is_not_told() -> None:
    log = Log()
    log.complaints.worked()
    assert log.told == []


def test_the_next_trouble_is_told_at_once_again_after_a_minute() -> None:
    log = Log()
    for _ in range(2):
        log.complaints.failed(FULL)
        log.complaints.worked()
        log.now += EVERY
    assert [action for _, action, _ in log.told] == ["commit-failed", "commits-work-again"] * 2


def test_a_disk_that_fails_now_and_then_writes_one_line_of_each_kind_a_minute_with_what_was_not_said() -> None:
    log = Log()
    for _ in range(960):  # two minutes, eight times a second
        log.complaints.failed(FULL)
        log.complaints.worked()
        log.now += 0.125
    failed, works = ("error", "commit-failed"), ("info", "commits-work-again")
    assert [line[:2] for line in log.told] == [failed, works] * 2
    assert [line[2] for line in log.told] == [1, 1, 480, 480]
    assert log.unsaid == [0, 0, 479, 0]


def test_the_end_of_a_trouble_is_told_later_if_the_last_one_ended_just_now() -> None:
    log = Log()
    for _ in range(2):
        log.complaints.failed(FULL)
        log.complaints.worked()
    log.now += EVERY
    log.complaints.worked()
    assert [action for _, action, _ in log.told] == ["commit-failed", "commits-work-again", "commits-work-again"]
    assert log.unsaid == [0, 0, 1]


@in_loop
async def test_an_engine_whose_disk_is_full_for_a_while_says_so_twice() -> None:
    journal = FailingJournal()
    with capture_logs() as lines:
        async with running(journal) as engine:
            await listen(engine, "alone")
            journal.failures = [FULL] * 20
            for _ in range(20):
                with pytest.raises(Unavailable, match="disk is full"):
                    await ask(engine, reboot("alone"))
            await ask(engine, reboot("alone"))
            await ask(engine, approval(None))
    told = [(line["action"], line["times"]) for line in lines if "commit" in line["action"]]
    assert told == [("commit-failed", 1), ("commits-work-again", 20)]


class UntidyJournal(FailingJournal):
    """Its upkeep fails until there is room."""

    tries, has_room = 0, False

    def needs_upkeep(self) -> bool:
        return not self.has_room

    def maintain(self) -> None:
        self.tries += 1
        raise FULL


@in_loop
async def test_upkeep_that_a_full_disk_puts_off_after_each_command_is_told_twice_too() -> None:
    journal = UntidyJournal()
    with capture_logs() as lines:
        async with running(journal) as engine:
            for _ in range(20):
                await ask(engine, Tick())
            journal.has_room = True
            await ask(engine, Tick())
    told = [(line["action"], line["times"]) for line in lines if "upkeep" in line["action"]]
    assert told == [("upkeep-failed", 1), ("upkeep-works-again", journal.tries)]
    assert journal.tries > 1
