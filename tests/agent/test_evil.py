"""The agent against an evil metadata service: no crash, no wrong action, and no growth."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from duenotice.wire.spans import format_rfc1123
from tests.agent.machine import Machine
from tests.client.test_evil_answers import BROKEN
from tests.client.test_evil_documents import BAD
from tests.support.evil import HANG, Answer, EvilServer, json_answer, reply

ID = "805C2F53-88EE-4045-95F8-788FD1634F66"
ODD = ("vm-0", "$(touch pwned)", "; touch pwned", "`touch pwned`", "a b", "'\"", "-rf")


def document(incarnation: int = 1, **changed: Any) -> dict[str, Any]:
    """A document with one event that hits vm-0."""
    event = {
        "EventId": ID,
        "EventStatus": "Scheduled",
        "EventType": "Reboot",
        "Resources": ["vm-0"],
        "NotBefore": format_rfc1123(datetime.now(UTC) + timedelta(minutes=15)),
    }
    return {"DocumentIncarnation": incarnation, "Events": [event | changed]}


NOTHING = {"DocumentIncarnation": 9, "Events": []}


def machine(server: EvilServer, folder: Path, policy: str = "never") -> Machine:
    return Machine(folder / "vm", server.endpoint, "127.0.0.1", policy, name="vm-0")


def resident_kb(agent: Machine) -> int:
    assert agent.process is not None
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{agent.process.pid}/status").read_text())
    assert found is not None
    return int(found[1])


def test_no_wrong_answer_ends_a_preparation(tmp_path: Path):
    """Every broken answer and every broken document, one after the other, while the machine is prepared (S14)."""
    wrong = [
        *BROKEN.values(),
        *map(json_answer, BAD.values()),
        *map(reply, (301, 302, 400, 404, 410, 418, 429, 500, 503)),
    ]
    assert len(wrong) >= 80
    with EvilServer(json_answer(document())) as server, machine(server, tmp_path) as agent:
        agent.start()
        agent.until(lambda: "prepared" in agent.whats)
        server.answers = wrong
        agent.until(lambda: server._used >= len(wrong))
        before = resident_kb(agent)
        server.answers = wrong
        agent.until(lambda: server._used >= len(wrong))
        assert agent.trace == ["prepare"] and agent.deaths == 0
        assert resident_kb(agent) - before < 2048
        assert {asked.method for asked in server.requests} == {"GET"}
        server.answers = json_answer(NOTHING)
        agent.until(lambda: agent.is_over(ID))
        assert agent.trace == ["prepare", "recover"]


def test_an_answer_that_never_ends_is_not_waited_for(tmp_path: Path):
    """Silence and bytes that drip: the preparation stands, and the next good answer counts (S14)."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n"
    dripping: Answer = [head, *(act for _ in range(60) for act in (b" ", 0.2))]
    with EvilServer(json_answer(document())) as server, machine(server, tmp_path) as agent:
        agent.start()
        agent.until(lambda: "prepared" in agent.whats)
        late: list[Answer] = [[HANG], dripping, [head, HANG]]
        server.answers = [*late, json_answer(NOTHING)]
        agent.until(lambda: server._used == 3)
        assert agent.trace == ["prepare"]
        agent.until(lambda: agent.is_over(ID))
        assert agent.trace == ["prepare", "recover"]


def has_prepared(agent: Machine, times: int) -> bool:
    return agent.whats.count("prepared") == times


def test_an_event_that_vanishes_and_returns_is_prepared_for_each_time(tmp_path: Path):
    """Put back when it is gone, prepared for when it is there again; never both at once."""
    with EvilServer(json_answer(document())) as server, machine(server, tmp_path) as agent:
        agent.start()
        for round_number in range(1, 4):
            server.answers = json_answer(document())
            agent.until(partial(has_prepared, agent, round_number))
            server.answers = json_answer(NOTHING)
            agent.until(lambda: agent.is_over(ID))
        assert agent.trace == ["prepare", "recover"] * 3


def test_an_event_whose_content_changes_is_prepared_for_anew(tmp_path: Path):
    """Other VMs, then another type: what a hook did for less counts no longer, and it is run again (S12)."""
    more: dict[str, Any] = {"Resources": ["vm-0", "vm-1"]}
    changes: tuple[dict[str, Any], ...] = ({}, more, more | {"EventType": "Redeploy"})
    with EvilServer(json_answer(document())) as server, machine(server, tmp_path) as agent:
        agent.start()
        for round_number, changed in enumerate(changes, 1):
            server.answers = json_answer(document(round_number, **changed))
            agent.until(partial(has_prepared, agent, round_number))
            assert agent.trace == ["prepare"] * round_number
        server.answers = json_answer(NOTHING)
        agent.until(lambda: agent.is_over(ID))
        assert agent.trace == ["prepare"] * 3 + ["recover"]


class Unwilling(EvilServer):
    """Shows documents, and cannot take an approval now."""

    def _next(self) -> Answer:
        return reply(503) if self.requests[-1].method == "POST" else super()._next()

    @property
    def posts(self) -> int:
        return sum(asked.method == "POST" for asked in self.requests)


def test_an_approval_ends_when_the_content_changes(tmp_path: Path):
    """It was for less: while the hook is still at work for more nothing is approved (S12)."""
    slow = 'case "$DUENOTICE_EVENT_RESOURCES" in *,*) sleep 60;; esac'
    with (
        Unwilling(json_answer(document())) as server,
        Machine(tmp_path / "vm", server.endpoint, "127.0.0.1", name="vm-0", drain=slow) as agent,
    ):
        agent.start()
        agent.until(lambda: server.posts > 2)
        server.answers = json_answer(document(2, Resources=["vm-0", "vm-1"]))
        agent.until(lambda: agent.whats.count("preparing") == 2)
        posts, asked = server.posts, len(server.requests)
        agent.until(lambda: len(server.requests) > asked + 20)
        assert server.posts <= posts + 1 and agent.trace == ["prepare"]


def test_names_are_data(tmp_path: Path):
    """What a shell would run is passed on as it is, and run by nobody."""
    with (
        EvilServer(
            json_answer(document(Resources=ODD, Description="$(touch pwned)\n`x`", EventType="; reboot"))
        ) as server,
        machine(server, tmp_path) as agent,
    ):
        agent.start()
        agent.until(lambda: "prepared" in agent.whats)
        assert agent.trace == ["prepare"] and not list(tmp_path.rglob("pwned")) and not Path("pwned").exists()


def test_an_approval_that_is_refused_is_tried_again_without_harm(tmp_path: Path):
    """The preparation stands, and is not repeated."""
    with EvilServer([json_answer(document()), reply(400)]) as server, machine(server, tmp_path, "own") as agent:
        agent.start()
        agent.until(lambda: sum(asked.method == "POST" for asked in server.requests) >= 2)
        assert agent.trace == ["prepare"] and "approved" not in agent.whats


def test_an_event_started_without_notice_is_left_alone(tmp_path: Path):
    """`NotBefore` is empty, and there is nothing to be done in no time."""
    shown = document(EventStatus="Started", NotBefore="")
    with EvilServer(json_answer(shown)) as server, machine(server, tmp_path, "own") as agent:
        agent.start()
        agent.until(lambda: agent.whats == ["seen", "unprepared"])
        asked = len(server.requests)
        agent.until(lambda: len(server.requests) > asked + 3)
        assert agent.trace == [] and {each.method for each in server.requests} == {"GET"}
