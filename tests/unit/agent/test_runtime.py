"""When an approval that could not be delivered is sent again; what agents do as a whole is in `tests/agent`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from duenotice.agent.config import read_config
from duenotice.agent.ledger import MemoryLedger, Recorder
from duenotice.agent.planner import Approve, AskPeers, LookAgain, PeerAnswers, Prepare, Recover, Step, next_steps
from duenotice.agent.runtime import Agent
from duenotice.agent.state import LedgerRecord, revision_of
from duenotice.client import AsyncMetadataClient, MetadataError
from duenotice.errors import DuenoticeError
from duenotice.wire.seen_documents import SeenDocument, SeenEvent
from tests.unit.agent.build import ID, ME, append, event, events, record, seen

CONFIG = f'[metadata]\nname = "{ME}"\n[approval]\npolicy = "own"\n[[rules]]\nhandlers = ["drain"]\n'
HANDLER = '[handlers.drain]\nkind = "command"\nprepare = ["/hooks/drain"]\n'
WIDER = event(resources=(ME, "web-1"))
GONE = record("returning", reason="gone")


def ready(folder: Path, of: SeenEvent, client: AsyncMetadataClient | None = None) -> Agent:
    """An agent that has prepared for this event, and recorded it."""
    recorder = Recorder(
        MemoryLedger(events(seen(of), record("preparing", "drain", of), record("prepared", "drain", of)))
    )
    client = client or AsyncMetadataClient("http://127.0.0.1:9")
    agent = Agent(read_config(CONFIG + HANDLER), recorder, client, folder)
    agent.document = SeenDocument(1, (of,))
    return agent


@asynccontextmanager
async def client_of(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[AsyncMetadataClient]:
    """A client of a service that answers so."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, AsyncMetadataClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        yield client


def test_an_approval_is_sent_again_while_nothing_has_changed(tmp_path: Path) -> None:
    assert ready(tmp_path, event())._still_approves(ID)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param((), id="gone"),
        pytest.param((event("Started"),), id="started"),
        pytest.param((event(resources=("web-1", ME)),), id="another VM leads"),
        pytest.param((event(resources=(ME,)),), id="another content"),
        pytest.param((event(type="Redeploy", resources=WIDER.resources),), id="another type"),
    ],
)
def test_no_approval_is_sent_again_after_a_document_that_says_otherwise_and_is_not_recorded(
    events: tuple[SeenEvent, ...], tmp_path: Path
) -> None:
    """S12: a disk that cannot be written keeps the agent from recording what it has read."""
    agent = ready(tmp_path, WIDER)
    assert agent._still_approves(ID)
    agent.document = SeenDocument(2, events)
    assert not agent._still_approves(ID)


def test_no_approval_is_sent_again_by_a_vm_that_does_not_lead_any_more(tmp_path: Path) -> None:
    """H03: the same VMs in another order are the same content, so what was prepared still counts."""
    agent, turned = ready(tmp_path, WIDER), event(resources=("web-1", ME))
    agent.document = SeenDocument(2, (turned,))
    append(agent.recorder, seen(turned))
    assert not agent._still_approves(ID)


def test_an_answer_that_comes_after_the_start_it_has_caused_still_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What we approve may be seen as started first; the approval is recorded all the same (S12)."""
    monkeypatch.setattr("duenotice.agent.runtime.ON_ITS_WAY", 60.0)

    async def scene() -> str:
        asked, may_answer = asyncio.Event(), asyncio.Event()

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            asked.set()
            await may_answer.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        async with client_of(take) as client:
            agent = ready(tmp_path, event(), client)
            approving = asyncio.ensure_future(agent._approve(Approve(ID)))
            await asked.wait()
            await agent.recorder.append(seen(event("Started")))
            approving.cancel()
            await asyncio.sleep(0)
            may_answer.set()
            await asyncio.wait({approving})
            return agent.recorder.events[ID].approved

    assert asyncio.run(scene()) == revision_of(event())


@pytest.mark.parametrize(
    ("kind", "more", "withdrawn"),
    [
        (Prepare, (), False),
        (Approve, (), False),
        (Prepare, (GONE,), True),
        (Approve, (GONE,), True),
        (Recover, (GONE,), False),
        (Approve, (seen(event("Started")),), True),
        (Prepare, (seen(event("Started")),), False),
    ],
)
def test_what_is_under_way_for_an_event_that_is_gone_ends_but_for_the_way_back(
    kind: type[Step], more: tuple[LedgerRecord, ...], withdrawn: bool, tmp_path: Path
) -> None:
    """S12, S15."""
    agent = ready(tmp_path, event())
    append(agent.recorder, *more)
    assert agent._is_withdrawn((kind, ID, "drain")) is withdrawn


def test_a_drill_is_there_although_no_document_has_it(tmp_path: Path) -> None:
    """S14: work for an event that the last document does not have is not begun; a drill is in none."""
    agent, drill = ready(tmp_path, event()), event(event_id="DRILL-1")
    append(agent.recorder, seen(drill, drill=True))
    agent.document = SeenDocument(2, ())
    assert (agent._is_there("DRILL-1"), agent._is_there(ID)) == (True, False)


def test_the_answers_of_peers_count_for_one_approval_only(tmp_path: Path) -> None:
    """H04: when it could not be delivered, they are asked again, for by then one of them may not be ready any more."""
    key = tmp_path / "key"
    key.write_text("0123456789abcdef")
    key.chmod(0o600)
    peers = f'[approval.peers]\nkey_file = "{key}"\naddress = "http://{{vm}}"\n'
    config = read_config(CONFIG.replace('policy = "own"\n', f'policy = "all-ready"\n{peers}') + HANDLER)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def scene() -> list[Step]:
        async with client_of(refuse) as client:
            agent = ready(tmp_path, WIDER, client)
            agent.use(config)
            agent._peer_answers[ID] = PeerAnswers(revision_of(WIDER), frozenset({"web-1"}))
            assert next_steps(agent.recorder.events, agent.world()) == [Approve(ID)]
            with pytest.raises(MetadataError):
                await agent._approve(Approve(ID))
            return next_steps(agent.recorder.events, agent.world())

    assert asyncio.run(scene()) == [AskPeers(ID, ("web-1",), ())]


def test_no_approval_is_sent_again_when_the_agent_is_told_to_approve_nothing(tmp_path: Path) -> None:
    agent = ready(tmp_path, event())
    agent.use(read_config(CONFIG.replace("own", "never") + HANDLER))
    assert not agent._still_approves(ID)


def test_a_look_at_what_is_prepared_that_does_not_work_is_said_until_one_does(tmp_path: Path) -> None:
    """Nobody knows meanwhile whether all is still prepared (S32)."""
    agent, said = ready(tmp_path, event()), "whether drain is still prepared is not known: /bin/sh exited with 75"
    for code, is_said in ((75, True), (0, False), (75, True)):
        agent.use(read_config(f'{CONFIG}{HANDLER}prepared = ["/bin/sh", "-c", "exit {code}"]'))
        with suppress(DuenoticeError):
            asyncio.run(agent._look_again(LookAgain(ID, "drain")))
        assert any(said in problem.what for problem in agent.problems()) is is_said
    agent.use(read_config(CONFIG + HANDLER))  # it looks no longer
    assert not any(problem.kind == "failed" for problem in agent.problems())
    agent.use(read_config(f'{CONFIG}{HANDLER}prepared = ["/bin/true"]'))
    append(agent.recorder, GONE)
    assert not any(problem.kind == "failed" for problem in agent.problems())
