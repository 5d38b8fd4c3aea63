"""This VM's name: which one counts, when it is sure enough to approve, and what is said when it is not."""

import asyncio
from pathlib import Path

import pytest

from duenotice.agent.own_name import NAME_FILE, OwnName
from duenotice.client import AsyncMetadataClient
from tests.support.evil import Answer, EvilServer, json_answer, reply


def told(name: OwnName, answer: Answer) -> OwnName:
    """After the service has answered once."""

    async def scene(endpoint: str) -> None:
        asked = asyncio.Event()
        async with AsyncMetadataClient(endpoint, budget=0.0) as client:
            following = asyncio.ensure_future(name.follow(client, asked.set))
            await asyncio.wait_for(asked.wait(), 30)
            following.cancel()
            await asyncio.wait({following})

    with EvilServer(answer) as server:
        asyncio.run(scene(server.endpoint))
    return name


IS_WEB_0 = json_answer({"compute": {"name": "web-0"}})


@pytest.mark.parametrize(
    ("configured", "kept", "answer", "me", "is_sure", "problem"),
    [
        ("web-0", "", IS_WEB_0, "web-0", True, ""),
        ("web-1", "", IS_WEB_0, "web-1", True, "agent.toml calls this VM 'web-1'"),
        ("web-1", "", reply(404), "web-1", True, ""),
        ("", "", IS_WEB_0, "web-0", True, ""),
        ("", "", reply(404), "", False, "is not known"),
        ("", "web-0", reply(404), "web-0", False, "has not said that this VM is still 'web-0'"),
        ("", "web-9", IS_WEB_0, "web-0", True, ""),
        ("", "", json_answer({"compute": {"name": "a\nb"}}), "", False, "which is not a name"),
    ],
)
def test_the_name_to_go_by(
    configured: str, kept: str, answer: Answer, me: str, is_sure: bool, problem: str, tmp_path: Path
) -> None:
    """The configured one, then what the service says, then that of the last run, under which nothing is approved."""
    (tmp_path / NAME_FILE).write_text(kept)
    name = told(OwnName(configured, tmp_path, may_write=True), answer)
    found = name.problem()
    assert (name.me, name.is_sure) == (me, is_sure)
    assert problem in ("" if found is None else found.what) and bool(found) == bool(problem)


def test_a_name_is_kept_for_the_next_run(tmp_path: Path) -> None:
    """For the way back, when the service does not answer then; a dry run keeps nothing."""
    told(OwnName("", tmp_path, may_write=False), IS_WEB_0)
    assert OwnName("", tmp_path, may_write=False).me == ""
    told(OwnName("", tmp_path, may_write=True), IS_WEB_0)
    assert OwnName("", tmp_path, may_write=False).me == "web-0"


def test_a_name_is_asked_for_again_when_somebody_wants_that(tmp_path: Path) -> None:
    """A document without an event of ours may have one under a new name; in ten minutes it would be too late."""

    async def scene(endpoint: str) -> None:
        name, asked = OwnName("", tmp_path, may_write=True), asyncio.Queue[str]()
        async with AsyncMetadataClient(endpoint, budget=0.0) as client:
            following = asyncio.ensure_future(name.follow(client, lambda: asked.put_nowait(name.me)))
            assert await asyncio.wait_for(asked.get(), 30) == "web-0"
            name.look_again()
            assert await asyncio.wait_for(asked.get(), 30) == "web-1"
            following.cancel()
            await asyncio.wait({following})

    with EvilServer([IS_WEB_0, json_answer({"compute": {"name": "web-1"}})]) as server:
        asyncio.run(scene(server.endpoint))


def test_before_the_service_has_answered_nothing_is_wrong(tmp_path: Path) -> None:
    """An agent that has just started waits for the answer."""
    assert OwnName("", tmp_path, may_write=True).problem() is None
