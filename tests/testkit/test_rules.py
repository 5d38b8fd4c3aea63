"""The rules as functions: what a client sent, as values, and what each rule says about it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from duenotice.domain import transitions as t
from duenotice.domain.event import Cause, Event, EventType
from duenotice.testkit.emulator import Happened
from duenotice.testkit.overheard import Exchange
from duenotice.testkit.verdicts import approving, polling, stopping
from duenotice.testkit.verdicts.evidence import Ending, Evidence, GuideNotes
from duenotice.testkit.verdicts.verdict import FAILED, NOT_TRIED, judge

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
EMPTY = b'{"DocumentIncarnation":0,"Events":[]}'
ID = "00000001-0000-4000-8000-000000000000"
PATH = "/metadata/scheduledevents"


def asked(number: int, at: float, answer: bytes = EMPTY, **fields: Any) -> Exchange:
    """A poll that is answered at once; `at` in seconds."""
    made = Exchange(
        number,
        NOW,
        at,
        "me",
        "192.0.2.1",
        "GET",
        PATH,
        {"api-version": "2020-07-01"},
        {"metadata": "true"},
        b"",
        200,
        answer,
        at,
    )
    return made._replace(**fields)


def approval(number: int, at: float, status: int = 200, **fields: Any) -> Exchange:
    """An approval of the one event there is."""
    body = b'{"StartRequests":[{"EventId":"%s"}]}' % ID.encode()
    return asked(number, at, b"", method="POST", body=body, status=status)._replace(**fields)


def evidence(
    *exchanges: Exchange, ended: float = 100.0, notes: GuideNotes | None = None, raised: float = 0.0
) -> Evidence:
    """All that is known; there is one event, of this VM."""
    event = Event(ID, EventType.REBOOT, Cause.MAINTENANCE, "vm/me", ("me",), NOW, 0)
    happened = [Happened(raised, t.Record(1, NOW, "test", t.EventRaised(event)))]
    return Evidence("me", exchanges, happened, 0.0, ended, notes or GuideNotes())


@pytest.mark.parametrize(
    ("times", "ended", "is_silent"),
    [
        ([0, 1, 2], 3, False),
        ([0, 1, 2], 31.9, False),
        ([0, 1, 2], 32, True),
        ([0, 1, 40, 41], 42, True),
        ([0], 60, True),
    ],
)
def test_silence_is_a_failure_of_pace_however_good_the_polls_before_were(
    times: list[float], ended: float, is_silent: bool
) -> None:
    """30 seconds, between two polls or after the last."""
    polls = [asked(number, at) for number, at in enumerate(times, start=1)]
    assert bool(polling.pace(evidence(*polls, ended=ended))) is is_silent


def test_who_waits_for_us_is_not_silent() -> None:
    """A poll that we hold, because the client asked us to."""
    held = asked(2, 1, query={"api-version": "2020-07-01", "wait": "300s"}, status=0, answered=None)
    assert polling.pace(evidence(asked(1, 0), held)) == []


@pytest.mark.parametrize("notes", [GuideNotes(endings=[Ending(2.0, 1)]), GuideNotes(stops=[2.0])])
def test_who_has_ended_or_was_stopped_is_not_silent(notes: GuideNotes) -> None:
    """Then it could not ask."""
    assert polling.pace(evidence(asked(1, 0), asked(2, 1), asked(3, 90), ended=91, notes=notes)) == []


@pytest.mark.parametrize("answer", [{"answer": EMPTY}, {"answer": b""}, {"status": 500, "answer": b"{}"}])
def test_a_crash_is_a_failure_of_alive_whatever_the_last_answer_was(answer: dict[str, Any]) -> None:
    """Also when it is the failure of another rule."""
    seen = evidence(asked(1, 0), asked(2, 1, **answer), notes=GuideNotes(endings=[Ending(1.5, 1)]))
    assert stopping.alive(seen) == ["it ended by itself with code 1, after GET #2"]


def test_each_start_of_a_program_may_die() -> None:
    """The one that ended before it asked, too."""
    notes = GuideNotes(endings=[Ending(1.5, 1), Ending(3.0, -11)])
    assert stopping.alive(evidence(asked(1, 1), notes=notes)) == [
        "it ended by itself with code 1, after GET #1",
        "it ended by itself with code -11, before it asked",
    ]


@pytest.mark.parametrize(
    ("statuses", "times"),
    [([200], 1), ([200, 200, 200], 3), ([500, 429, 200], 1), ([0, 200], 1), ([400, 400], 0)],
)
def test_approvals_are_counted_when_they_were_taken(statuses: list[int], times: int) -> None:
    """A retry after an error, or after no answer, is right."""
    approvals = [approval(number, float(number), status) for number, status in enumerate(statuses, start=1)]
    seen = evidence(*approvals)
    assert approving.once(seen) == ([f"it approved {ID} {times} times"] if times > 1 else [] if times else None)
    counted, taken = judge(seen).seen, statuses.count(200)
    assert (counted["approvals"], counted["approvals_not_taken"]) == (taken, len(statuses) - taken)


def test_an_event_that_is_named_twice_in_one_approval_is_approved_once() -> None:
    """It is one request."""
    twice = b'{"StartRequests":[{"EventId":"%s"},{"EventId":"%s"}]}' % (ID.encode(), ID.lower().encode())
    assert approving.once(evidence(approval(1, 1.0, body=twice))) == []


@pytest.mark.parametrize(
    ("version", "path", "said"),
    [
        ("2017-03-01", PATH, None),
        ("2017-08-01", PATH, ["GET #1 had no header"]),
        ("2017-03-01", "/metadata/instance", ["GET #1 had no header"]),
    ],
)
def test_the_header_counts_where_it_is_needed(version: str, path: str, said: list[str] | None) -> None:
    """A03: the preview of the events needs none."""
    assert polling.header(evidence(asked(1, 0, headers={}, query={"api-version": version}, path=path))) == said


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        (["2020-07-01"], []),
        (["2024-07-09", "2020-07-01"], []),
        (["2024-07-09"], ["it asks for api-version 2024-07-09, which does not exist"]),
        (["2024-07-09", "2017-08-01"], ["it asks for api-version 2017-08-01"]),
        ([""], ["it asks without an api-version"]),
    ],
)
def test_a_version_that_does_not_exist_may_be_tried_before_one_that_does(versions: list[str], said: list[str]) -> None:
    """Some look for the newest that there is."""
    polls = [asked(number, number, query={"api-version": name}) for number, name in enumerate(versions, start=1)]
    assert polling.version(evidence(*polls)) == said


def test_a_rule_that_applies_and_was_not_tried_is_no_pass_unless_that_is_allowed() -> None:
    """It is named; rules that do not apply say why, and do not count."""
    seen = evidence(asked(1, 0), asked(2, 1), ended=2, notes=GuideNotes(tries=frozenset({"errors", "once"})))
    verdict = judge(seen)
    assert [finding.said for finding in verdict.failed] == [("not tried: errors",)]
    reasons = {finding.rule.id: finding.why for finding in verdict.findings if finding.outcome == NOT_TRIED}
    assert (reasons["once"], reasons["leader"]) == ("it never approves", "no trial of it was chosen")
    assert not verdict.passes
    assert judge(seen, allow_untried=True).passes


def test_a_tour_that_ended_early_says_why() -> None:
    """Also beside a rule that was broken."""
    verdict = judge(evidence(asked(1, 0), ended=60, notes=GuideNotes(ended="it is gone")))
    assert {finding.rule.id: finding.said for finding in verdict.findings if finding.outcome == FAILED} == {
        "pace": ("it was silent for 60 s after #1",),
        "tour": ("the tour ended early: it is gone",),
    }
