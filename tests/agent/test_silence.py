"""What the agent says when something is wrong: in its log, its status, its exit code and its metrics (S32).

Each fault really happens: bytes of files are changed, a disk is full, a directory is replaced, a port is taken.
"""

import http.client
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from duenotice.agent.ledger import NAME
from duenotice.wire.spans import format_rfc1123
from tests.agent.machine import Machine
from tests.programs import skip_unless_ci
from tests.support.cli import Done, duenotice
from tests.support.evil import Answer, EvilServer, json_answer, reply

ID = "805C2F53-88EE-4045-95F8-788FD1634F66"
NOTHING = json_answer({"DocumentIncarnation": 1, "Events": []})
STATUS = '[status]\nlisten = "127.0.0.1:{port}"\n'


def shown(minutes: float = 15.0, *headers: str, **changed: Any) -> Answer:
    """A document with one event that hits vm-0."""
    not_before = format_rfc1123(datetime.now(UTC) + timedelta(minutes=minutes))
    event = {"EventId": ID, "EventStatus": "Scheduled", "EventType": "Reboot", "Resources": ["vm-0"]}
    document = {"DocumentIncarnation": 2, "Events": [event | {"NotBefore": not_before} | changed]}
    return json_answer(document, *headers)


class Service(EvilServer):
    """Shows documents; what it says of the VM itself is another matter."""

    def __init__(self, document: Answer, instance: Answer | None = None) -> None:
        super().__init__(document)
        self.instance = instance or json_answer({"compute": {"name": "vm-0"}})

    def _next(self) -> Answer:
        asked = self.requests[-1]
        if "/instance" in asked.target:
            return self.instance
        return reply(200) if asked.method == "POST" else super()._next()

    @property
    def approvals(self) -> int:
        return sum(asked.method == "POST" for asked in self.requests)


def machine(service: EvilServer, folder: Path, name: str = "vm-0", more: str = "", drain: str = "") -> Machine:
    return Machine(folder / "vm", service.endpoint, "127.0.0.1", more=more, drain=drain, name=name)


def command(agent: Machine, verb: str, *arguments: str) -> Done:
    config = () if verb in ("retry", "skip") else ("--config", str(agent.folder / "agent.toml"))
    return duenotice(None, "agent", verb, *config, "--state-dir", str(agent.state), *arguments)


def problems(agent: Machine) -> dict[str, str]:
    """Each kind of problem that `agent status` names, with its words."""
    done = command(agent, "status", "-o", "json")
    said = json.loads(done.out)
    found = {each["kind"]: each["what"] for each in said["problems"]}
    assert done.code == (3 if not said["running"] else 1 if found else 0), done
    return found if said["running"] else {"silent": "it does not run yet"}


def is_named(agent: Machine, kind: str, words: str) -> bool:
    """Whether status, its exit code and the log tell of this problem."""
    said = [json.loads(line) for line in agent.log.splitlines()]
    in_log = any(line["action"] == "problem" and line["kind"] == kind for line in said)
    return words in problems(agent).get(kind, "") and in_log


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number: int = probe.getsockname()[1]
    return number


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def metric(port: int, kind: str) -> bool:
    return f'duenotice_agent_problem{{kind="{kind}"}} 1' in get(port, "/metrics")[1]


@pytest.mark.parametrize("kept", [b"vm-\xff", b"", b"vm-0\n\0", b"\xf0" * 5000], ids=["byte", "empty", "NUL", "long"])
def test_an_odd_byte_in_the_file_of_the_name_stops_nothing(kept: bytes, tmp_path: Path) -> None:
    """The service is asked, the event is prepared for and approved, and the file is as it should be again."""
    with Service(shown()) as service, machine(service, tmp_path, name="") as agent:
        agent.state.mkdir(mode=0o700)
        (agent.state / "vm-name").write_bytes(kept)
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        assert "name-unreadable" in agent.log and problems(agent) == {}
        agent.until(lambda: (agent.state / "vm-name").read_bytes() == b"vm-0")


