"""Section H as far as the client goes: both clients, over real HTTP, against the real service."""

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest

from duenotice import MetadataClient, MetadataError
from duenotice import client as client_package
from duenotice.client import BadAnswer, Rejected, Throttled, TimedOut, Unreachable
from duenotice.client import watch as watch_module
from duenotice.client.endpoint import Address
from duenotice.client.protocol import EVENT_VERSIONS, MetadataFlows
from duenotice.errors import Misconfigured, Refused
from duenotice.http.flow import Emit
from duenotice.http.transport import Runner, SocketPool
from duenotice.wire.seen_documents import SeenEvent, event_to_json
from tests.acceptance.conftest import DEMO
from tests.support.clients import Client, Connect
from tests.support.evil import Answer, EvilServer, reply
from tests.support.node import Node

DOCS = Path(__file__).parents[2] / "docs" / "client.md"


def vm(connect: Connect, node: Node, name: str, **more: object) -> Client:
    """A client on a VM of the fleet."""
    endpoint = "http://{}:{}".format(*node.metadata_address)
    return connect(endpoint, source_address=node.address(name), **more)


def test_H01_query_filter_and_approve_each_outstanding_event(connect: Connect, node: Node):
    """A VM learns its name, reads the document, picks what hits it, and approves each of these; no other starts."""
    client = vm(connect, node, "web-1")
    client.document()
    mine = {node.schedule("Reboot", "web-1"), node.schedule("Freeze", "web-1")}
    neighbours = node.schedule("Reboot", "web-2")
    document = client.document()
    hits = [event for event in document.events if event.hits(client.instance_name())]
    assert {event.event_id for event in hits} == mine
    assert len(document.events) == 3
    client.approve(*hits)
    after = {event.event_id: event.started for event in client.document().events}
    assert after == dict.fromkeys(mine, True) | {neighbours: False}


@pytest.mark.parametrize("version", EVENT_VERSIONS)
def test_H01_every_api_version_is_read_as_what_it_shows(connect: Connect, node: Node, version: str):
    """From 2017-03-01 on: names without the preview's underscore, either date, defaults for what is not shown."""
    node.enable("web-0")
    node.schedule("Freeze", "web-0", duration=9)
    started = node.schedule("Reboot", "web-0")
    node.approve("web-0", started)
    newest = vm(connect, node, "web-0").document()
    seen = vm(connect, node, "web-0", api_version=version).document()
    assert seen.incarnation == newest.incarnation
    assert len(seen.events) == 2
    assert [limited(event, version) for event in newest.events] == list(seen.events)


def limited(event: SeenEvent, version: str) -> SeenEvent:
    """An event with the defaults for what a version does not show (B09)."""
    return SeenEvent(
        event.event_id,
        event.status,
        event.type,
        event.resources,
        event.not_before,
        event.description if version >= "2019-04-01" else "",
        event.source if version >= "2019-08-01" else "Platform",
        event.duration if version >= "2020-07-01" else -1,
    )


@pytest.mark.parametrize(("vm_name", "event_type"), [("render-0", "Preempt"), ("workers_0", "Terminate")])
@pytest.mark.parametrize("version", EVENT_VERSIONS)
def test_H01_types_are_told_only_in_versions_that_have_them(
    connect: Connect, node: Node, vm_name: str, event_type: str, version: str
):
    """Preempt from 2017-11-01, Terminate from 2019-01-01 (B10)."""
    node.enable(vm_name)
    node.operate(f"/v1/vms/{vm_name}/{'evict' if event_type == 'Preempt' else 'delete'}")
    seen = vm(connect, node, vm_name, api_version=version).document()
    since = {"Preempt": "2017-11-01", "Terminate": "2019-01-01"}[event_type]
    assert [event.type for event in seen.events] == ([event_type] if version >= since else [])


def test_H01_event_written_again_is_what_the_service_wrote(connect: Connect, node: Node):
    """What hooks and peers are given is the event as the document shows it, key by key."""
    node.enable("web-0")
    node.schedule("Reboot", "web-0")
    (seen,) = vm(connect, node, "web-0").document().events
    assert event_to_json(seen) == node.event("web-0")


def test_H01_watch_shows_the_first_document_and_every_change(connect: Connect, node: Node):
    """Scheduled, started, gone: each comes once, and approving goes on beside the watch."""
    client = vm(connect, node, "db-0")
    documents = client.watch()
    assert next(documents).events == ()
    node.schedule("Reboot", "db-0")
    (event,) = next(documents).events
    client.approve(event)
    assert [each.started for each in next(documents).events] == [True]
    node.advance("1h")
    assert next(documents).events == ()


