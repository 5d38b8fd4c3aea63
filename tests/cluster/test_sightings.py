"""The judge of the rounds finds what it is there to find: each document here is wrong in one way."""

import json

import pytest

from tests.cluster.sightings import Sightings

NOON, LATER = "Mon, 16 Nov 2026 12:00:00 GMT", "Mon, 16 Nov 2026 12:15:00 GMT"


def document(incarnation: int, **events: str) -> bytes:
    """What a VM reads: the status of each event, or the time of one that is scheduled."""
    told = [
        {"EventId": name, "EventStatus": "Started", "NotBefore": ""}
        if status == "Started"
        else {"EventId": name, "EventStatus": "Scheduled", "NotBefore": status}
        for name, status in events.items()
    ]
    return json.dumps({"DocumentIncarnation": incarnation, "Events": told}).encode()


def judged(*documents: bytes) -> Sightings:
    """What one VM read, one after the other, each at another node."""
    seen = Sightings()
    for number, body in enumerate(documents):
        seen.saw("vm/me", f"node {number}", seen.newest("vm/me"), body)
    return seen


def test_a_history_without_faults_is_accepted() -> None:
    """Raised, moved to later, started, gone; and read twice."""
    story = [document(0), document(1, a=NOON), document(2, a=LATER), document(3, a="Started"), document(4)]
    judged(*story, story[-1]).check()


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        ([document(2, a=NOON), document(1)], "S27: node 1 showed vm/me at 1 after 2 was read"),
        ([document(1, a=NOON), document(1, b=NOON)], "S4: node 1 showed another document"),
        ([document(1, a=NOON), document(2, a=NOON)], "S4: vm/me went from 1 to 2 although nothing changed"),
        ([document(1, a=NOON), document(2), document(3, a=NOON)], "S7: a of vm/me came back at 3"),
        ([document(1, a="Started"), document(2, a=NOON)], "S7: a of vm/me went back to Scheduled at 2"),
        ([document(1, a=LATER), document(2, a=NOON)], f"S2: a of vm/me moved from {LATER} to {NOON} at 2"),
    ],
)
def test_each_fault_is_found(documents: list[bytes], why: str) -> None:
    """And named, with the promise that it breaks."""
    with pytest.raises(AssertionError, match=why):
        judged(*documents).check()


def test_an_answer_that_no_poll_may_get_is_found() -> None:
    """No answer and 503 are what a fault looks like; all else is wrong."""
    seen = Sightings()
    for status in (0, 503, 404):
        seen.missed(status)
    with pytest.raises(AssertionError, match="a poll was answered with 404"):
        seen.check()
    assert (seen.failed, seen.refused) == (1, 2)
