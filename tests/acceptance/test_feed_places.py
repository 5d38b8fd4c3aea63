"""Places in the live feed: one token cannot take them all, and all pages of one token take one together (S24)."""

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any

import pytest

from duenotice.console.live import MOST_PAGES
from duenotice.operator_api.feed import MOST_READERS, PLACES_OF_ONE
from tests.acceptance.conftest import DEMO
from tests.support.cli import duenotice
from tests.support.node import SECONDS, Node
from tests.support.served import wait_until


@pytest.fixture
def connections() -> Iterator[contextlib.ExitStack]:
    """What is open until the end of a test."""
    with contextlib.ExitStack() as stack:
        yield stack


def opened(
    connections: contextlib.ExitStack, node: Node, path: str, headers: dict[str, str]
) -> http.client.HTTPResponse:
    connection = connections.enter_context(
        contextlib.closing(http.client.HTTPConnection(*node.operator_address, timeout=SECONDS))
    )
    connection.request("GET", path, headers=headers)
    return connections.enter_context(connection.getresponse())


def listens(connections: contextlib.ExitStack, node: Node, token: str) -> http.client.HTTPResponse:
    """Somebody who listens to the feed with a token."""
    return opened(connections, node, "/v1/feed", {"Authorization": f"Bearer {token}"})


def tab(connections: contextlib.ExitStack, node: Node, cookie: str, query: str = "") -> http.client.HTTPResponse:
    """A page of the console that is open, as its browser listens."""
    return opened(connections, node, f"/live{query}", {"Cookie": cookie})


def viewer(node: Node, name: str) -> str:
    return str(node.operate("/v1/tokens", {"name": name, "role": "viewer"})["token"])


def test_one_token_takes_ten_places_and_others_get_theirs(node: Node, connections: contextlib.ExitStack):
    """The eleventh is told why, and when to come back; so is a person at the command line."""
    greedy, other = viewer(node, "greedy"), viewer(node, "other")
    assert [listens(connections, node, greedy).status for _ in range(PLACES_OF_ONE)] == [200] * PLACES_OF_ONE
    refused = listens(connections, node, greedy)
    assert (refused.status, refused.headers["retry-after"]) == (429, "30")
    said = json.loads(refused.read())
    assert said["title"] == f"This token already listens to the feed {PLACES_OF_ONE} times."
    assert said["hint"]
    assert listens(connections, node, other).status == 200
    done = duenotice(node, "events", "watch", DUENOTICE_TOKEN=greedy)
    assert (done.code, said["title"] in done.err) == (6, True)


def test_a_place_that_is_left_is_free_again(node: Node, connections: contextlib.ExitStack):
    """The same token may come back at once."""
    greedy, readers = viewer(node, "greedy"), node.service._api.feed.readers
    with contextlib.ExitStack() as gone:
        for _ in range(PLACES_OF_ONE):
            listens(gone, node, greedy)
    wait_until(lambda: not readers)
    assert listens(connections, node, greedy).status == 200


def test_when_all_places_are_taken_everybody_is_told_to_come_back(node: Node, connections: contextlib.ExitStack):
    """It takes ten tokens to do that."""
    tokens = [viewer(node, f"v-{number}") for number in range(MOST_READERS // PLACES_OF_ONE)]
    assert {listens(connections, node, token).status for token in tokens for _ in range(PLACES_OF_ONE)} == {200}
    assert listens(connections, node, node.token).status == 503


def told(page: http.client.HTTPResponse) -> dict[str, Any]:
    """The next change that a page is told of."""
    while True:
        line = page.readline()
        assert line, "it ended"
        if line.startswith(b"data: ") and "topics" in (found := json.loads(line[6:])):
            return dict(found)


def test_many_tabs_of_one_token_take_one_place_and_all_are_told(node: Node, connections: contextlib.ExitStack):
    """A team that shares a token for its screens; when the last page is left, the place is free."""
    readers, shared = node.service._api.feed.readers, viewer(node, "screens")
    node.enable("db-0")
    cookie = node.cookie(shared)
    with contextlib.ExitStack() as open_tabs:
        pages = [tab(open_tabs, node, cookie) for _ in range(MOST_PAGES)]
        assert {page.status for page in pages} == {200}
        assert len(readers) == 1
        refused = tab(open_tabs, node, cookie)
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert tab(connections, node, node.cookie()).status == 200
        event_id = node.schedule("Reboot", "db-0")
        assert all(f"event:{event_id}" in told(page)["topics"] for page in pages)
    wait_until(lambda: len(readers) == 1)
    assert tab(connections, node, cookie).status == 200


def test_a_page_is_told_what_happened_before_it_listened(node: Node, connections: contextlib.ExitStack):
    """Also when another page of the same token listens already."""
    node.enable("db-0")
    before = node.service.engine.state.position
    tab(connections, node, node.cookie())
    first = node.schedule("Reboot", "db-0")
    late = tab(connections, node, node.cookie(), f"?after={before}")
    assert f"event:{first}" in told(late)["topics"]
    second = node.schedule("Freeze", "db-0")
    assert {f"event:{first}", f"event:{second}"} & set(told(late)["topics"]) == {f"event:{second}"}


def test_a_page_that_is_far_behind_looks_at_everything(node: Node, connections: contextlib.ExitStack):
    """Telling it all one by one would be more than it shows."""
    node.enable("db-0")
    for _ in range(101):
        node.operate(f"/v1/events/{node.schedule('Freeze', 'db-0')}/cancel")
    page = tab(connections, node, node.cookie(), "?after=1")
    lines = [page.readline() for _ in range(7)]
    assert b'data: {"all": true}\n' in lines


def test_pages_of_a_revoked_token_end_and_others_stay(node: Node, connections: contextlib.ExitStack):
    """At once, and without a word of what comes after."""
    node.enable("db-0")
    made = node.operate("/v1/tokens", {"name": "gone", "role": "viewer"})
    gone, stays = tab(connections, node, node.cookie(made["token"])), tab(connections, node, node.cookie())
    node.operate(f"/v1/tokens/{made['id']}", method="DELETE")
    event_id = node.schedule("Freeze", "db-0")
    while f"event:{event_id}" not in told(stays)["topics"]:
        pass
    assert event_id.encode() not in gone.read()


def test_a_page_hears_of_a_host_that_came_and_went_while_it_was_away(node: Node, connections: contextlib.ExitStack):
    """To ask for the VMs of a host that is gone is a 404; the page goes on."""
    before, fleet = node.service.engine.state.position, DEMO.read_text()
    node.apply(f'{fleet}\n[[hosts]]\nname = "short-lived"\n')
    node.apply(fleet)
    page = tab(connections, node, node.cookie(), f"?after={before}")
    assert {"hosts", "fleet"} <= set(told(page)["topics"])
