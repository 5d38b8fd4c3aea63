"""The audit trail of a span of time, in both directions, and by whose name it is."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.support.node import Node

FLEET = '[[vms]]\nname = "db-0"\naddress = "127.0.1.10"\n'


@pytest.fixture(scope="module")
def hours() -> Iterator[tuple[Node, list[datetime]]]:
    """A node on which an event is raised and cancelled in each of ten hours, and when that was."""
    with Node(FLEET) as node:
        node.enable("db-0")
        moments = []
        for _ in range(10):
            node.advance("1h")
            moments.append(node.now())
            node.operate(f"/v1/events/{node.schedule('Freeze', 'db-0')}/cancel")
        yield node, moments


def times(node: Node, query: str) -> list[datetime]:
    found: Any = node.operate(f"/v1/audit?action=event-raised&{query}", method="GET")
    return [datetime.fromisoformat(record["at"]) for record in found]


def written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("direction", ["", "&before=9007199254740992"])
def test_records_are_chosen_by_their_time(hours: tuple[Node, list[datetime]], direction: str) -> None:
    """From the first moment to the last, both counted; oldest first, or newest first."""
    node, moments = hours
    turn = -1 if direction else 1
    begin, end = (written(moment) for moment in (moments[3], moments[6] + timedelta(seconds=1)))
    assert times(node, f"from={begin}&to={end}{direction}") == moments[3:7][::turn]
    assert times(node, f"from={begin}{direction}") == moments[3:][::turn]
    assert times(node, f"to={end}{direction}") == moments[:7][::turn]
    assert times(node, f"from={written(moments[9] + timedelta(days=1))}{direction}") == []


def test_a_moment_that_is_none_is_refused(hours: tuple[Node, list[datetime]]) -> None:
    """Nothing is guessed."""
    node, _ = hours
    assert node.refusal("/v1/audit?from=yesterday", method="GET")[0] == 400


def test_a_name_is_enough_to_find_what_somebody_did(hours: tuple[Node, list[datetime]]) -> None:
    """`admin` is `token/admin`; a kind alone is nobody."""
    node, moments = hours
    assert times(node, "actor=admin") == times(node, "actor=token/admin") == moments
    assert times(node, "actor=token") == []
