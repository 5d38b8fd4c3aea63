"""What the agent says: one JSON line an action, and no flood."""

import json

import pytest

from duenotice.agent import logs
from duenotice.agent.cases import Record
from duenotice.agent.recorder import Pretended, Recorder
from duenotice.errors import Unavailable
from tests.unit.agent.build import ID, record, seen


def lines(captured: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return [json.loads(line) for line in captured.readouterr().err.splitlines()]


def test_an_error_is_one_line_with_its_hint(capsys: pytest.CaptureFixture[str]):
    """As journald and people like it."""
    logs.complain("poll-failed-once", Unavailable("Nobody\nanswers.", hint="Is it up?"))
    (line,) = lines(capsys)
    assert (line["level"], line["error"], line["hint"]) == ("error", "Nobody\nanswers.", "Is it up?")


def test_what_goes_on_going_wrong_is_not_said_every_second(capsys: pytest.CaptureFixture[str]):
    """The same error again is silent for a minute; another one is said."""
    for text in ("a", "a", "a", "b"):
        logs.complain("poll-failed-often", Unavailable(text))
    assert [line["error"] for line in lines(capsys)] == ["a", "b"]


def test_every_record_is_a_line_but_notes_are_not(capsys: pytest.CaptureFixture[str]):
    """A handler may note what should not be read by everybody."""
    recorder = Recorder(Pretended({}))
    secret: Record = record("note", "a", key="password", value="hunter2")
    recorder.append(seen(), record("preparing", "a"), secret, record("failed", "a", reason="broken"))
    shown = lines(capsys)
    assert [line["action"] for line in shown] == ["seen", "preparing", "failed"]
    assert shown[0]["event_id"] == ID and shown[0]["status"] == "Scheduled" and shown[2]["level"] == "error"
    assert "hunter2" not in str(shown)
