"""What a person can do about a running agent: try again, go on without a handler, end a drill; how long others wait."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.machine import Machine
from tests.agent.test_silence import ID, NOTHING, STATUS, Service, command, get, is_named, machine, problems, shown
from tests.agent.test_silence import port as port  # a fixture
from tests.handlers.kubernetes_api import NODE, TOKEN
from tests.handlers.test_kubernetes import running
from tests.support.cli import Done, duenotice
from tests.support.evil import EvilServer, reply

FAILS = "[ -e $0.good ] || exit 3"
TWO = '[handlers.second]\nkind = "command"\nprepare = ["/bin/true"]\nrecover = ["{hooks}/second"]\ntimeout = "5s"\n'


@pytest.fixture
def service() -> Iterator[Service]:
    with Service(shown()) as running:
        yield running


def states(agent: Machine) -> dict[str, str]:
    """What each handler did, as `agent events` shows it."""
    (row,) = command(agent, "events", "-o", "json").json()
    return {work["handler"]: work["state"] for work in row["handlers"]}


def done_by(agent: Machine) -> list[tuple[str, str]]:
    """What the ledger has of handlers, in order."""
    return [(record.kind, record.handler) for record in agent.records if record.handler]


def hook(agent: Machine, name: str, text: str) -> Path:
    path = agent.folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_handler_that_has_failed_prepares_again_when_a_person_says_so(service: Service, tmp_path: Path) -> None:
    """Its event is approved then: notice was left, and nothing else was wrong."""
    with machine(service, tmp_path, drain=FAILS) as agent:
        agent.start()
        agent.until(lambda: is_named(agent, "failed", "drain has failed"))
        assert states(agent) == {"drain": "failed"} and service.approvals == 0
        (agent.folder / "drain.good").touch()
        assert command(agent, "retry", ID[:8].lower(), "drain").err == "drain prepares again.\n"
        agent.until(lambda: "approved" in agent.whats)
        assert problems(agent) == {} and states(agent) == {"drain": "prepared"} and agent.trace == ["prepare"]
        command(agent, "retry", ID, "drain")  # also what has worked, if that was in vain
        agent.until(lambda: agent.trace == ["prepare", "prepare"] and states(agent) == {"drain": "prepared"})


@pytest.mark.parametrize("drain", [FAILS, "sleep 60"], ids=["failed", "hangs"])
def test_an_event_is_approved_without_a_handler_that_is_skipped(service: Service, tmp_path: Path, drain: str) -> None:
    """What it had begun is put back all the same (S15)."""
    with machine(service, tmp_path, drain=drain) as agent:
        agent.start()
        agent.until(lambda: "note" in agent.whats or "failed" in agent.whats)
        assert command(agent, "skip", ID, "drain").code == 0
        agent.until(lambda: "approved" in agent.whats)
        assert states(agent) == {"drain": "skipped"} and problems(agent) == {}
        service.answers = NOTHING
        agent.until(lambda: agent.is_over(ID))
        assert agent.trace == ["recover"]


def test_a_handler_that_has_not_begun_may_be_skipped_too(service: Service, tmp_path: Path) -> None:
    """There is nothing to put back then."""
    with machine(service, tmp_path, drain="[ -e $0.go ] || sleep 60") as agent:
        file = agent.folder / "agent.toml"
        text = file.read_text().replace('handlers = ["drain"]', 'handlers = ["drain", "second"]')
        file.write_text(text + TWO.format(hooks=agent.folder))
        hook(agent, "second", f"echo second >> {agent.trace_file}")
        agent.start()
        agent.until(lambda: "preparing" in agent.whats)
        assert [command(agent, "skip", ID, name).code for name in ("second", "drain")] == [0, 0]
        agent.until(lambda: "approved" in agent.whats)
        service.answers = NOTHING
        agent.until(lambda: agent.is_over(ID))
        assert agent.trace == ["recover"]


def test_a_stuck_handler_tries_at_once_when_a_person_says_so(service: Service, tmp_path: Path) -> None:
    """It is in the status until then, with its reason and an exit code."""
    with machine(service, tmp_path) as agent:
        hook(agent, "undrain", f"[ -e $0.good ] || exit 7\necho recover >> {agent.trace_file}")
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        service.answers = NOTHING
        agent.until(lambda: is_named(agent, "stuck", "drain cannot put back"))
        (agent.folder / "undrain.good").touch()
        command(agent, "retry", ID, "drain")
        agent.until(lambda: agent.is_over(ID))
        assert agent.trace == ["prepare", "recover"] and problems(agent) == {}


def test_a_stuck_handler_that_is_skipped_is_not_put_back_any_more(service: Service, tmp_path: Path) -> None:
    """The person who skips it puts it back."""
    with machine(service, tmp_path) as agent:
        hook(agent, "undrain", "exit 7")
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        service.answers = NOTHING
        agent.until(lambda: "stuck" in agent.whats)
        assert "yours to put back" in command(agent, "skip", ID, "drain").err
        agent.until(lambda: agent.is_over(ID))
        assert agent.trace == ["prepare"] and problems(agent) == {}


def test_what_cannot_be_done_is_refused(service: Service, tmp_path: Path) -> None:
    """With what there is, and without any effect."""

    def asked(*words: str) -> Done:
        return command(agent, *words)

    with machine(service, tmp_path) as agent:
        none = asked("retry", ID, "drain")
        assert none.code == 3 and "does not answer" not in none.err
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        assert stat.S_IMODE((agent.state / "agent.sock").stat().st_mode) == 0o600
        before = agent.whats
        refused = {
            ("retry", "ABC", "drain"): (3, "There is no event 'ABC' here."),
            ("retry", ID, "other"): (3, "Its handlers: drain."),
            ("skip", ID, "drain"): (4, "drain is done"),
            ("drill", "--cancel"): (3, "There is no drill."),
        }
        for words, (code, why) in refused.items():
            done = asked(*words)
            assert (done.code, why in done.err) == (code, True), done
        assert agent.whats == before
        service.answers = NOTHING
        agent.until(lambda: agent.is_over(ID))
        assert asked("skip", ID, "drain").err.startswith(f"error: {ID} is over.")


def test_a_drill_that_is_called_off_is_put_back(tmp_path: Path) -> None:
    """Whatever notice it had left; and there is one drill at a time."""
    with Service(NOTHING) as service, machine(service, tmp_path, drain="[ -n $DUENOTICE_DRILL ]") as agent:
        agent.start()
        agent.until(lambda: '"running"' in agent.log and problems(agent) == {})
        long = ("drill", "--notice", "1h", "--lasts", "1h", "--no-wait")
        assert command(agent, *long).code == 0
        agent.until(lambda: "prepared" in agent.whats)
        assert command(agent, *long).code == 4
        done = command(agent, "drill", "--cancel")
        assert done.code == 0 and "everything is put back" in done.err
        assert agent.trace == ["prepare", "recover"]


def test_the_others_wait_for_a_stuck_handler_only_so_long(service: Service, tmp_path: Path) -> None:
    """It goes on trying, and the status says who did not wait (S32)."""
    with machine(service, tmp_path) as agent:
        file = agent.folder / "agent.toml"
        text = file.read_text().replace('handlers = ["drain"]', 'handlers = ["drain", "second"]')
        file.write_text(text + TWO.format(hooks=agent.folder) + 'holds = "1s"\n')
        second = hook(agent, "second", "exit 7")
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        service.answers = NOTHING
        agent.until(lambda: ("recovered", "drain") in done_by(agent))
        order = done_by(agent)
        assert order.index(("stuck", "second")) < order.index(("recovered", "drain"))
        assert ("recovered", "second") not in order and agent.trace == ["prepare", "recover"]
        agent.until(lambda: is_named(agent, "stuck", "The others have not waited for it any longer."))
        second.write_text("#!/bin/sh\nexit 0\n")
        command(agent, "retry", ID, "second")
        agent.until(lambda: agent.is_over(ID))


@pytest.mark.parametrize("by", ["command", "address"])
def test_the_load_balancer_gets_the_machine_back_when_it_is_healthy(
    service: Service, tmp_path: Path, by: str, port: int
) -> None:
    """Not before: until then /readyz says no, and the status says why."""
    with EvilServer(reply(503)) as health, machine(service, tmp_path, more=STATUS.format(port=port)) as agent:
        healthy = (
            f'["{hook(agent, "healthy", "[ -e $0.good ]")}"]' if by == "command" else f'"{health.endpoint}/health"'
        )
        file = agent.folder / "agent.toml"
        text = file.read_text().replace('handlers = ["drain"]', 'handlers = ["lb", "drain"]')
        file.write_text(f'{text}[handlers.lb]\nkind = "readiness"\nsettle = "10ms"\nhealthy = {healthy}\n')
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        service.answers = NOTHING
        agent.until(lambda: is_named(agent, "stuck", "This machine is not healthy yet"))
        assert agent.trace == ["prepare", "recover"] and get(port, "/readyz")[0] == 503
        (agent.folder / "healthy.good").touch()
        health.answers = reply(204)
        command(agent, "retry", ID, "lb")
        agent.until(lambda: agent.is_over(ID))
        assert get(port, "/readyz")[0] == 200 and problems(agent) == {}


def test_events_are_listed_with_what_each_handler_did(service: Service, tmp_path: Path) -> None:
    """One line for each handler, with its reason; also when no agent runs."""
    with machine(service, tmp_path, drain="exit 3") as agent:
        agent.start()
        agent.until(lambda: "failed" in agent.whats)
        for _ in range(2):
            table = command(agent, "events")
            assert table.code == 0 and "drain" in table.out and "failed" in table.out and ID[:8] in table.out
            assert command(agent, "events", "-o", "name").out.strip() == ID
            agent.kill()
        assert json.loads(command(agent, "events", "-o", "json").out)[0]["handlers"][0]["reason"]
        empty = duenotice(None, "agent", "events", "--state-dir", str(tmp_path / "none"))
        assert "knows of no event" in empty.err


def test_what_is_undone_before_the_event_begins_is_said_and_done_again(service: Service, tmp_path: Path) -> None:
    """Somebody uncordons the node and puts back what a hook has drained, while notice is left (S12)."""
    with running() as cluster, machine(service, tmp_path) as agent:
        token = agent.folder / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        file = agent.folder / "agent.toml"
        text = file.read_text().replace('handlers = ["drain"]', 'handlers = ["drain", "node"]')
        look = hook(agent, "look", f"[ -e {agent.drained} ] || {{ echo it is back; exit 1; }}")
        text = text.replace('kind = "command"', f'kind = "command"\nprepared = ["{look}"]')
        keys = f'server = "{cluster.url}"\ntoken_file = "{token}"\nnode = "{NODE}"\n'
        file.write_text(f'{text}[handlers.node]\nkind = "kubernetes"\n{keys}')
        agent.start()
        agent.until(lambda: "approved" in agent.whats)
        with cluster.lock:
            del cluster.node["spec"]["unschedulable"]
        agent.drained.unlink()
        agent.until(lambda: "new pods may come to web-0 again" in agent.log)
        agent.until(lambda: "look exited with 1: it is back" in agent.log)
        agent.until(lambda: cluster.node["spec"].get("unschedulable") is True and agent.drained.exists())
        agent.until(lambda: set(states(agent).values()) == {"prepared"})
        assert agent.trace == ["prepare", "prepare"]
