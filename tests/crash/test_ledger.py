"""The ledger must be able to complain: each test is a server that breaks its word."""

from time import monotonic
from typing import Any

import pytest

from tests.crash.ledger import Ledger
from tests.crash.server import STARTED_LASTS

SCHEDULED = {
    "id": "1",
    "scope": "vm/solo",
    "resources": ["solo"],
    "cause": "maintenance",
    "description": "ask 1",
    "phase": "scheduled",
    "approved_by": None,
}
STARTED: dict[str, Any] = SCHEDULED | {"phase": "started", "approved_by": "solo"}


@pytest.fixture
def ledger() -> Ledger:
    """One event was raised, and the caller was told so."""
    ledger = Ledger()
    ledger.raised("ask 1", [SCHEDULED])
    return ledger


def complains(ledger: Ledger, about: str) -> bool:
    return len(ledger.broken) == 1 and about in ledger.broken[0]


def test_a_server_that_keeps_its_word(ledger: Ledger) -> None:
    ledger.settle([SCHEDULED])
    ledger.approved("1", ledger.approving("1"), accepted=True)
    ledger.settle([STARTED])
    assert ledger.broken == []


def test_an_event_that_is_lost(ledger: Ledger) -> None:
    ledger.settle([])
    assert complains(ledger, "is lost")


def test_an_event_that_ended_too_soon(ledger: Ledger) -> None:
    ledger.approved("1", ledger.approving("1"), accepted=True)
    ledger.settle([])
    assert complains(ledger, "is lost")


def test_an_event_that_had_time_to_end(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.approved("1", ledger.approving("1"), accepted=True)
    later = monotonic() + STARTED_LASTS
    monkeypatch.setattr("tests.crash.ledger.monotonic", lambda: later)
    ledger.settle([])
    assert ledger.broken == []


def test_a_cancelled_event_that_comes_back(ledger: Ledger) -> None:
    ledger.cancelling("1")
    ledger.cancelled("1", accepted=True)
    ledger.settle([SCHEDULED])
    assert complains(ledger, "is back")


def test_a_cancel_without_an_answer_may_have_happened_but_not_later(ledger: Ledger) -> None:
    ledger.cancelling("1")
    ledger.settle([SCHEDULED])
    assert ledger.broken == []
    ledger.settle([])
    assert complains(ledger, "is lost")


def test_an_approval_that_is_lost(ledger: Ledger) -> None:
    ledger.approved("1", ledger.approving("1"), accepted=True)
    ledger.settle([SCHEDULED])
    assert complains(ledger, "was approved")


def test_an_event_without_an_answer_may_be_there_once(ledger: Ledger) -> None:
    ledger.raised("ask 2", None)
    ledger.settle([SCHEDULED, SCHEDULED | {"id": "2", "description": "ask 2"}])
    assert ledger.broken == []
    twice = [SCHEDULED | {"id": number, "description": "ask 2"} for number in ("2", "3")]
    ledger.settle([SCHEDULED, *twice])
    assert complains(ledger, "raised twice")


def test_an_event_that_nobody_asked_for(ledger: Ledger) -> None:
    ledger.settle([SCHEDULED, SCHEDULED | {"id": "2", "cause": "user"}])
    assert complains(ledger, "nobody asked for this")


def test_a_scope_that_forgot_its_listeners() -> None:
    ledger = Ledger()
    ledger.raised("ask 1", [STARTED])
    assert complains(ledger, "goes ahead without them")


def test_an_incarnation_that_goes_back(ledger: Ledger) -> None:
    ledger.read("solo", "vm/solo", "2020-07-01", 7, b"seven")
    ledger.read("solo", "vm/solo", "2020-07-01", 6, b"six")
    assert complains(ledger, "had seen incarnation 7 and was shown 6")


def test_other_bytes_under_the_same_incarnation(ledger: Ledger) -> None:
    ledger.read("web-0", "set/web", "2020-07-01", 7, b"seven")
    ledger.read("web-1", "set/web", "2020-07-01", 7, b"another seven")
    assert complains(ledger, "was b'seven' and became b'another seven'")