@pytest.mark.parametrize(
    "instance",
    [reply(429), reply(404), json_answer(b'{"compute": {"name": "vm-\\ud800"}}'), json_answer([1]), json_answer({})],
    ids=["429", "404", "half a character", "a list", "no name"],
)
def test_an_odd_answer_about_the_vm_does_not_stop_polls_of_events(instance: Answer, tmp_path: Path, port: int) -> None:
    """The event is prepared for under the last known name; it is approved when the service has confirmed the name."""
    more = STATUS.format(port=port)
    with Service(shown(), instance) as service, machine(service, tmp_path, "", more) as agent:
        agent.state.mkdir(mode=0o700)
        (agent.state / "vm-name").write_text("vm-0")
        agent.start()
        agent.until(lambda: "prepared" in agent.whats and metric(port, "name"))
        agent.until(lambda: is_named(agent, "name", "has not said that this VM is still 'vm-0'"))
        assert service.approvals == 0 and get(port, "/livez")[0] == 200
        service.instance = json_answer({"compute": {"name": "vm-0"}})
        agent.until(lambda: "approved" in agent.whats)
        assert problems(agent) == {} and not metric(port, "name")


def test_a_vm_without_a_name_says_that_it_does_not_know_which_events_hit_it(tmp_path: Path) -> None:
    """It goes on asking, and nothing is taken for "no events" meanwhile (S14)."""
    with Service(shown(), reply(429)) as service, machine(service, tmp_path, name="") as agent:
        agent.start()
        agent.until(lambda: is_named(agent, "name", "it is not known which events hit it"))
        assert "It is not known whether an event is coming." in command(agent, "status").err and agent.trace == []
        service.instance = json_answer({"compute": {"name": "vm-0"}})
        agent.until(lambda: "approved" in agent.whats)


def test_a_vm_that_gets_another_name_prepares_for_the_events_of_that_name(tmp_path: Path) -> None:
    """A document without an event of its own may have one under its new name: it asks then, not after ten minutes."""
    with Service(NOTHING) as service, machine(service, tmp_path, name="") as agent:
        agent.start()
        agent.until(lambda: '"name-learned"' in agent.log)
        service.instance = json_answer({"compute": {"name": "vm-9"}})
        service.answers = shown(Resources=["vm-9"])
        agent.until(lambda: "approved" in agent.whats)
        assert problems(agent) == {}


def test_systemd_shows_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`systemctl status` of an agent that is ready and cannot work is not just green."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
        Service(NOTHING, reply(429)) as service,
        machine(service, tmp_path, name="") as agent,
    ):
        notified.bind(str(agent.folder / "notify"))
        notified.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(agent.folder / "notify"))
        agent.start()
        while not (said := notified.recv(1000)).startswith(b"STATUS=This VM's name is not known"):
            assert said.startswith((b"READY", b"WATCHDOG"))
        service.instance = json_answer({"compute": {"name": "vm-0"}})
        while notified.recv(1000) != b"STATUS=Nothing is wrong.":
            pass


def test_a_name_that_the_service_does_not_have_is_said(tmp_path: Path) -> None:
    """Its events would be ignored for ever."""
    with Service(NOTHING) as service, machine(service, tmp_path, "web-0") as agent:
        agent.start()
        agent.until(lambda: is_named(agent, "name", "'web-0', but the service calls it 'vm-0'"))


def test_a_clock_that_differs_is_said(tmp_path: Path, port: int) -> None:
    """The notice left is reckoned on this machine's clock."""
    date = f"Date: {format_rfc1123(datetime.now(UTC) + timedelta(seconds=90))}"
    with (
        Service(json_answer({"DocumentIncarnation": 1, "Events": []}, date)) as service,
        machine(service, tmp_path, more=STATUS.format(port=port)) as agent,
    ):
        service.instance = json_answer({"compute": {"name": "vm-0"}}, date)
        agent.start()
        agent.until(lambda: is_named(agent, "clock", "behind the service"))
        assert metric(port, "clock")


@contextmanager
def little_disk(folder: Path) -> Iterator[None]:
    folder.mkdir(mode=0o700)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], capture_output=True).returncode:
        skip_unless_ci("needs the right to mount a disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.machine
def test_a_full_disk_does_not_hide_an_event(tmp_path: Path, port: int) -> None:
    """It says which event is coming and that nothing can be recorded; with room again all is done."""
    with (
        Service(NOTHING) as service,
        machine(service, tmp_path, more=STATUS.format(port=port)) as agent,
        little_disk(agent.state),
    ):
        agent.start()
        agent.until(lambda: get(port, "/status")[0] == 200 and json.loads(get(port, "/status")[1])["heard"])
        filler = agent.state / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(512))
        agent.until(lambda: is_named(agent, "disk", "Only 0 KiB are left") and metric(port, "disk"))
        service.answers = shown(Description="x" * 5000)  # more than the rest of a block that the ledger has already
        agent.until(lambda: is_named(agent, "disk", "Nothing is done about Reboot 805C2F53"))
        done = command(agent, "status", "-o", "json")
        (row,) = json.loads(done.out)["events"]
        assert (done.code, row["event_id"], row["state"], row["coming"]) == (1, ID, "unrecorded", True)
        table = command(agent, "status")
        assert "unrecorded" in table.out and "No space left on device" in table.err and table.code == 1
        assert 'duenotice_agent_events{state="unrecorded"} 1' in get(port, "/metrics")[1] and metric(port, "disk")
        assert agent.trace == [] and service.approvals == 0
        agent.kill()  # it also starts on a full disk, and says the same
        agent.start()
        agent.until(lambda: is_named(agent, "disk", "Nothing is done about Reboot 805C2F53"))
        filler.unlink()
        agent.until(lambda: "approved" in agent.whats)
        agent.until(lambda: problems(agent) == {})
        assert agent.trace == ["prepare"] and agent.deaths == 0


