"""The agent's own port: readiness for load balancers, metrics, status; everything bounded."""

import asyncio
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from duenotice.agent import http_server
from duenotice.agent.config import read_config
from duenotice.agent.handlers.readiness import Options, Readiness, ReadinessState
from duenotice.agent.http_server import Request, Respond, serve
from duenotice.agent.ledger import Counters, MemoryLedger, Recorder
from duenotice.agent.peers import PeerState
from duenotice.agent.problems import KINDS
from duenotice.agent.runtime import Agent
from duenotice.agent.state import LedgerRecord, apply, revision_of
from duenotice.agent.status import AgentFacts, answers, events_json, metrics, state_of, tell
from duenotice.client import AsyncMetadataClient
from duenotice.errors import Misconfigured
from duenotice.http.fetch import HttpAnswer, fetch
from duenotice.wire.seen_documents import SeenDocument
from tests.unit.agent.build import ID, ME, NOW, event, events, record, seen, tracked

DRAINING = (
    f'[metadata]\nname = "{ME}"\n[[rules]]\nhandlers = ["a"]\n'
    '[handlers.a]\nkind = "command"\nprepare = ["/hooks/drain"]\n'
)
NOWHERE = "http://127.0.0.1:9"


def idle_agent(folder: Path, config: str = DRAINING, *records: LedgerRecord) -> Agent:
    """An agent that does not run; it only tells."""
    recorder = Recorder(MemoryLedger(events(*records)))
    return Agent(read_config(config), recorder, AsyncMetadataClient(NOWHERE), folder)


def port(switch: ReadinessState) -> Respond:
    return answers(switch, idle_agent(Path("/nowhere")))


def answer_of(respond: Respond, target: str) -> HttpAnswer:
    answer = respond(Request(target, {}))
    assert isinstance(answer, HttpAnswer)
    return answer


def test_readiness_follows_the_switch():
    """`/readyz` fails while drained and `/drainz` succeeds, so that either can be checked."""
    switch = ReadinessState()
    respond = port(switch)
    for drained, ready, drain in ((False, 200, 503), (True, 503, 200)):
        if drained:
            switch.drain("event E1")
        statuses = [answer_of(respond, target).status for target in ("/readyz", "/drainz?x=1")]
        assert statuses == [ready, drain]


def test_two_reasons_must_both_be_over():
    """The first event to end does not put the machine back."""
    switch = ReadinessState()
    switch.drain("E1")
    switch.drain("E2")
    switch.ready("E1")
    assert switch.is_drained
    switch.ready("E2")
    assert not switch.is_drained


@pytest.mark.parametrize(
    ("more", "handlers", "drained"),
    [
        ((), ["lb"], True),
        ((), [], True),
        ((record("returning", reason="gone"), record("recovered", "lb")), ["lb"], False),
    ],
    ids=["drained", "its handler is not configured any more", "put back"],
)
def test_an_agent_that_starts_again_answers_as_before(more, handlers: list[str], drained: bool):
    """The ledger says what was drained."""
    switch, known = (
        ReadinessState(),
        events(seen(), record("preparing", "lb"), record("note", "lb", key="drained", value=True)),
    )
    for each in more:
        apply(known, each)
    switch.go_on(known, {name: Readiness(name, Options()) for name in handlers})
    assert switch.reasons == ([f"lb {ID}"] if drained else [])


def test_an_unknown_page_says_which_there_are():
    """404, with the list."""
    answer = answer_of(port(ReadinessState()), "/")
    assert answer.status == 404 and "/readyz" in answer.body.decode()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /readyz HTTP/1.1\r\n\r\n", b"200"),
        (b"HEAD /readyz HTTP/1.0\r\nA: b\r\n\r\n", b"200"),
        (b"POST /readyz HTTP/1.1\r\n\r\n", b"405"),
        (b"what\r\n\r\n", b"400"),
        (b"\xff\xfe\r\n\r\n", b"400"),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", b""),
        (b"GET /readyz HT", b""),
    ],
)
def test_odd_requests_get_an_answer_or_nothing(sent: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch):
    """And never more than their connection."""
    monkeypatch.setattr(http_server, "SECONDS", 0.2)

    async def scene() -> bytes:
        server = await serve(("127.0.0.1", 0), port(ReadinessState()))
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            writer.write(sent)
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    answer = asyncio.run(scene())
    assert answer.startswith(b"HTTP/1.1 " + status) if status else answer == b""


