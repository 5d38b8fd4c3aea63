"""The agent as a process: started, stopped, reread, rehearsed, asked how it is."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duenotice.wire.spans import format_rfc1123
from tests.agent.machine import Machine, metadata_endpoint
from tests.support.cli import Done, duenotice
from tests.support.evil import EvilServer, json_answer
from tests.support.node import Node
from tests.support.terminal import Terminal

FLEET = '[[vms]]\nname = "vm-0"\naddress = "127.0.43.1"\n'
STATUS = '[status]\nlisten = "127.0.43.1:{port}"\n[handlers.ready]\nkind = "readiness"\nsettle = "10ms"\n'


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(FLEET) as running:
        running.enable("vm-0")
        yield running


def machine(node: Node, folder: Path, policy: str = "own", more: str = "", drain: str = "") -> Machine:
    return Machine(folder / "vm", metadata_endpoint(node), "127.0.43.1", policy, more, drain)


def agent_command(agent: Machine, verb: str, *arguments: str) -> Done:
    files = ["--config", str(agent.folder / "agent.toml"), "--state-dir", str(agent.state)]
    return duenotice(None, "agent", verb, *files, *arguments)


def unprivileged(agent: Machine, verb: str, *arguments: str) -> Done:
    """The command as somebody who may read the configuration, but neither ask at the socket nor read the ledger."""
    (agent.state / "agent.sock").unlink(missing_ok=True)  # the agent makes it again, after some seconds
    ledger = agent.state / "agent.ledger"
    ledger.rename(agent.state / "kept")
    ledger.mkdir()  # even root cannot read a folder as a file
    try:
        return agent_command(agent, verb, *arguments)
    finally:
        ledger.rmdir()
        (agent.state / "kept").rename(ledger)


def test_sigterm_ends_it_cleanly_and_the_next_one_goes_on(node: Node, tmp_path: Path):
    """In the middle of a hook: the hook is ended, nothing is recorded as failed, and it runs again."""
    with machine(node, tmp_path, drain="[ -e $0.go ] || sleep 60") as agent:
        agent.start()
        event_id = node.schedule("Reboot", "vm-0").upper()
        agent.until(lambda: "note" in agent.whats)
        assert agent.stop() == 0 and "failed" not in agent.whats and agent.trace == []
        (agent.folder / "drain.go").touch()
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        node.advance("20m")
        agent.until(lambda: agent.is_over(event_id))
        assert agent.trace == ["prepare", "recover"]


def test_a_hook_does_not_outlive_a_killed_agent(node: Node, tmp_path: Path):
    """It could drain the machine after the next agent had put it back (S15)."""
    with machine(node, tmp_path, drain="echo $$ > $0.pid; while [ ! -e $0.go ]; do sleep 0.05; done") as agent:
        pid = agent.folder / "drain.pid"
        agent.start()
        event_id = node.schedule("Reboot", "vm-0").upper()
        agent.until(lambda: pid.exists() and pid.read_text().endswith("\n"))
        agent.kill()
        agent.until(lambda: is_gone(int(pid.read_text())))
        node.operate(f"/v1/events/{event_id}/cancel")
        agent.start()
        agent.until(lambda: agent.is_over(event_id))
        assert agent.trace == ["recover"]


def is_gone(pid: int) -> bool:
    """Or waits for somebody to take note of its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_an_event_that_is_called_off_while_a_hook_runs(node: Node, tmp_path: Path):
    """The hook is ended, not waited for, and the way back runs at once."""
    with machine(node, tmp_path, drain="sleep 15") as agent:
        agent.start()
        event_id = node.schedule("Reboot", "vm-0").upper()
        agent.until(lambda: "note" in agent.whats)
        node.operate(f"/v1/events/{event_id}/cancel")
        began = time.monotonic()
        agent.until(lambda: agent.is_over(event_id))
        assert time.monotonic() - began < 10 and agent.trace == ["recover"]


def test_a_hung_handler_holds_up_neither_polls_nor_other_events(node: Node, tmp_path: Path):
    """While one event's hook hangs, another event is prepared for by its own, and approved."""
    more = '[[rules]]\ntypes = ["Freeze"]\nhandlers = []\n'
    with machine(node, tmp_path, drain="sleep 60") as agent:
        file = agent.folder / "agent.toml"
        file.write_text(file.read_text().replace("[[rules]]", more + "[[rules]]", 1))
        agent.start()
        node.schedule("Reboot", "vm-0")
        agent.until(lambda: "preparing" in agent.whats)
        freeze = node.schedule("Freeze", "vm-0").upper()
        agent.until(lambda: any(r.kind == "approved" and r.event_id == freeze for r in agent.records))
        assert "prepared" not in agent.whats and "failed" not in agent.whats


