"""What is said about what is wrong: once, again when it changes, and when it is over."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from duenotice.agent import problems
from duenotice.agent import runtime as agents
from duenotice.agent.problems import KINDS, RECENT, Problem, ProblemLog, event_problems
from tests.unit.agent.build import NOW, events, record, seen, world
from tests.unit.agent.test_status import idle_agent

UNPREPARED = (seen(), record("unprepared", reason="a has failed."))
OVER = record("returning", reason="gone")


def said(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str]]:
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [(line["action"], line["kind"]) for line in lines]


def test_a_problem_is_logged_when_it_begins_and_when_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    """Not each time that somebody looks."""
    heard, disk = ProblemLog(), Problem("disk", "It is full.", "Make room.")
    heard.say([disk])
    heard.say([disk])
    heard.say([])
    assert said(capsys) == [("problem", "disk"), ("problem-over", "disk")]


def test_words_that_change_all_the_time_are_logged_once_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, now = ProblemLog(), 100.0
    monkeypatch.setattr(problems, "monotonic", lambda: now)
    for now in (100.0, 159.0, 160.0):
        heard.say([Problem("clock", f"It is {now} off.", "NTP")])
    assert said(capsys) == [("problem", "clock")] * 2


@pytest.mark.parametrize(("after", "is_shown"), [(timedelta(0), True), (RECENT, False)])
def test_an_event_that_was_not_prepared_for_is_shown_for_a_while_after_its_end(
    after: timedelta, is_shown: bool
) -> None:
    """Somebody who is woken by an alert looks later (S32)."""
    found = event_problems(events(*UNPREPARED, OVER).values(), world(now=NOW + after))
    assert [each.kind for each in found] == (["unprepared"] if is_shown else [])


def test_an_event_that_was_not_prepared_for_is_shown_as_long_as_it_is_there() -> None:
    found = event_problems(events(*UNPREPARED).values(), world(now=NOW + 2 * RECENT))
    assert [each.kind for each in found] == ["unprepared"]


def test_a_drill_is_not_a_problem() -> None:
    """It wakes nobody."""
    failed = (seen(drill=True), record("preparing", "a"), record("failed", "a", reason="x"))
    assert list(event_problems(events(*failed).values(), world())) == []


def test_an_agent_that_reads_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it asks and gets no document, or does not even ask."""
    agent = idle_agent(tmp_path)
    assert (agent.problems(), agent.is_polling) == ([], True)
    monkeypatch.setattr(agents, "UNREAD", 0.0)
    (found,) = agent.problems()
    assert (found.what.startswith("No poll was made"), agent.is_polling) == (True, False)
    monkeypatch.setattr(type(agent), "is_polling", True)
    (found,) = agent.problems()
    assert found.kind == "polls" and found.what.startswith("No document was read")


def test_every_kind_of_problem_is_said_somewhere() -> None:
    """A word of the metric's label that nothing uses would be an alert that never fires."""
    sources = "".join(file.read_text() for file in Path(agents.__file__).parent.glob("*.py"))
    assert [kind for kind in KINDS if f'Problem("{kind}"' not in sources] == []
