"""What many ask at once: refusals are clear, and never of something that was done (S6, S24)."""

from collections.abc import Iterator

import pytest

from duenotice.engine import engine
from duenotice.operator_api import audit, maintenances
from tests.acceptance.conftest import DEMO
from tests.support.node import Node

MORE = '\n[[vms]]\nname = "one-more"\naddress = "127.0.77.1"\n'
PLAN = {"on": ["set=web"], "type": "Reboot"}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(DEMO) as node:
        yield node


def test_a_change_that_was_made_is_never_answered_with_a_refusal(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although nobody may ask another large question at that moment."""
    monkeypatch.setattr(engine, "MOST_LOOKS", 0)
    assert node.refusal("/v1/states", method="GET")[0] == 503
    answer = node.operator("PUT", "/v1/fleet", (DEMO.read_text() + MORE).encode())
    assert (answer.status, answer.json()["added"]) == (200, ["one-more"])


def test_too_many_previews_at_once_are_refused_with_what_to_do(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 503 that says so; other questions are answered meanwhile."""
    monkeypatch.setattr(engine, "MOST_FORESIGHTS", 0)
    assert node.refusal("/v1/maintenances?dry_run=true", PLAN) == (503, "Too many previews are asked for at once.")
    assert node.operate("/v1/states", method="GET")["vms"] > 0


def test_a_preview_that_waited_too_long_is_not_begun(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time counts from the request: by then the caller has gone."""
    monkeypatch.setattr(maintenances, "PATIENCE_SECONDS", -1.0)
    monkeypatch.setattr("duenotice.domain.rules.preview._ASK_EVERY", 1)
    assert node.refusal("/v1/maintenances?dry_run=true", PLAN) == (503, "The preview takes too long.")


def test_a_page_of_the_audit_trail_has_a_largest_size_and_goes_on_behind_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pages together are the whole trail."""
    node.enable("me")
    for _ in range(5):
        node.operate(f"/v1/events/{node.schedule('Reboot', 'me')}/cancel")
    whole = node.operate("/v1/audit", method="GET")
    monkeypatch.setattr(audit, "PAGE_BYTES", 1)
    found, cursor, pages = [], "", 0
    while True:
        page = node.operator("GET", f"/v1/audit?cursor={cursor}").json()
        found += page["items"]
        pages += 1
        if page["next"] is None:
            break
        cursor = page["next"]
    assert (found, pages >= len(whole)) == (whole, True)