def test_two_events_at_once_with_one_handler_are_both_prepared_for_and_approved(node: Node, tmp_path: Path):
    """A hook that needs two thirds of its timeout: the second event has the whole timeout too, when its turn comes."""
    with machine(node, tmp_path, drain="sleep 1") as agent:
        file = agent.folder / "agent.toml"
        file.write_text(file.read_text().replace('"20s"', '"1500ms"'))
        ids = [node.schedule(kind, "vm-0").upper() for kind in ("Reboot", "Freeze")]
        agent.start()
        agent.until(lambda: agent.whats.count("approved") == 2)
        assert "failed" not in agent.whats and {each.event_id for each in agent.records if each.handler} == {*ids}


def test_sighup_takes_a_good_file_and_refuses_a_bad_one(node: Node, tmp_path: Path):
    """What is wrong is said, and the old rules stay."""
    with machine(node, tmp_path, "never") as agent:
        file = agent.folder / "agent.toml"
        good = file.read_text()
        agent.start()
        agent.until(lambda: '"name-learned"' in agent.log)
        assert agent.process is not None
        file.write_text(good.replace("policy", "polcy"))
        agent.process.send_signal(signal.SIGHUP)
        agent.until(lambda: "config-refused" in agent.log and "Did you mean 'policy'?" in agent.log)
        file.write_text(good.replace('"never"', '"own"'))
        agent.process.send_signal(signal.SIGHUP)
        agent.until(lambda: "config-reread" in agent.log)
        node.schedule("Reboot", "vm-0")
        agent.until(lambda: node.statuses("vm-0") == ["Started"])


def test_sighup_refuses_to_lose_a_handler_that_has_something_to_put_back(node: Node, tmp_path: Path):
    """Otherwise the machine would stay drained for ever (S15)."""
    with machine(node, tmp_path, "never") as agent:
        agent.start()
        node.schedule("Reboot", "vm-0")
        agent.until(lambda: "prepared" in agent.whats)
        file = agent.folder / "agent.toml"
        file.write_text(file.read_text().replace("drain]", "other]").replace('["drain"]', '["other"]'))
        assert agent.process is not None
        agent.process.send_signal(signal.SIGHUP)
        agent.until(lambda: "drain still has something to put back" in agent.log)


def test_a_dry_run_says_what_it_would_do_and_does_nothing(node: Node, tmp_path: Path):
    """The whole plan, from the first handler to the last step of the way back; no hook, no ledger, no approval."""
    with machine(node, tmp_path) as agent:
        node.schedule("Reboot", "vm-0")
        agent.start("never:0", "--dry-run")
        agent.until(lambda: '"step": "recover"' in agent.log)
        lines = [json.loads(line) for line in agent.log.splitlines()]
        assert [line["step"] for line in lines if line["action"] == "would"] == ["prepare", "approve", "recover"]
        assert "Nothing is done and nothing is approved" in agent.log
        assert agent.trace == [] and agent.records == [] and node.statuses("vm-0") == ["Scheduled"]


def test_a_dry_run_may_stand_beside_the_real_agent(node: Node, tmp_path: Path):
    """It opens no port and touches no file."""
    with socket.create_server(("127.0.43.1", 0)) as taken:
        more = STATUS.format(port=taken.getsockname()[1])
        with machine(node, tmp_path, more=more) as agent:
            agent.state.mkdir()
            (agent.state / "drained.json").write_text('["a reason"]')
            node.schedule("Reboot", "vm-0")
            agent.start("never:0", "--dry-run")
            agent.until(lambda: '"step": "prepare"' in agent.log)
            assert [(file.name, file.read_text()) for file in agent.state.iterdir()] == [
                ("drained.json", '["a reason"]')
            ]


def test_a_drill_runs_everything_for_real_and_approves_nothing(node: Node, tmp_path: Path):
    """The hooks know that it is one (S12)."""
    with machine(node, tmp_path) as agent:
        agent.start()
        agent.until(lambda: '"name-learned"' in agent.log)
        done = agent_command(agent, "drill", "--type", "Reboot", "--notice", "20s", "--lasts", "100ms")
        assert done.code == 0, done
        drill = done.out.strip()
        assert agent.trace_file.read_text().split() == ["prepare", f"{drill}1", "recover", f"{drill}1"]
        assert "approved" not in agent.whats and not agent.drained.exists()
        assert "No rule" not in done.err
        assert node.document("vm-0")["Events"] == [] and "everything is put back" in done.err