def test_H01_watch_waits_where_the_service_does(node: Node, monkeypatch: pytest.MonkeyPatch):
    """A wait that ran its time is the proof; from then on news comes at once and nothing is asked in between."""
    monkeypatch.setattr(watch_module, "WAIT_SECONDS", 1)
    address = Address(*node.metadata_address)
    watch = watch_module.Watch(MetadataFlows())
    pool = SocketPool(address, address.header, (node.address("me"), 0))
    runner, flow = Runner(pool), watch.run()
    assert isinstance(runner.run(flow), Emit)
    timer = threading.Timer(3.5, node.schedule, ("Reboot", "me"))
    timer.start()
    emitted = runner.run(flow)
    pool.close()
    timer.join()
    assert isinstance(emitted, Emit)
    assert emitted.value.events
    assert watch.waits


def test_H03_first_of_the_resources_leads(connect: Connect, node: Node):
    """Of two VMs hit by one event exactly one is its leader, in every api-version."""
    node.enable("FrontEnd_IN_0")
    node.schedule("Reboot", "FrontEnd_IN_0", "BackEnd_IN_0")
    for version in EVENT_VERSIONS:
        leaders = []
        for name in ("FrontEnd_IN_0", "BackEnd_IN_0"):
            client = vm(connect, node, name, api_version=version)
            leaders += [event.leader == client.instance_name() for event in client.document().events]
        assert sorted(leaders) == [False, True]


def test_H06_empty_first_answer_is_no_document(connect: Connect):
    """F01: a scope's first answer may be an empty 200. One try is an error, a second one the document."""
    for budget, fails in ((0, True), (10, False)):
        with Node(DEMO, first_answer_empty=True) as node:
            node_client = vm(connect, node, "me", budget=budget)
            if fails:
                with pytest.raises(BadAnswer):
                    node_client.document()
            assert node_client.document().incarnation == 0


def test_H06_unknown_vm_is_an_error_that_names_it(connect: Connect, node: Node):
    """A09: not "no events"."""
    with pytest.raises(Rejected, match=r"No VM is registered with the address 127\.9\.9\.9") as caught:
        vm(connect, node, "127.9.9.9").document()
    assert caught.value.status == 404


def test_H06_throttled_client_comes_back_when_it_was_told_to(connect: Connect):
    """A08: the 429 says after how long; within the budget the client does so by itself."""
    with Node(DEMO, throttle=1.0) as node:
        with pytest.raises(Throttled) as caught:
            for _ in range(3):
                vm(connect, node, "me", budget=0).document()
        assert caught.value.retry_after == 1
        assert vm(connect, node, "me").document().incarnation == 0


def test_H06_service_that_is_gone_is_unreachable_and_watched_until_it_is_back(connect: Connect):
    """Errors are passed to `on_error`, and the next document is the first of the service that came back."""
    errors: list[Exception] = []
    with Node(DEMO) as first:
        client = vm(connect, first, "me", budget=0.2)
        documents = client.watch(errors.append)
        next(documents)
    with pytest.raises(Unreachable):
        until_it_fails(client)
    with Node(DEMO, metadata_listen="{}:{}".format(*first.metadata_address)) as second:
        second.enable("me")
        second.schedule("Reboot", "me")
        assert len(next(documents).events) == 1
    assert {type(error) for error in errors} <= {Unreachable, TimedOut, Rejected}


def until_it_fails(client: Client) -> None:
    """The node closes its doors in the background."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(TimedOut):  # a fifth of a second is little on a busy machine
            client.document()


def test_H06_refused_approval_is_an_error_and_changes_nothing(connect: Connect, node: Node):
    """C03: an unknown id beside a good one."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    client = vm(connect, node, "me")
    with pytest.raises(Rejected):
        client.approve(event_id, "F020BA2E-3BC0-4C40-A10B-86575A9EABD5")
    assert node.statuses("me") == ["Scheduled"]


def test_H06_approving_twice_is_approving(connect: Connect, node: Node):
    """C02, S17: so a client may try an unclear approval again."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    client = vm(connect, node, "me")
    for _ in range(2):
        client.approve(event_id)
    assert node.statuses("me") == ["Started"]


def test_H07_late_answer_is_given_up_in_time_and_had_at_the_next_try(connect: Connect):
    """F01: the first answer may take minutes; the client's own deadline holds, and trying again gets the document."""
    with Node(DEMO, first_answer_delay=60.0) as node:
        begun = time.monotonic()
        with pytest.raises(TimedOut):
            vm(connect, node, "me", timeout=0.3, budget=0).document()
        assert time.monotonic() - begun < 2
        assert vm(connect, node, "me").document().incarnation == 0


def test_H01_every_newer_client_still_knows_an_older_service(connect: Connect):
    """A04: a service that answers 404 to newer versions and one that answers 400 are asked in a version they have."""
    for newer_400 in (True, False):
        with Node(DEMO, newer_versions_400=newer_400) as node:
            assert vm(connect, node, "me").document().incarnation == 0


