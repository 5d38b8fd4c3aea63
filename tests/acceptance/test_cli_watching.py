"""Commands that stay until something is over: they end when it is, and say how."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import DEMO
from tests.support.cli import Done, duenotice, endpoint
from tests.support.node import Node
from tests.support.served import wait_until
from tests.support.terminal import Terminal

PLAN: dict[str, Any] = {"on": ["set=web"], "type": "Reboot", "settle": "5m"}


@pytest.fixture(autouse=True)
def _somebody_listens(node: Node) -> None:
    node.enable("web-0")


Later = Callable[..., None]


@pytest.fixture
def soon(node: Node) -> Iterator[Later]:
    """Do something as soon as a command listens, or as soon as something else is true; meanwhile the command waits."""
    threads: list[threading.Thread] = []

    def later(act: Callable[[], object], when: Callable[[], object] = lambda: has_listeners(node)) -> None:
        def work() -> None:
            wait_until(when)
            act()

        threads.append(threading.Thread(target=work))
        threads[-1].start()

    yield later
    for thread in threads:
        thread.join()


def has_listeners(node: Node) -> bool:
    return b"\nduenotice_feed_readers 0" not in node.operator("GET", "/metrics").body


def watching(node: Node, *arguments: str, then: tuple[str, ...]) -> Done:
    """Run a command to its end; time passes once it has said its first line."""
    given = os.environ | {"DUENOTICE_ENDPOINT": endpoint(node), "DUENOTICE_TOKEN": node.token}
    command = [sys.executable, "-m", "duenotice", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given) as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        for by in then:
            node.advance(by)
        rest, complaints = running.communicate(timeout=60)
    return Done(running.returncode, first + rest, complaints)


def test_wait_follows_an_event_to_its_end(node: Node, soon: Later) -> None:
    """Notice and impact pass, then the command ends."""
    soon(lambda: node.advance("1h"))
    done = duenotice(node, "vm", "restart", "web-0", "--wait", "-o", "name")
    assert (done.code, len(done.out.split())) == (0, 1)
    assert node.events("web-0") == []


def test_a_person_who_waited_is_told_that_it_is_over(node: Node, soon: Later) -> None:
    """The live view is gone by then; without a word nobody would know how it ended."""
    soon(lambda: node.advance("30m"))
    done = duenotice(node, "vm", "restart", "web-0", "--wait")
    assert (done.code, done.err) == (0, "Completed 1.\n")
    soon(lambda: node.advance("30m"), when=lambda: node.operate("/v1/maintenances", method="GET"))
    done = duenotice(node, "maintenance", "start", "--on", "vm=web-0", "--type", "Freeze", "--wait")
    assert done.code == 0
    assert done.err.endswith(" is done.\n")


def test_wait_for_an_event_that_is_cancelled_ends_with_1(node: Node, soon: Later) -> None:
    """What was asked for did not happen."""
    soon(lambda: node.operate(f"/v1/events/{node.event('web-0')['EventId']}/cancel"))
    done = duenotice(node, "vm", "restart", "web-0", "--wait")
    assert done.code == 1
    assert "cancelled" in done.err


def test_wait_gives_up_with_7(node: Node) -> None:
    """Time does not pass, so the event is not over."""
    done = duenotice(node, "vm", "restart", "web-0", "--wait", "--wait-timeout", "200ms", "-o", "name")
    assert done.code == 7
    assert done.err.splitlines()[0] == "error: The events are not over after 200ms."


def test_watch_prints_each_change_and_ends_when_the_event_is_over(node: Node) -> None:
    """JSON lines where nobody looks at a terminal."""
    event_id = node.schedule("Reboot", "web-0")
    done = watching(node, "events", "watch", event_id[:8], "-o", "jsonl", then=("15m", "1h"))
    phases = [json.loads(line)["phase"] for line in done.out.splitlines()]
    assert (done.code, phases) == (0, ["scheduled", "started", "completed"])


def test_watch_of_all_events_ends_when_none_is_left(node: Node) -> None:
    """Lines for people when the output is not a terminal; nothing is missed of an hour that passes at once."""
    node.schedule("Reboot", "web-0")
    lines = watching(node, "events", "watch", "--until-none", then=("1h",)).out.splitlines()
    assert [line.split()[1:3] for line in lines] == [
        ["Reboot", phase] for phase in ("scheduled", "started", "completed")
    ]


def test_watch_of_an_unknown_event_is_told_at_once(node: Node) -> None:
    """A wrong id does not look like an event that is over."""
    assert duenotice(node, "events", "watch", "nix").code == 3


def test_a_watched_maintenance_ends_when_it_is_done(node: Node, soon: Later) -> None:
    """The last word is the whole maintenance."""
    plan = node.operate("/v1/maintenances", PLAN)
    soon(lambda: node.advance("4h"))
    shown = duenotice(node, "maintenance", "show", plan["id"], "--watch", "-o", "json").json()
    assert (shown["status"], shown["progress"]["done"]) == ("done", 5)


def test_a_watched_maintenance_that_is_cancelled_ends_with_1(node: Node, soon: Later) -> None:
    """Not done is not success."""
    plan = node.operate("/v1/maintenances", PLAN)
    soon(lambda: node.operate(f"/v1/maintenances/{plan['id']}/cancel"))
    done = duenotice(node, "maintenance", "show", plan["id"], "--watch", "-o", "name")
    assert (done.code, done.out) == (1, f"{plan['id']}\n")
    assert "is cancelled" in done.err


def test_a_live_view_outlives_a_restart_of_the_service(tmp_path: Path) -> None:
    """It says that the connection is lost, tries again, and goes on where it was: nothing is missed."""
    listen: dict[str, Any] = {"data_dir": str(tmp_path)}
    with Node(DEMO, **listen) as first:
        first.enable("web-0")
        event_id = first.schedule("Reboot", "web-0")
        listen["operator_listen"] = "{}:{}".format(*first.operator_address)
        given = {"DUENOTICE_ENDPOINT": f"http://{listen['operator_listen']}", "DUENOTICE_TOKEN": first.token}
        terminal = Terminal("events", "watch", **given)
        terminal.wait_for(event_id[:8])
    with terminal, Node(DEMO, **listen) as second:
        terminal.wait_for("connection lost, trying again")
        second.advance("15m")
        terminal.wait_for("connected again")
        terminal.wait_for("started")
        terminal.interrupt()
        assert terminal.end() == 130


def test_a_terminal_that_cannot_draw_gets_lines(node: Node) -> None:
    """TERM=dumb, as in an editor: a line for each change, where others see a picture."""
    given = {"DUENOTICE_ENDPOINT": endpoint(node), "DUENOTICE_TOKEN": node.token, "TERM": "dumb"}
    plan = node.operate("/v1/maintenances", PLAN)
    event_id = node.event("web-0")["EventId"]
    with Terminal("events", "watch", event_id, **given) as events, Terminal("maintenance", "show", **given) as shown:
        shown.end()
        events.wait_for(f"{event_id}  Reboot     scheduled")
        with Terminal("maintenance", "show", "--watch", **given) as steps:
            steps.wait_for("under-way  set/web  UD 0  web-0")
            node.advance("30m")
            events.wait_for(f"{event_id}  Reboot     completed")
            steps.wait_for("done       set/web  UD 0  web-0")
            assert events.end() == 0
            node.operate(f"/v1/maintenances/{plan['id']}/cancel")
            assert steps.end() == 1


def test_who_waits_on_such_a_terminal_is_told_too(node: Node, soon: Later) -> None:
    """On standard error, as all progress."""
    given = {"DUENOTICE_ENDPOINT": endpoint(node), "DUENOTICE_TOKEN": node.token, "TERM": "dumb"}
    with Terminal("vm", "restart", "web-0", "--wait", **given) as terminal:
        terminal.wait_for("Reboot     scheduled")
        node.advance("1h")
        assert terminal.end() == 0
        assert "Reboot     completed" in terminal.shown
