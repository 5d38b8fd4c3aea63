"""What the agent says: one JSON line an action, and no flood."""

import json
from collections.abc import Callable

import pytest

from duenotice.agent import log
from duenotice.agent.ledger import MemoryLedger, Recorder
from duenotice.agent.state import LedgerRecord
from duenotice.errors import Unavailable
from tests.unit.agent.build import ID, append, record, seen


def lines(captured: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    return [json.loads(line) for line in captured.readouterr().err.splitlines()]


def test_an_error_is_one_line_with_its_hint(capsys: pytest.CaptureFixture[str]):
    """As journald and people like it."""
    log.complain("poll-failed-once", Unavailable("Nobody\nanswers.", hint="Is it up?"))
    (line,) = lines(capsys)
    assert (line["level"], line["error"], line["hint"]) == ("error", "Nobody\nanswers.", "Is it up?")


def test_what_goes_on_going_wrong_is_not_said_every_second(capsys: pytest.CaptureFixture[str]):
    """The same error again is silent for a minute; another one is said."""
    for text in ("a", "a", "a", "b"):
        log.complain("poll-failed-often", Unavailable(text))
    assert [line["error"] for line in lines(capsys)] == ["a", "b"]


def test_every_record_is_a_line_but_notes_are_not(capsys: pytest.CaptureFixture[str]):
    """A handler may note what should not be read by everybody."""
    recorder = Recorder(MemoryLedger({}))
    secret: LedgerRecord = record("note", "a", key="password", value="hunter2")
    append(recorder, seen(), record("preparing", "a"), secret, record("failed", "a", reason="broken"))
    shown = lines(capsys)
    assert [line["action"] for line in shown] == ["seen", "preparing", "failed"]
    assert shown[0]["event_id"] == ID and shown[0]["status"] == "Scheduled" and shown[2]["level"] == "error"
    assert "hunter2" not in str(shown)


LINE = {"timestamp": "2026-11-15T14:03:20.123+00:00", "level": "info", "action": "preparing", "event_id": ID}


def test_a_person_is_shown_the_time_the_action_the_event_and_the_rest():
    """Texts with spaces are quoted, lists are not."""
    line = LINE | {"handler": "drain", "resources": ("a", "b"), "reason": "no such file"}
    told = 'handler=drain resources=a,b reason="no such file"'
    assert log.for_people(line) == f"14:03:20  preparing     805C2F53 {told}"


@pytest.mark.parametrize("form", [log.for_people, log.as_json])
def test_no_text_from_outside_drives_a_terminal(form: Callable[[dict[str, str]], str]):
    """S28: escapes, bells, line ends, C1 controls, and marks that turn the direction of reading."""
    written = form(LINE | {"reason": "\x1b[2J\x07\r\n\x85\x9b1m\u202e\U000e0001\ud800"})
    assert written.isprintable()


def test_what_is_escaped_is_still_json():
    """The line can be read back."""
    odd = "\x1b\x7f\x85\u202e\U000e0001"
    assert json.loads(log.as_json({"reason": odd})) == {"reason": odd}