def test_a_drill_that_goes_wrong_says_so(node: Node, tmp_path: Path):
    """With an exit code for scripts."""
    with machine(node, tmp_path, drain="exit 3") as agent:
        agent.start()
        agent.until(lambda: '"name-learned"' in agent.log)
        done = agent_command(agent, "drill", "--notice", "4s", "--lasts", "100ms")
        assert done.code == 1 and "failed drain" in done.err and "did not go well" in done.err


def test_a_drill_that_no_rule_is_about_is_pointed_out(node: Node, tmp_path: Path):
    """Nothing would be proven by it."""
    with machine(node, tmp_path) as agent:
        file = agent.folder / "agent.toml"
        file.write_text(file.read_text().replace("[[rules]]", '[[rules]]\ntypes = ["Reboot"]'))
        agent.start()
        agent.until(lambda: '"name-learned"' in agent.log)
        done = agent_command(agent, "drill", "--type", "Freeze", "--no-wait")
        assert done.code == 0 and "No rule" in done.err


def test_a_drill_of_a_type_that_does_not_exist_is_refused_at_once(tmp_path: Path):
    """Before anybody looks whether an agent runs."""
    done = duenotice(None, "agent", "drill", "--type", "Foo", "--state-dir", str(tmp_path))
    assert done.code == 2 and "'Foo' is not one of" in done.err
    done = duenotice(None, "agent", "drill", "--lasts", "soon", "--state-dir", str(tmp_path))
    assert done.code == 2 and "'--lasts': 'soon' is not a span of time." in done.err


def test_a_drill_needs_an_agent(tmp_path: Path):
    """Nobody would play it."""
    done = duenotice(None, "agent", "drill", "--state-dir", str(tmp_path))
    assert done.code == 3 and "No agent is running" in done.err


def test_status_shows_what_is_coming_and_what_was_done(node: Node, tmp_path: Path):
    """As a table and as JSON; it says when no agent runs."""
    with machine(node, tmp_path, "never") as agent:
        agent.start()
        in_20_minutes = datetime.now(UTC) + timedelta(minutes=20, seconds=30)  # half a minute before it is 19, or 21
        event_id = node.schedule("Reboot", "vm-0", not_before=in_20_minutes.isoformat()).upper()
        agent.until(lambda: "prepared" in agent.whats)
        # The node's clock stands still, so after some seconds the agent says that its own one differs.
        (row,) = json.loads(agent_command(agent, "status", "-o", "json").out)["events"]
        assert (row["event_id"], row["state"], row["coming"]) == (event_id, "prepared", True)
        assert 20 * 60 <= row["seconds_left"] < 21 * 60
        table = agent_command(agent, "status")
        assert "drain:prepared" in table.out and "in 20m" in table.out
        agent.kill()
        alone = agent_command(agent, "status")
        assert (alone.code, "drain:prepared" in alone.out) == (3, True)
        assert (
            alone.err == f"error: No agent is running on {agent.state}.\n hint: Start it with 'duenotice agent run'.\n"
        )


def test_two_agents_do_not_share_a_ledger(node: Node, tmp_path: Path):
    """The second is refused, and says what to do."""
    with machine(node, tmp_path) as agent:
        agent.start()
        agent.until(lambda: '"running"' in agent.log)
        config = str(agent.folder / "agent.toml")
        done = duenotice(None, "agent", "run", "--config", config, "--state-dir", str(agent.state))
        assert done.code == 4 and "Another agent runs" in done.err and "--state-dir" in done.err


def test_a_ledger_that_is_removed_while_the_agent_runs_is_there_again(node: Node, tmp_path: Path):
    """It is said; the work goes on, and a second agent is refused as before (S12, S15, S32)."""
    with machine(node, tmp_path) as agent:
        agent.start()
        event_id = node.schedule("Reboot", "vm-0").upper()
        agent.until(lambda: "approved" in agent.whats)
        for file in agent.state.iterdir():
            file.unlink()
        agent.until(lambda: '"ledger-lost"' in agent.log and agent.tracked(event_id) is not None)
        config = str(agent.folder / "agent.toml")
        done = duenotice(None, "agent", "run", "--config", config, "--state-dir", str(agent.state))
        assert done.code == 4 and "Another agent runs" in done.err
        node.advance("20m")
        agent.until(lambda: agent.is_over(event_id))
        assert agent.trace == ["prepare", "recover"]


