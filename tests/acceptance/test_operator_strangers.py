"""How often somebody without a token may ask at the operator's port (S29)."""

import http.client
import re
from collections import Counter

import pytest

from duenotice.bootstrap import operator_server, places
from duenotice.clock import monotonic
from duenotice.errors import Unavailable
from tests.support.node import Node


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gets more for being slow."""
    monkeypatch.setattr(places, "monotonic", lambda: 1000.0)
    monkeypatch.setattr(operator_server, "REST_SECONDS", 0.001)


def asked(node: Node, times: int, path: str = "/metrics", address: str = "127.0.0.1", token: str = "") -> Counter[int]:
    """The statuses of so many requests on one connection."""
    host, port = node.service.operator_address
    connection = http.client.HTTPConnection(host, port, timeout=60, source_address=(address, 0))
    statuses = Counter[int]()
    for _ in range(times):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        answer.read()
        statuses[answer.status] += 1
        if answer.status == 429:
            assert answer.headers["retry-after"] == "1"
    connection.close()
    return statuses


def test_an_address_without_a_token_may_ask_only_so_often(node: Node) -> None:
    """More is refused; so are requests with a token that nobody knows, or paths that are not there."""
    most = int(places.REQUESTS)
    assert asked(node, most + 20) == {200: most, 429: 20}
    for path, token in (("/nothing", ""), ("/sign-in", ""), ("/v1/vms", "nobody-s")):
        assert asked(node, 3, path, token=token) == {429: 3}


def test_who_has_a_token_and_probes_are_not_counted(node: Node) -> None:
    """Though they come from the same address."""
    most = int(places.REQUESTS)
    assert asked(node, most + 1)[429] == 1
    assert asked(node, most + 20, "/livez") == {200: most + 20}
    assert asked(node, most + 20, "/readyz") == {200: most + 20}
    assert asked(node, most + 20, "/v1/me", token=node.service.token) == {200: most + 20}


def test_who_probes_too_often_is_told_what_was_told_last(node: Node) -> None:
    """The first of a second are looked after, and so is one of another address."""
    most = int(places.PROBED)
    assert asked(node, most, "/readyz") == {200: most}
    node.service.engine.trouble = Unavailable("The disk is away.", hint="Bring it back.")
    assert asked(node, 20, "/readyz") == {200: 20}
    assert asked(node, 20, "/readyz?something") == {429: 20}
    assert asked(node, 1, "/readyz", address="127.0.0.2") == {503: 1}
    assert asked(node, 20, "/readyz") == {503: 20}


def test_what_was_told_last_counts_only_for_a_second(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many ask, one that is ill is seen to be so."""
    assert asked(node, 2 * int(places.PROBED), "/readyz")[503] == 0
    node.service.engine.trouble = Unavailable("The disk is away.", hint="Bring it back.")
    monkeypatch.setattr(places, "PROBED_SECONDS", 0.0)
    assert asked(node, 2, "/readyz") == {503: 2}


def test_one_address_without_a_token_does_not_use_up_what_others_may_ask(node: Node) -> None:
    """But all together may ask only some times as often as one: who has many addresses gains nothing."""
    most, together = int(places.REQUESTS), int(places.TOGETHER)
    assert asked(node, 10 * most, address="127.0.0.2")[200] == most
    for n in range(3, together + 2):
        assert asked(node, most, address=f"127.0.0.{n}") == {200: most}
    assert asked(node, 3, address="127.0.0.99") == {429: 3}


def test_a_browser_that_signs_in_gets_the_page_and_all_its_files_at_once(node: Node) -> None:
    """Several times a second."""
    host, port = node.service.operator_address
    for _ in range(3):
        connection = http.client.HTTPConnection(host, port, timeout=60)
        connection.request("GET", "/sign-in")
        page = connection.getresponse().read().decode()
        files = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
        assert files
        for file in files:
            assert asked(node, 1, file) == {200: 1}
        connection.request("POST", "/sign-in", f"token={node.service.token}", _FORM)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 303
        connection.close()


def test_nothing_is_read_for_a_moment_of_who_asks_too_often(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it sends waits in the kernel; and it is not closed."""
    asked(node, int(places.REQUESTS))
    monkeypatch.setattr(operator_server, "REST_SECONDS", 0.5)
    begun = monotonic()
    assert asked(node, 3) == {429: 3}
    assert monotonic() - begun >= 2 * 0.5


_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