def test_the_client_side_reads_what_the_server_side_writes():
    """Headers, status and body."""

    async def scene() -> HttpAnswer:
        server = await serve(("127.0.0.1", 0), port(ReadinessState()))
        async with server:
            return await fetch(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/status")

    answer = asyncio.run(scene())
    assert (answer.status, json.loads(answer.body)["vm"]) == (200, ME)


DONE = (seen(), record("preparing", "a"), record("prepared", "a"))
GONE = record("returning", reason="gone")


@pytest.mark.parametrize(
    ("records", "state"),
    [
        (DONE[:1], "seen"),
        (DONE[:2], "preparing"),
        (DONE, "prepared"),
        ((*DONE[:2], record("failed", "a")), "failed"),
        ((*DONE, record("approved")), "approved"),
        ((*DONE, seen(event("Started"))), "started"),
        ((*DONE, GONE), "recovering"),
        ((*DONE, GONE, record("stuck", "a", reason="x")), "stuck"),
        ((*DONE, GONE, record("recovered", "a")), "over"),
    ],
)
def test_an_event_in_one_word(records, state):
    """What `agent status` shows."""
    assert state_of(tracked(*records)) == state


def test_status_says_how_long_is_left():
    """While there is something left."""
    (row,) = events_json(events(*DONE), NOW)
    assert (row["seconds_left"], row["coming"], row["handlers"][0]["state"]) == (900, True, "prepared")
    (row,) = events_json(events(*DONE, seen(event("Started"))), NOW)
    assert (row["seconds_left"], row["coming"]) == (None, False)


@pytest.mark.parametrize(
    ("event_id", "resources", "ready"),
    [(ID, (ME,), True), (ID, (ME, "web-1"), False), ("another", (ME,), False)],
    ids=["what is prepared", "another content", "another event"],
)
def test_a_peer_hears_ready_only_for_the_content_that_is_prepared(
    event_id: str, resources: tuple[str, ...], ready: bool, tmp_path: Path
):
    """What it asks about may be older or newer than what we have read (H04)."""
    agent = idle_agent(tmp_path, DRAINING, *DONE)
    agent.document = SeenDocument(1, (event(),))
    assert tell(agent, event_id, revision_of(event(resources=resources))) == PeerState(ready, in_service=False)


def test_metrics_are_what_prometheus_reads():
    """Every line parses; drills are not counted."""
    counters = Counters()
    for each in (*DONE, record("approved"), record("prepared", "a", drill=True)):
        counters.count(each)
    facts = AgentFacts(events(*DONE), drained=True, heard_at=NOW, problems={"disk"})
    families = {each.name: each for each in text_string_to_metric_families(metrics(facts, counters, 2, NOW))}
    runs = {sample.labels["outcome"]: sample.value for sample in families["duenotice_agent_handler_runs"].samples}
    assert runs == {"prepared": 1.0}
    assert families["duenotice_agent_approvals"].samples[0].value == 1
    assert families["duenotice_agent_notice_left_seconds"].samples[0].value == 900
    assert families["duenotice_agent_drained"].samples[0].value == 1
    assert families["duenotice_agent_ledger_lost"].samples[0].value == 2
    problems = {sample.labels["kind"]: sample.value for sample in families["duenotice_agent_problem"].samples}
    assert problems == {kind: float(kind == "disk") for kind in KINDS}
    assert families["duenotice_agent_last_document_timestamp_seconds"].samples[0].value == pytest.approx(
        NOW.timestamp()
    )


def test_a_port_that_is_taken_is_named():
    """In one line, with what to do."""

    async def scene() -> None:
        server = await serve(("127.0.0.1", 0), port(ReadinessState()))
        async with server:
            await serve(server.sockets[0].getsockname()[:2], port(ReadinessState()))

    with pytest.raises(Misconfigured, match=r"Cannot listen on 127.0.0.1:.*in use"):
        asyncio.run(scene())
