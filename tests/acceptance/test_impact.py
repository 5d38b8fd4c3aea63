"""Impact drivers.

What Started does to a VM: a command or a webhook brings it about, and the real service reports what came of it.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from duenotice.wire.operator import Details
from tests.acceptance.conftest import DEMO
from tests.support.receiver import HANG, Receiver
from tests.support.served import Served, wait_until

QUICK: dict[str, Any] = {"impact_retry_after": 0.01, "impact_attempts": 3}


def commanded(tmp_path: Path, code: str, **settings: Any) -> Served:
    """A service whose impacts are Python code in a file of its own; `here` is the test's directory."""
    script = tmp_path / "impact.py"
    script.write_text(f"#!{sys.executable} -IS\nimport json,os,sys,time\nhere = {str(tmp_path)!r}\n{code}\n")
    script.chmod(0o755)
    more: dict[str, Any] = {"impact": "command", "impact_command": str(script), **QUICK, **settings}
    return Served(tmp_path / "data", DEMO, **more)


def hooked(tmp_path: Path, receiver: Receiver, **settings: Any) -> Served:
    """A service whose impacts are brought about by a receiver."""
    more: dict[str, Any] = {"impact": "webhook", "impact_url": receiver.url, **QUICK, **settings}
    return Served(tmp_path / "data", DEMO, **more)


def actions(node: Served, event_id: str) -> list[str]:
    """What happened to an event since it started."""
    done = [record.action for record in node.history(event_id)]
    return done[done.index("event-started") + 1 :]


def approved(node: Served, event_type: str, vm: str) -> str:
    """An event of a VM that listens, and that has been approved; its id."""
    node.enable(vm)
    event_id = node.schedule(event_type, vm)
    node.operate(f"/v1/events/{event_id}/approve")
    return event_id


NOTE_ID = "open(here + '/runs', 'a').write('{DUENOTICE_EVENT_ID} {DUENOTICE_EVENT_TYPE}\\n'.format(**os.environ))"


# Commands


@pytest.mark.parametrize("clock", ["real", "3600x", "manual"])
def test_a_command_that_ends_with_0_completes_its_event(tmp_path: Path, clock: str):
    """On every clock: the command takes its real time."""
    with commanded(tmp_path, NOTE_ID, clock=clock) as node:
        event_id = approved(node, "Reboot", "me")
        assert node.end_of(event_id) == "event-completed"
        assert (tmp_path / "runs").read_text() == f"{event_id} Reboot\n"
        assert list((tmp_path / "data" / "impact").iterdir()) == []


def test_an_event_stays_started_as_long_as_its_command_runs(tmp_path: Path):
    """Not the clock ends it, and VMs are answered meanwhile."""
    with commanded(tmp_path, "while not os.path.exists(here + '/gate'): time.sleep(.01)") as node:
        event_id = approved(node, "Reboot", "me")
        node.advance("1d")
        assert node.statuses("me") == ["Started"]
        (tmp_path / "gate").touch()
        assert node.end_of(event_id) == "event-completed"
        assert node.statuses("me") == []


def test_what_is_done_is_done_to_the_fleet_too(tmp_path: Path):
    """A redeployed VM stands on another host, an evicted one is gone: but only when the command has succeeded."""
    with commanded(tmp_path, NOTE_ID) as node:
        before = node.operate("/v1/vms/web-0", method="GET")["host"]
        assert node.end_of(approved(node, "Redeploy", "web-0")) == "event-completed"
        assert node.operate("/v1/vms/web-0", method="GET")["host"] != before
        spot = next(vm["name"] for vm in node.operate("/v1/vms?limit=1000", method="GET") if vm["spot"])
        assert node.end_of(approved(node, "Preempt", spot)) == "event-completed"
        assert node.operator("GET", f"/v1/vms/{spot}").status == 404


def test_a_failure_is_recorded_and_tried_again(tmp_path: Path):
    """Each failed attempt stands in the history with its number and what the command said."""
    fails_once = NOTE_ID + "\nif os.environ['DUENOTICE_EVENT_ATTEMPT'] == '1': sys.exit('the host is busy')"
    with commanded(tmp_path, fails_once) as node:
        event_id = approved(node, "Reboot", "me")
        assert node.end_of(event_id) == "event-completed"
        assert actions(node, event_id) == ["impact-failed", "event-completed"]
        failure = node.history(event_id)[-2]
        assert failure.details == Details(scope="vm/me", attempt=1, reason="Exit 1: the host is busy")
        assert failure.actor == "driver/command"
        assert (tmp_path / "runs").read_text() == f"{event_id} Reboot\n" * 2