DRILL = '{"event_id":"DRILL-1","type":"Reboot","not_before":%s,"lasts":%s}'
ODD_FILES = {
    "drill.json": [
        DRILL % ('"9999-12-31T23:59:59Z"', "5"),
        DRILL % ('"9999-12-31T23:59:59-12:00"', "1e300"),
        DRILL % ('"2026-11-15T12:00:00"', "5"),
        DRILL % ('"2026-11-15T12:00:00Z"', "-1"),
        (DRILL % ('"2026-11-15T12:00:00Z"', "5")).replace("DRILL-1", ID),
        (DRILL % ('"2026-11-15T12:00:00Z"', "5")).replace("Reboot", "\\u0000"),
        "null",
        "[]",
        "{",
        "\x00",
    ],
    "drained.json": ["null", "{", "[[]]", "\x00"],
    "vm-name": ["null", "\x00"],
    f"{NAME}.new": ["", "{", "\x00"],
    "agent.sock": ["", "null"],
    "run-0123456789abcdef": ["drain\xff", "drain\n/sys/fs/cgroup"],
}


@pytest.mark.parametrize(("name", "held"), [(name, each) for name, all_ in ODD_FILES.items() for each in all_])
def test_whatever_a_file_of_the_state_directory_holds_the_agent_does_its_work(
    name: str, held: str, tmp_path: Path
) -> None:
    """None of them is the ledger: it says what is odd and goes on."""
    with Service(shown()) as service, machine(service, tmp_path, name="") as agent:
        agent.state.mkdir(mode=0o700)
        (agent.state / name).write_bytes(held.encode("latin-1"))
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        assert agent.deaths == 0 and set(problems(agent)) == ({"file"} if name == "drill.json" else set())
        if name == "drill.json":
            assert command(agent, "drill", "--cancel", "--no-wait").code == 0
            agent.until(lambda: problems(agent) == {})


def test_a_drill_that_would_last_until_the_end_of_time_is_refused(tmp_path: Path) -> None:
    """By the command already."""
    for words in (("--not-before", "9999-12-31T23:59:59Z"), ("--notice", "36000d"), ("--lasts", "36000d")):
        done = duenotice(None, "agent", "drill", "--state-dir", str(tmp_path), *words)
        assert done.code == 4 and "over in 30 days" in done.err


def test_a_lost_ledger_is_said_and_nothing_is_lost_or_done_twice(tmp_path: Path, port: int) -> None:
    """Deleted, replaced, and the whole directory moved away: it is written again within seconds."""
    more = STATUS.format(port=port)
    with Service(shown()) as service, machine(service, tmp_path, more=more) as agent:
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        (agent.state / NAME).unlink()
        agent.until(lambda: is_named(agent, "ledger", "it was written again"))
        assert "duenotice_agent_ledger_lost_total 1" in get(port, "/metrics")[1]
        (agent.state / NAME).rename(agent.state / "old")
        (agent.state / NAME).write_text("somebody else's\n")
        agent.until(lambda: "duenotice_agent_ledger_lost_total 2" in get(port, "/metrics")[1])
        agent.state.rename(agent.folder / "moved")
        agent.until(lambda: "duenotice_agent_ledger_lost_total 3" in get(port, "/metrics")[1])
        second = command(agent, "run")
        assert second.code == 4 and "Another agent runs" in second.err
        service.answers = NOTHING
        agent.until(lambda: agent.is_over(ID))
        assert agent.trace == ["prepare", "recover"]


def has_recorded(agent: Machine, what: str) -> bool:
    return (agent.state / NAME).exists() and what in agent.whats