def test_what_a_hook_printed_is_in_the_log_and_the_status(node: Node, tmp_path: Path):
    """Both streams in order, the last 4 KiB, and control characters only escaped (S28)."""
    text = "seq 5000; echo closing >&2; printf '\\033[31mred\\n'"
    with machine(node, tmp_path, "never", drain=text) as agent:
        agent.start()
        node.schedule("Reboot", "vm-0")
        agent.until(lambda: "prepared" in agent.whats)
        (row,) = agent_command(agent, "status", "-o", "json").json()["events"]
        output = row["handlers"][0]["output"]
        assert output.endswith("4999\n5000\nclosing\n\x1b[31mred") and 4000 < len(output) <= 4096
        (line,) = [line for line in agent.log.splitlines() if '"action": "prepared"' in line]
        assert json.loads(line)["output"] == output and "\x1b" not in line


def test_what_a_hook_printed_before_it_was_killed_is_in_the_reason(node: Node, tmp_path: Path):
    """With the names of the programs that did not end; its deadline and the handler's are the same moment."""
    text = "echo asking the pool; echo not yet >&2; setsid sleep 61 & sleep 62"
    with machine(node, tmp_path, "own", drain=text) as agent:
        file = agent.folder / "agent.toml"
        file.write_text(file.read_text().replace('timeout = "20s"', 'timeout = "1s"'))
        agent.start()
        event_id = node.schedule("Reboot", "vm-0").upper()
        agent.until(lambda: "failed" in agent.whats)
        tracked = agent.tracked(event_id)
        assert tracked is not None
        reason = tracked.runs["drain"].reason
        assert re.search(r"/drain did not end in time. Still running: drain \(\d+\), sleep \(\d+\), sleep", reason)
        assert reason.endswith("It printed: asking the pool\nnot yet")


def test_files_that_others_may_change_are_not_obeyed(node: Node, tmp_path: Path):
    """The state directory and the configuration at the start, both again at a reload and before each hook (S33)."""
    with machine(node, tmp_path, drain="[ -e $0.go ] || exit 75") as agent:
        agent.folder.joinpath("agent.toml").chmod(0o666)
        refused = agent_command(agent, "run")
        assert refused.code == 2 and "agent.toml can be written by others" in refused.err
        assert "chmod go-w on the file and its folders" in refused.err
        agent.folder.joinpath("agent.toml").chmod(0o644)
        agent.state.mkdir(mode=0o777)
        agent.state.chmod(0o777)
        refused = agent_command(agent, "run")
        assert refused.code != 0 and "state can be written by others" in refused.err
        agent.state.chmod(0o700)
        agent.start()
        agent.until(lambda: '"running"' in agent.log)
        ledger = agent.state / "agent.ledger"
        ledger.chmod(0o666)
        assert agent.process is not None
        agent.process.send_signal(signal.SIGHUP)
        agent.until(lambda: "config-refused" in agent.log and "agent.ledger can be written by others" in agent.log)
        event_id = node.schedule("Reboot", "vm-0").upper()
        agent.until(lambda: "failed" in agent.whats)
        assert agent.trace == []
        ledger.chmod(0o600)
        node.operate(f"/v1/events/{event_id}/cancel")
        agent.until(lambda: agent.is_over(event_id))
        assert agent.trace == ["recover"]


def test_check_says_what_would_happen_and_what_is_wrong(node: Node, tmp_path: Path):
    """A hook that others may write to is found before an event comes."""
    agent = machine(node, tmp_path)
    good = agent_command(agent, "check")
    assert good.code == 0 and "drain (20 s) → approve if leader" in good.out and "never matches" not in good.err
    file = agent.folder / "agent.toml"
    text = file.read_text()
    file.write_text(text.replace("[[rules]]", '[[rules]]\ntypes = ["reboot"]\nsources = ["User", "Azure"]'))
    slips = agent_command(agent, "check")
    assert slips.code == 2 and "rules[1].types: 'reboot' never matches. Did you mean 'Reboot'?" in slips.err
    assert "rules[1].sources: 'Azure' never matches. Known sources: Platform, User." in slips.err
    file.write_text(text)
    with agent:
        agent.start()
        node.schedule("Reboot", "vm-0")
        agent.until(lambda: "approved" in agent.whats)
    file.write_text(file.read_text().replace("drain]", "other]").replace('["drain"]', '["other"]'))
    lost = agent_command(agent, "check")
    assert lost.code == 2 and "handlers.drain: missing, but it has something to put back" in lost.err
    (agent.folder / "drain").chmod(0o757)
    bad = agent_command(agent, "check")
    assert bad.code == 2 and "can be written by others" in bad.err