def test_giving_up_fails_the_step_of_a_maintenance_and_the_maintenance(tmp_path: Path):
    """The reason is there to read, the fleet stays as it was, and no further VM is hit."""
    with commanded(tmp_path, "sys.exit('no such domain')", impact_attempts=2) as node:
        plan = node.operate("/v1/maintenances", {"on": ["set=web"], "type": "Redeploy"})
        path = f"/v1/maintenances/{plan['id']}"
        wait_until(lambda: node.operate(path, method="GET")["status"] == "failed")
        shown = node.operate(path, method="GET")
        failed = [step for step in node.steps(plan["id"]) if step["status"] == "failed"]
        assert failed
        assert all(step["reason"] == "Gave up after attempt 2: Exit 1: no such domain" for step in failed)
        assert shown["progress"]["waiting"] > 0
        for step in failed:
            assert actions(node, step["event_id"]) == ["impact-failed", "event-failed"]


def test_a_command_that_hangs_is_killed_and_blocks_nobody(tmp_path: Path):
    """Other events go on beside it, VMs are answered; after its time it is a failure like any other."""
    hangs = (
        NOTE_ID + "\nif os.environ['DUENOTICE_EVENT_RESOURCES'] == 'me':"
        "\n  os.fork(); open(here + '/pids', 'a').write(f'{os.getpid()} '); time.sleep(600)"
    )
    with commanded(tmp_path, hangs, impact_timeout=1.5, impact_attempts=1) as node:
        hanging, other = approved(node, "Reboot", "me"), approved(node, "Reboot", "db-0")
        assert node.end_of(other) == "event-completed"
        assert node.statuses("me") == ["Started"]
        assert node.end_of(hanging) == "event-failed"
        reason = node.history(hanging)[-1].details.reason or ""
        assert reason == "Gave up after attempt 1: Not over after 1.5 seconds; killed."
        pids = (tmp_path / "pids").read_text().split()
        assert len(pids) == 2
        wait_until(lambda: not any(Path(f"/proc/{pid}/cwd").exists() for pid in pids))


def test_so_many_commands_run_at_once_and_no_more(tmp_path: Path):
    """The others wait their turn, and all come to their end."""
    counts = (
        "mine = here + f'/now-{os.getpid()}'; open(mine, 'w')\n"
        "while not os.path.exists(here + '/gate'): time.sleep(.01)\n"
        "now = len([n for n in os.listdir(here) if n.startswith('now-')])\n"
        "open(here + '/counts', 'a').write(f'{now}\\n'); os.unlink(mine)"
    )
    with commanded(tmp_path, counts, impact_at_once=2) as node:
        for vm in [vm["name"] for vm in node.operate("/v1/vms?limit=1000", method="GET")][:8]:
            approved(node, "Reboot", vm)
        wait_until(lambda: len(list(tmp_path.glob("now-*"))) == 2)
        (tmp_path / "gate").touch()
        wait_until(lambda: not node.live())
    counted = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert (len(counted), max(counted)) == (8, 2)


def test_a_clean_stop_leaves_commands_alone_and_the_next_start_takes_them_over(tmp_path: Path):
    """Stopping waits for no command; the next process that serves reports what it did."""
    code = NOTE_ID + "\nwhile not os.path.exists(here + '/gate'): time.sleep(.01)"
    with commanded(tmp_path, code) as node:
        event_id = approved(node, "Reboot", "me")
        wait_until((tmp_path / "runs").exists)
    (tmp_path / "gate").touch()
    with commanded(tmp_path, code) as node:
        assert node.end_of(event_id) == "event-completed"
    assert (tmp_path / "runs").read_text() == f"{event_id} Reboot\n"


def test_a_driver_taken_away_leaves_its_events_to_reports(tmp_path: Path):
    """Simulated impacts do not end what a command had begun: the start says so, and the operator decides."""
    with commanded(tmp_path, "while not os.path.exists(here + '/gate'): time.sleep(.01)") as node:
        event_id = approved(node, "Reboot", "me")
    with Served(tmp_path / "data", DEMO) as node:
        wait_until(lambda: "impact-left" in node.server.log())
        node.advance("1d")
        assert node.statuses("me") == ["Started"]
        node.operate(f"/v1/events/{event_id}/report", {"failure": "started over by hand"})
        assert node.end_of(event_id) == "event-failed"
    (tmp_path / "gate").touch()


# Webhooks


def test_a_receiver_that_answers_200_completes(tmp_path: Path):
    """The event is sent once, with its id as the key."""
    with Receiver(200) as receiver, hooked(tmp_path, receiver) as node:
        event_id = approved(node, "Reboot", "me")
        assert node.end_of(event_id) == "event-completed"
        (request,) = receiver.received
        assert request.event()["id"] == request.headers["Idempotency-Key"] == event_id


