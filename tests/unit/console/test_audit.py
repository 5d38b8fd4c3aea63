"""The audit trail in sentences: each action has one, and names lead to their pages."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from duenotice.console.audit import SENTENCES, Phrase, as_csv, as_lines, sentence, text_of
from duenotice.wire.operator import ACTIONS, Details, Record

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ID = "41EB7461-A458-4762-AF51-0CC088F022B5"
EVENT: dict[str, Any] = {
    "id": ID, "type": "Reboot", "phase": "scheduled", "scope": "set/web", "resources": ["web-0", "web-1"],
    "update_domain": 0, "cause": "maintenance", "source": "Platform", "description": "", "duration": -1,
    "not_before": "2026-03-01T12:15:00Z", "approved_by": None, "started_at": None, "ends_at": None,
    "consent": "scope", "awaited": [], "awaited_in_all": 0,
}  # fmt: skip


def record(action: str, actor: str = "token/ann", event_id: str | None = None, **details: Any) -> Record:
    return Record(7, NOON, actor, action, event_id, msgspec.convert(details, Details))


def said(*given: Any, **details: Any) -> str:
    return text_of(sentence(record(*given, **details)))


def test_every_action_has_its_sentence_even_if_it_says_nothing_more() -> None:
    """A new kind of record gets a row in `SENTENCES`."""
    assert set(SENTENCES) == set(ACTIONS)
    for action in ACTIONS:
        text = said(action)
        assert text.startswith("ann ") and text.endswith("."), text


REPORT = {
    "name": "impact-1",
    "vm": "db-0",
    "host": "h1",
    "category": "Resource.Hpc.Unhealthy.MissingIB",
    "description": "IB port is gone.",
    "began_at": "2026-03-01T12:00:00Z",
    "reported_at": "2026-03-01T12:00:05Z",
    "more": {},
}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (record("event-raised", event_id=ID, event=EVENT), "ann announced a Reboot of web-0, web-1 (maintenance)."),
        (
            record("event-raised", "duenotice", ID, event=EVENT | {"phase": "started", "cause": "host-failure"}),
            "The service began a Reboot of web-0, web-1 at once (host-failure).",
        ),
        (record("event-approved", "vm/web-0", ID, scope="set/web"), "web-0 approved event 41EB7461 of set/web."),
        (
            record("event-cancelled", event_id=ID, scope="vm/db-0", reason="x."),
            "ann cancelled event 41EB7461 of db-0: x.",
        ),
        (record("maintenance-changed", maintenance_id=ID, status="running"), "ann resumed maintenance 41EB7461."),
        (
            record("step-ended", "duenotice", maintenance_id=ID, step=0, status="failed", reason="No."),
            "The service ended step 1 of maintenance 41EB7461 as failed: No.",
        ),
        (record("session-begun", session="0a1b", name="ann"), "ann signed in at the console (session 0a1b)."),
        (record("session-ended", session="0a1b", name="ann"), "ann signed out at the console (session 0a1b)."),
        (
            record("session-ended", session="0a1b", name="bob", reason="It has run out."),
            "ann ended a session of bob at the console (session 0a1b): It has run out.",
        ),
        (record("vms-put", names=list("abcde")), "ann added or changed 5 VMs: a, b, c and 2 more."),
        (record("hosts-put", hosts=[{"name": "h1", "condition": "failed"}]), "ann set host h1 (failed)."),
        (
            record("clock-marked", mark=["2026-03-01T12:00:00Z", 1.0, "", 0.0, 60.0, 600.0]),
            "ann set the speed of the clock to 600x.",
        ),
        (
            record("operation-performed", vm="batch_1", operation="reimage"),
            "ann did a reimage of batch_1 at once, without notice.",
        ),
        (
            record("health-reported", report=REPORT),
            "ann reported host h1 for db-0 (Resource.Hpc.Unhealthy.MissingIB): IB port is gone.",
        ),
        (record("health-reported"), "ann reported a host."),
        (
            record("operation-performed", vm="db-1", operation="reboot"),
            "ann did a reboot of db-1 at once, without notice: nobody listens there.",
        ),
    ],
)
def test_a_sentence_says_who_did_what(given: Record, text: str) -> None:
    assert text_of(sentence(given)) == text


def test_names_lead_to_their_pages() -> None:
    parts = sentence(record("event-raised", "vm/a b", ID, event=EVENT))
    assert [part for part in parts if part.href] == [
        Phrase("a b", "/vms/a%20b"),
        Phrase("a Reboot", f"/events/{ID}"),
        Phrase("web-0", "/vms/web-0"),
        Phrase("web-1", "/vms/web-1"),
    ]
    (group,) = [part for part in sentence(record("scope-enabled", scope="scale-set/batch/0")) if part.href]
    assert group == Phrase("scale-set/batch/0", "/groups/scale-set/batch")


def test_what_this_console_does_not_know_is_named() -> None:
    assert said("moon-landed") == "ann did moon-landed."


def test_an_export_has_the_sentence_and_everything_else() -> None:
    """As lines of JSON, and as rows in which nothing is a formula."""
    one = record("event-cancelled", "token/=1+1", ID, reason='say "no", twice')
    (line,) = as_lines([one]).splitlines()
    assert msgspec.json.decode(line) == {
        "sentence": '=1+1 cancelled event 41EB7461: say "no", twice.',
        **msgspec.to_builtins(one),
    }
    row = as_csv([one]).decode()
    assert row.startswith("7,2026-03-01T12:00:00Z,token/=1+1,event-cancelled,")
    assert "\"'=1+1 cancelled event" in row and row.endswith("\r\n")


def test_what_is_exported_has_no_control_characters() -> None:
    """A terminal that prints the file is not cleared, and its text is not turned round (S28)."""
    odd = "a\x1b[2J\x00\x7f\x9b\u202eb\r\n\tc"
    one = record("event-cancelled", f"token/{odd}", ID, reason=odd, scope="set/web")
    rows, lines = as_csv([one]).decode(), as_lines([one]).decode()
    assert not [each for each in rows + lines if not (each.isprintable() or each in "\r\n")]
    assert (rows.count("\r\n"), rows.count("\n"), lines.count("\n")) == (1, 1, 1)
    assert msgspec.json.decode(lines)["details"]["reason"] == odd
