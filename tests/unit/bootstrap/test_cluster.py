"""How a node finds out that it is one of several, and where the others reach it."""

import asyncio
import socket
import time

import pytest
from structlog.testing import capture_logs

from duenotice.bootstrap.cluster import (
    prepared,
    refuse_if_alone,
    refuse_if_in_use,
    store_of,
    url_of,
    warn_of_clock,
)
from duenotice.clock import boot_micros
from duenotice.engine.members import Member, Sight
from duenotice.errors import Conflict, Misconfigured
from duenotice.settings import ServeSettings
from duenotice.store.memory import MemoryMembers
from tests.unit.engine.cluster_rig import three
from tests.unit.engine.rig import in_loop


@pytest.mark.parametrize(
    ("host", "node_url", "told"),
    [
        ("127.0.0.1", "", "http://127.0.0.1:{port}"),
        ("0.0.0.0", "", "http://{name}:{port}"),
        ("127.0.0.1", "https://node-a.example/", "https://node-a.example"),
    ],
)
def test_other_nodes_reach_a_node_where_it_listens_or_where_it_says(host: str, node_url: str, told: str) -> None:
    with socket.socket() as listening:
        listening.bind((host, 0))
        port = listening.getsockname()[1]
        assert url_of(ServeSettings(node_url=node_url), listening) == told.format(port=port, name=socket.gethostname())


def test_a_node_with_a_certificate_is_asked_over_tls() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        assert url_of(ServeSettings(operator_cert_file="node.pem"), listening).startswith("https://127.0.0.1:")


@pytest.mark.parametrize(
    ("url", "why"), [("", "it has no operator port"), ("http://{other}", "say that they are both at http://")]
)
@in_loop
async def test_a_node_that_others_cannot_ask_does_not_start(url: str, why: str) -> None:
    """It could lead, and then nothing could be changed at the other nodes."""
    began = []

    async def prepare() -> None:
        began.append(True)

    async with three() as cluster:
        seat, other = cluster.nodes[0].engine.seat, cluster.nodes[1].name
        await prepared(cluster.nodes[0].engine, prepare)
        seat.identity = seat.identity._replace(url=url.format(other=other))
        with pytest.raises(Misconfigured, match=why):
            await prepared(cluster.nodes[0].engine, prepare)
    assert began == [True]


A = Member("life-a", "a", "http://a", "1")


def test_a_leader_that_cannot_be_reached_is_alone() -> None:
    """Why that is, and what to set, stands in the error."""
    refuse_if_alone(A)
    told = "which is alone: it has no operator port, or its clock is manual"
    with pytest.raises(Conflict, match=told) as refused:
        refuse_if_alone(A._replace(url=""))
    assert "operator_listen" in refused.value.hint


def test_a_file_is_for_one_node() -> None:
    """So nothing is opened here."""
    assert store_of(ServeSettings(), None, "a") is None


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (3600.4, ["the clock of this machine is 1h ahead of the database's"]),
        (-3600.4, ["the clock of this machine is 1h behind the database's"]),
        (9.0, []),
        (-9.0, []),
    ],
)
def test_clocks_that_differ_are_told_at_start(ahead: float, told: list[str]) -> None:
    """Which one is wrong nobody knows, but somebody has to look."""
    with capture_logs() as lines:
        warn_of_clock(ahead)
    assert [line["event"] for line in lines] == told
    assert all("NTP" in line["hint"] for line in lines)


@in_loop
async def test_a_name_is_in_use_only_while_its_process_beats() -> None:
    """One that stands still is put out by the new process instead (N03)."""
    store = MemoryMembers()
    store.register("life-a", "a", "http://a", "1")
    store.join("life-a", 0)
    refuse_if_in_use(store, "b", "", 0.1)
    refuse_if_in_use(store, "a", "", 0.1)
    beats = asyncio.create_task(_beat(store, "life-a"))
    with pytest.raises(Conflict, match="is the node 'a' already, at http://a"):
        await asyncio.to_thread(refuse_if_in_use, store, "a", "", 4.0)
    refuse_if_in_use(store, "a", "life-a", 4.0)
    beats.cancel()


def test_a_silence_begins_after_the_first_look() -> None:
    """What a node has beaten until then lets it answer from then on (N04, N05)."""

    class SlowMembers(MemoryMembers):
        looked_at = 0

        def look(self) -> Sight:
            time.sleep(0.01)
            seen = super().look()
            self.looked_at = self.looked_at or boot_micros()
            return seen

    store = SlowMembers()
    store.register("life-a", "a", "http://a", "1")
    store.join("life-a", 0)
    seen = refuse_if_in_use(store, "a", "", 0.1)["life-a"]
    assert seen.since >= store.looked_at
    assert seen.beat == 0


@in_loop
async def test_beside_a_node_that_has_to_be_alone_no_other_one_starts() -> None:
    """Neither the later one nor the one that was there may be alone; one that only is listed stops nobody."""
    store = MemoryMembers()
    store.register("life-a", "a", "", "1")
    store.join("life-a", 0)
    assert set(refuse_if_in_use(store, "b", "", 0.1)) == {"life-a"}
    beats = asyncio.create_task(_beat(store, "life-a"))
    with pytest.raises(Conflict, match=r"in use by the node 'a'.*, which is alone"):
        await asyncio.to_thread(refuse_if_in_use, store, "b", "", 4.0)
    beats.cancel()
    store.register("life-b", "a", "http://a", "1")
    store.join("life-b", 0)
    assert refuse_if_in_use(store, "b", "", 4.0) == {}
    beats = asyncio.create_task(_beat(store, "life-b"))
    with pytest.raises(Conflict, match=r"in use by the node 'a' \(duenotice 1\)\. We are alone\.") as caught:
        await asyncio.to_thread(refuse_if_in_use, store, "b", "", 4.0, "We are alone.")
    assert "database of its own" in caught.value.hint
    beats.cancel()


async def _beat(store: MemoryMembers, life: str) -> None:
    while True:
        store.beat(life, 0, {})
        await asyncio.sleep(0.01)