@pytest.mark.parametrize(("failure", "end"), [("", "event-completed"), ("no disk", "event-failed")])
def test_a_receiver_that_answers_202_reports_later(tmp_path: Path, failure: str, end: str):
    """The event stays Started until the report comes, through a restart too, and is not sent again."""
    with Receiver(202) as receiver:
        with hooked(tmp_path, receiver) as node:
            event_id = approved(node, "Reboot", "me")
            wait_until(lambda: actions(node, event_id) == ["impact-accepted"])
        with hooked(tmp_path, receiver) as node:
            assert node.statuses("me") == ["Started"]
            answer = node.operate(f"/v1/events/{event_id}/report", {"failure": failure})
            assert answer["id"] == event_id
            assert node.end_of(event_id) == end
            last = node.history(event_id)[-1]
            assert (last.actor, last.details.reason or "") == ("token/admin", failure)
        assert len(receiver.received) == 1


def test_a_receiver_that_fails_is_asked_again_with_the_same_key(tmp_path: Path):
    """500, then 200."""
    with Receiver(500, 200) as receiver, hooked(tmp_path, receiver) as node:
        event_id = approved(node, "Reboot", "me")
        assert node.end_of(event_id) == "event-completed"
        assert actions(node, event_id) == ["impact-failed", "event-completed"]
        assert [request.headers["Idempotency-Key"] for request in receiver.received] == [event_id] * 2


def test_a_receiver_that_refuses_is_not_asked_again(tmp_path: Path):
    """400 means that another try would end the same."""
    with Receiver(400, said=b"unknown VM") as receiver, hooked(tmp_path, receiver) as node:
        event_id = approved(node, "Reboot", "me")
        assert node.end_of(event_id) == "event-failed"
        assert node.history(event_id)[-1].details.reason == "The receiver answered 400: unknown VM"
        assert len(receiver.received) == 1


def test_a_receiver_that_hangs_is_asked_again_and_blocks_nobody(tmp_path: Path):
    """After the timeout; and a clean stop does not wait for it."""
    with Receiver(HANG, 200) as receiver, hooked(tmp_path, receiver, impact_timeout=0.3) as node:
        event_id = approved(node, "Reboot", "me")
        assert node.end_of(event_id) == "event-completed"
        assert actions(node, event_id) == ["impact-failed", "event-completed"]
        receiver.answers(HANG)
        approved(node, "Reboot", "db-0")
        wait_until(lambda: len(receiver.received) == 3)


def test_a_promised_report_that_does_not_come_fails_the_event(tmp_path: Path):
    """In real time, whatever the clock."""
    with Receiver(202) as receiver, hooked(tmp_path, receiver, impact_report_within=0.2) as node:
        event_id = approved(node, "Reboot", "me")
        assert node.end_of(event_id) == "event-failed"
        assert "no report came within 0.2 seconds" in (node.history(event_id)[-1].details.reason or "")


# Reports


def test_only_what_has_started_can_be_reported(tmp_path: Path):
    """A scheduled event is refused, an unknown one not found, a body with other keys not understood."""
    with Served(tmp_path / "data", DEMO) as node:
        node.enable("me")
        path = f"/v1/events/{node.schedule('Reboot', 'me')}/report"
        assert node.refusal(path)[0] == 409
        assert node.refusal("/v1/events/FFFF/report")[0] == 404
        assert node.refusal(path, {"failed": "x"})[0] == 400
        assert node.refusal(path, {"failure": "x" * 5000})[0] in (400, 409, 422)
        assert node.statuses("me") == ["Scheduled"]


def test_settings_that_do_not_fit_each_other_stop_the_start(tmp_path: Path):
    """One line of what is wrong and one of what to do, and no data directory is left behind."""
    data = tmp_path / "data"
    command = [sys.executable, "-m", "duenotice", "serve", f"--data-dir={data}", "--impact=command"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "impact is command, but impact_command is not set." in done.stderr
    assert "Set impact_command." in done.stderr
    assert not data.exists()


def test_a_command_may_be_a_list_in_the_settings_file(tmp_path: Path):
    """Words with spaces then need no quotes."""
    out = tmp_path / "out"
    code = f"import sys; open({str(out)!r}, 'w').write(sys.argv[1])"
    words = ", ".join(f'"{word}"' for word in (sys.executable, "-c", code, "two words"))
    (tmp_path / "settings.toml").write_text(f'impact = "command"\nimpact_command = [{words}]\n')
    with Served(tmp_path / "data", DEMO, config=tmp_path / "settings.toml") as node:
        assert node.end_of(approved(node, "Reboot", "me")) == "event-completed"
    assert out.read_text() == "two words"