def test_H01_unknown_api_version_is_refused_before_anything_is_sent(connect: Connect):
    """It names those that are known."""
    with pytest.raises(Misconfigured, match="'2016-01-01' is unknown") as caught:
        connect(api_version="2016-01-01")
    assert "2020-07-01" in caught.value.hint


@pytest.mark.parametrize("spot_rebalance", [True, False])
def test_H01_a_spot_vm_reads_advice_where_the_service_gives_it(connect: Connect, spot_rebalance: bool):
    """Asked for advice, the client reads 2024-07-09; a service that does not have it is read in the usual version."""
    with Node(DEMO, spot_rebalance=spot_rebalance) as node:
        client = vm(connect, node, "render-0", advice=True)
        client.document()
        kind = "SpotRebalanceRecommendation" if spot_rebalance else "Preempt"
        node.schedule(kind, "render-0")
        assert [event.type for event in client.document().events] == [kind]


def test_H04_advice_is_not_approved_with_the_rest(connect: Connect):
    """Of all its events a client approves those that have a deadline; advice alone is nothing to approve."""
    with Node(DEMO, spot_rebalance=True) as node:
        client = vm(connect, node, "render-0", advice=True)
        client.document()
        node.schedule("SpotRebalanceRecommendation", "render-0")
        (advice,) = client.document().events
        with pytest.raises(Refused, match="nothing to approve") as caught:
            client.approve(advice)
        assert caught.value.hint == "Advice needs no approval."
        node.schedule("Reboot", "render-0")
        client.approve(*client.document().events)
        assert [event.started for event in client.document().events] == [False, True]


PAGES: dict[str, Answer] = {
    "sign-in page": reply(200, b"<html>Please sign in</html>", "Content-Type: text/html"),
    "302": reply(302, b"", "Location: http://192.0.2.1/sign-in"),
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"],
}


@pytest.mark.parametrize("page", PAGES)
def test_H08_an_approval_answered_by_somebody_else_is_an_error(connect: Connect, page: str):
    """A sign-in page, a redirect and an HTTP/1.0 proxy do not approve: the caller gets an error, never success."""
    with EvilServer(PAGES[page]) as server:
        client = connect(server.endpoint, budget=0)
        with pytest.raises(BadAnswer):
            client.approve("F020BA2E-3BC0-4C40-A10B-86575A9EABD5")


def test_H01_nothing_to_approve_is_refused_before_anything_is_sent(connect: Connect, node: Node):
    """An approval of nothing is a mistake."""
    with pytest.raises(Refused, match="nothing to approve"):
        vm(connect, node, "me").approve()


def test_H01_many_threads_share_a_client(node: Node):
    """Each call has a connection to itself; a watch holds up nobody."""
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    endpoint = "http://{}:{}".format(*node.metadata_address)
    seen: list[str] = []
    with MetadataClient(endpoint) as client:
        watches = client.watch()
        next(watches)
        threads = [
            threading.Thread(target=lambda: seen.extend(e.event_id for e in client.document().events))
            for _ in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.approve(event_id)
        assert [event.started for document in islice(watches, 1) for event in document.events] == [True]
    assert seen == [event_id] * 20


def test_H01_session_of_the_docs_is_told_and_approves(node: Node, tmp_path: Path):
    """The first program of docs/client.md, as it stands there."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (tmp_path / "session.py").write_text(blocks[0])
    node.enable("me")
    event_id = node.schedule("Reboot", "me")
    settings = {"DUENOTICE_METADATA_ENDPOINT": "http://{}:{}".format(*node.metadata_address)}
    command = [sys.executable, str(tmp_path / "session.py")]
    with subprocess.Popen(command, env=os.environ | settings, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout
        assert session.stdout.readline().startswith("Reboot, not before 20")
        deadline = time.monotonic() + 30
        while node.statuses("me") != ["Started"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        session.kill()
    assert node.event("me")["EventId"] == event_id


def test_H07_a_client_knows_what_time_it_is_at_the_service(connect: Connect, node: Node):
    """So that it can be told when the clocks do not agree; before the first answer nobody knows."""
    client = vm(connect, node, "web-0")
    before, _, after = client.service_time, client.document(), client.service_time
    assert before is None and after is not None
    assert abs((datetime.now(UTC) - after).total_seconds()) < 60


def test_H06_errors_of_the_docs_are_those_of_the_client():
    """The table in docs/client.md leaves none out and invents none."""
    _, _, errors = DOCS.read_text().partition("## Errors")
    told = set(re.findall(r"^\| `([A-Z][A-Za-z]+)` \|", errors, re.MULTILINE))
    kinds = {name for name in client_package.__all__ if issubclass(getattr(client_package, name), MetadataError)}
    assert told == kinds - {"MetadataError"}