def test_a_ledger_that_is_lost_while_hooks_run_costs_no_second_run(tmp_path: Path) -> None:
    """On the way out and on the way back; also the next agent knows all of it (S13, S15)."""
    wait = 'while [ ! -e "$0.go" ]; do sleep 0.05; done'
    with Service(shown()) as service, machine(service, tmp_path, drain=wait) as agent:
        undrain = agent.folder / "undrain"
        undrain.write_text(undrain.read_text().replace("#!/bin/sh", f"#!/bin/sh\n{wait}"))
        agent.start()
        for hook, begun, ended in (("drain", "note", "approved"), ("undrain", "recovering", "recovered")):
            agent.until(partial(has_recorded, agent, begun))
            (agent.state / NAME).unlink()
            (agent.folder / f"{hook}.go").touch()
            agent.until(partial(has_recorded, agent, ended))
            agent.kill()
            agent.start()
            service.answers = NOTHING
        agent.until(lambda: agent.is_over(ID) and '"running"' in agent.log)
        assert agent.trace == ["prepare", "recover"]


def test_an_agent_whose_directory_another_one_has_ends(tmp_path: Path) -> None:
    """Of two that would act, one goes (S12)."""
    with Service(NOTHING) as service, machine(service, tmp_path) as agent:
        agent.start()
        agent.until(lambda: '"running"' in agent.log)
        agent.state.rename(agent.folder / "moved")
        agent.state.mkdir(mode=0o700)
        with locked(agent.state):
            assert agent.process is not None and agent.process.wait(60) == 4
        assert "Another agent runs" in agent.log


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """As another agent has it."""
    import fcntl

    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def test_a_taken_port_does_not_stop_the_agent(tmp_path: Path) -> None:
    """It is said; when the port is free again, it is opened."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Service(shown()) as service, machine(service, tmp_path, more=STATUS.format(port=port)) as agent:
            agent.start()
            agent.until(lambda: "approved" in agent.whats)
            agent.until(lambda: is_named(agent, "port", "Load balancers and Prometheus cannot ask"))
            taken.close()
            agent.until(lambda: get(port, "/readyz")[0] == 200)
            assert problems(agent) == {}


def test_callers_that_say_nothing_keep_no_load_balancer_waiting(tmp_path: Path, port: int) -> None:
    """Many more idle connections than there are places, and /readyz answers."""
    with Service(NOTHING) as service, machine(service, tmp_path, more=STATUS.format(port=port)) as agent:
        agent.start()
        agent.until(lambda: get(port, "/readyz")[0] == 200)
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        try:
            assert [get(port, "/readyz")[0] for _ in range(20)] == [200] * 20
        finally:
            for each in idle:
                each.close()


@pytest.mark.parametrize(
    ("changed", "drain", "why"),
    [
        ({"EventStatus": "Started", "NotBefore": ""}, "", "it had started when it was first seen"),
        ({}, "exit 3", "drain has failed"),
        ({}, "sleep 60", "drain has failed"),
    ],
    ids=["no notice", "failed", "too slow"],
)
def test_an_event_that_was_not_prepared_for_is_said(
    changed: dict[str, Any], drain: str, why: str, tmp_path: Path, port: int
) -> None:
    """In its log, its status with exit code, its metrics; and still an hour after it is over."""
    more = STATUS.format(port=port)
    with (
        Service(shown(5 / 60, **changed)) as service,
        machine(service, tmp_path, more=more, drain=drain) as agent,
    ):
        agent.start()
        agent.until(lambda: "duenotice_agent_unprepared_total 1" in get(port, "/metrics")[1])
        agent.until(lambda: is_named(agent, "unprepared", why))
        service.answers = NOTHING
        agent.until(lambda: agent.is_over(ID))
        assert why in problems(agent)["unprepared"]
        assert why in next(record.reason for record in agent.records if record.kind == "unprepared")
        agent.kill()
        stopped = command(agent, "status")
        assert stopped.code == 3 and why in stopped.err


def test_an_event_that_no_rule_matches_gets_a_line(tmp_path: Path) -> None:
    """Nothing is prepared, and the log says why."""
    with Service(shown(EventType="Freeze")) as service, machine(service, tmp_path) as agent:
        file = agent.folder / "agent.toml"
        file.write_text(file.read_text().replace("[[rules]]", '[[rules]]\ntypes = ["Reboot"]'))
        agent.start()
        agent.until(lambda: '"left-alone"' in agent.log)
        assert "no rule matches this event" in agent.log and problems(agent) == {}
