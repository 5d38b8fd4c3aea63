"""When an approval that could not be delivered is sent again; what agents do as a whole is in `tests/agent`."""

from pathlib import Path

import pytest

from duenotice.agent.agent import Agent
from duenotice.agent.config import read_config
from duenotice.agent.recorder import Pretended, Recorder
from duenotice.client import AsyncMetadataClient
from duenotice.wire.seen_document import SeenDocument, SeenEvent
from tests.unit.agent.build import ID, ME, cases, event, record, seen

CONFIG = f'[metadata]\nname = "{ME}"\n[approval]\npolicy = "own"\n[[rules]]\nhandlers = ["drain"]\n'
HANDLER = '[handlers.drain]\nkind = "command"\nprepare = ["/hooks/drain"]\n'
WIDER = event(resources=(ME, "web-1"))


def ready(folder: Path, of: SeenEvent) -> Agent:
    """An agent that has prepared for this event, and recorded it."""
    recorder = Recorder(Pretended(cases(seen(of), record("preparing", "drain", of), record("prepared", "drain", of))))
    client = AsyncMetadataClient("http://127.0.0.1:9")
    agent = Agent(read_config(CONFIG + HANDLER), recorder, client, folder)
    agent.document = SeenDocument(1, (of,))
    return agent


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
    agent.recorder.append(seen(turned))
    assert not agent._still_approves(ID)


def test_no_approval_is_sent_again_when_the_agent_is_told_to_approve_nothing(tmp_path: Path) -> None:
    agent = ready(tmp_path, event())
    agent.use(read_config(CONFIG.replace("own", "never") + HANDLER))
    assert not agent._still_approves(ID)
