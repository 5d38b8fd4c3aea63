"""Beyond the contract: waiting for the next document.

A VM may wait for news instead of polling for it; clients that do not know of this never notice.
"""

import pytest

from tests.support.node import Line, Node, events_at, wire


def wait(line: Line, span: str, tag: str | None = '"0"') -> None:
    """Send a poll that may be held; its answer comes later."""
    known = () if tag is None else (f"If-None-Match: {tag}",)
    line.send(wire(f"GET {events_at()}&wait={span} HTTP/1.1", "Host: a", "Metadata: true", *known))


def test_a_waiting_vm_is_told_when_its_document_changes(node: Node):
    """A poll with wait and the current tag is answered when an event is raised, with the new document."""
    node.enable("web-0")
    with node.connect("web-0") as first, node.connect("web-3") as second:
        wait(first, "30s")
        wait(second, "5m")
        event_id = node.schedule("Reboot", "web-4")
        for line in (first, second):
            answer = line.answer()
            assert (answer.status, answer.headers["etag"]) == (200, '"1"')
            assert answer.json()["Events"][0]["EventId"] == event_id


def test_waiting_ends_with_304(node: Node):
    """When the time is up and nothing has changed, the answer is 304."""
    node.enable("me")
    with node.connect("me") as line:
        wait(line, "50ms")
        assert line.answer().status == 304


@pytest.mark.parametrize("tag", [None, '"7"'])
def test_who_does_not_have_the_document_does_not_wait(node: Node, tag: str | None):
    """Without the current tag the document is answered at once, however long the wait."""
    node.enable("me")
    with node.connect("me") as line:
        wait(line, "5m", tag)
        assert line.answer().json() == {"DocumentIncarnation": 0, "Events": []}


@pytest.mark.parametrize("span", ["", "soon", "-1", "1y", "30s,30s"])
def test_a_malformed_wait_is_refused(shared: Node, span: str):
    """A wait that is not a span of time is refused, with what to write instead."""
    answer = shared.ask("me", "GET", f"{events_at()}&wait={span}")
    assert (answer.status, "wait is malformed" in answer.json()["error"]) == (400, True)