def test_check_asks_the_service_who_we_are_and_what_time_it_is(node: Node, tmp_path: Path):
    """A name that no event has, or a clock that is off, is found before it matters; nobody's polls begin by it."""
    agent = machine(node, tmp_path)
    good = agent_command(agent, "check", "--online")
    assert good.code == 0 and "The metadata service calls this VM 'vm-0'; our clocks differ by" in good.err
    file = agent.folder / "agent.toml"
    text = file.read_text()
    file.write_text(text.replace('name = ""', 'name = "web-0"'))
    unknown = agent_command(agent, "check", "--online")
    assert unknown.code == 2 and "but the service calls this VM 'vm-0'" in unknown.err
    file.write_text(text.replace(metadata_endpoint(node), "http://127.0.0.1:9"))
    assert agent_command(agent, "check").code == 0
    assert agent_command(agent, "check", "--online").code == 6


def test_check_finds_a_clock_that_is_off(node: Node, tmp_path: Path):
    """The notice left is reckoned on this machine's clock."""
    agent = machine(node, tmp_path)
    file = agent.folder / "agent.toml"
    date = f"Date: {format_rfc1123(datetime.now(UTC) + timedelta(hours=2))}"
    with EvilServer(json_answer({"compute": {"name": "vm-0"}}, date)) as server:
        file.write_text(file.read_text().replace(metadata_endpoint(node), server.endpoint))
        done = agent_command(agent, "check", "--online")
        assert done.code == 2 and "behind the service, so the notice left would be wrong" in done.err
        assert ["scheduledevents" in target for target in server.targets] == [False]


def test_on_a_terminal_the_log_is_for_people(node: Node, tmp_path: Path):
    """As that of the service; elsewhere it is JSON lines, and --log-format says otherwise."""
    agent = machine(node, tmp_path)
    node.schedule("Reboot", "vm-0")
    files = ("--config", str(agent.folder / "agent.toml"), "--state-dir", str(agent.state))
    with Terminal("agent", "run", "--dry-run", *files) as terminal:
        terminal.wait_for("step=recover handler=drain")
        assert '"action"' not in terminal.shown
    with Terminal("agent", "run", "--dry-run", *files, "--log-format", "json") as terminal:
        terminal.wait_for('"step": "recover"')


def test_the_port_shows_readiness_status_and_metrics(node: Node, tmp_path: Path):
    """A load balancer takes the machine out while the readiness handler has it drained, also across kill -9."""
    with socket.create_server(("127.0.43.1", 0)) as probe:
        port = probe.getsockname()[1]
    with machine(node, tmp_path, "never", STATUS.format(port=port)) as agent:
        file = agent.folder / "agent.toml"
        file.write_text(file.read_text().replace('handlers = ["drain"]', 'handlers = ["ready", "drain"]'))

        def get(path: str) -> tuple[int, bytes]:
            connection = http.client.HTTPConnection("127.0.43.1", port, timeout=5)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read()
            except OSError:
                return 0, b""
            finally:
                connection.close()

        agent.start()
        agent.until(lambda: get("/readyz")[0] == 200)
        event_id = node.schedule("Reboot", "vm-0").upper()
        agent.until(lambda: get("/readyz")[0] == 503 and agent.whats.count("prepared") == 2)
        agent.kill()
        agent.start()
        agent.until(lambda: get("/readyz")[0] == 503)
        agent.until(lambda: bool(json.loads(get("/status")[1])["heard"]))
        assert json.loads(get("/status")[1])["events"][0]["event_id"] == event_id
        assert unprivileged(agent, "status", "-o", "name").out.strip() == event_id
        assert b'duenotice_agent_events{state="prepared"} 1' in get("/metrics")[1]
        node.operate(f"/v1/events/{event_id}/cancel")
        agent.until(lambda: get("/readyz")[0] == 200 and agent.is_over(event_id))
        agent.kill()
        (agent.state / "drained.json").write_text('["nobody knows why"]')
        agent.start()
        agent.until(lambda: get("/readyz")[0] == 200)


def test_systemd_is_told(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ready once it runs, alive while the loop turns, stopping at the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, machine(node, tmp_path) as agent:
        told.bind(str(agent.folder / "notify"))
        told.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(agent.folder / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        agent.start()
        heard = {told.recv(100) for _ in range(4)}
        assert heard == {b"READY=1", b"WATCHDOG=1"}
        agent.stop()
        while told.recv(100) != b"STOPPING=1":
            pass


def test_the_agent_stays_small(tmp_path: Path):
    """Of third parties it loads msgspec and, for its command line, click; nothing that draws tables (S24)."""
    code = (
        "import sys, duenotice.cli.agent, duenotice.agent.process, duenotice.agent.handlers.command\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ, timeout=60
    )
    heavy = {"rich", "starlette", "uvicorn", "uvloop", "structlog", "prometheus_client", "apsw", "lightkube"}
    assert not heavy & set(done.stdout.split())
