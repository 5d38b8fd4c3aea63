"""What is logged and how."""

import asyncio
import io
import json
import subprocess
import sys
import threading

import pytest
import structlog
from structlog.testing import capture_logs

from duenotice.bootstrap import logs
from duenotice.bootstrap.logs import (
    WAITING_LINES,
    ChangeLog,
    _as_json,
    _Line,
    _write_all,
    _Writer,
    configure,
)
from duenotice.domain import records as t
from duenotice.domain.apply import fold
from duenotice.domain.plan import Status
from duenotice.domain.state import Scope, State
from tests.unit.domain.build import NOW, listening, schedule, started

SAYS = """
import structlog
from duenotice.bootstrap.logs import configure
configure({form!r})
structlog.get_logger().critical("it burns", action="fire")
"""


@pytest.mark.parametrize(("form", "said"), [("json", True), ("console", True), ("auto", True), ("none", False)])
def test_each_format_says_what_it_should(form: str, said: bool) -> None:
    """And `none` says nothing, not even the worst."""
    done = subprocess.run([sys.executable, "-c", SAYS.format(form=form)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, "it burns" in done.stderr) == (0, said), done.stderr


def test_changes_are_logged_in_order_a_moment_later_or_when_asked_for() -> None:
    """Who asked for a change does not wait for its line in the log."""

    async def main() -> None:
        changes = ChangeLog()
        with capture_logs() as lines:
            for position in (1, 2):
                changes.add([t.Record(position, NOW.at, "test", t.ScopeEnabled(f"vm/{position}"))], State())
            assert lines == []
            while not lines:  # noqa: ASYNC110 - a timer of the loop
                await asyncio.sleep(0)
            changes.add([t.Record(3, NOW.at, "test", t.ScopeDisabled("vm/1"))], State())
            changes.write()
            said = [(line["position"], line["action"], line["scope"], line["event"]) for line in lines]
        assert said == [
            (1, "scope-enabled", "vm/1", "scope enabled"),
            (2, "scope-enabled", "vm/2", "scope enabled"),
            (3, "scope-disabled", "vm/1", "scope disabled"),
        ]

    asyncio.run(asyncio.wait_for(main(), 10))


@pytest.mark.parametrize(("count", "at_once"), [(50, 4), (500, 31)])
def test_changes_are_logged_some_at_a_time_and_more_if_very_many_wait(count: int, at_once: int) -> None:
    """So that VMs are answered in between (S26), and a command does not wait for the lines of all before it."""

    async def main() -> None:
        changes, most = ChangeLog(), 0
        with capture_logs() as lines:
            changes.add([t.Record(n, NOW.at, "test", t.ScopeEnabled(f"vm/{n}")) for n in range(count)], State())
            while len(lines) < count:
                before = len(lines)
                await asyncio.sleep(0)
                most = max(most, len(lines) - before)
            assert most == at_once
        assert [line["position"] for line in lines] == list(range(count))

    asyncio.run(asyncio.wait_for(main(), 10))


def test_more_changes_than_lines_may_wait_are_all_written_with_what_was_true_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large commit has a line for each VM; they are made later, from what their scope was by then."""
    known, stream, count = structlog.get_config(), io.StringIO(), WAITING_LINES + 2000
    monkeypatch.setattr(logs, "_WRITERS", [])

    async def main() -> None:
        changes, state = ChangeLog(), State()
        state.scopes["vm/1"] = Scope(7)
        changes.add([t.Record(n, NOW.at, "test", t.ScopeEnabled("vm/1")) for n in range(count)], state)
        state.scopes["vm/1"] = Scope(8)
        while changes._lines:  # noqa: ASYNC110 - a timer of the loop
            await asyncio.sleep(0.01)
        logs._WRITERS[-1].drain(10)

    try:
        configure("json", stream)
        asyncio.run(asyncio.wait_for(main(), 30))
    finally:
        structlog.configure(**known)
    said = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["position"], line["incarnation"]) for line in said] == [(n, 7) for n in range(count)]


class Gate(io.StringIO):
    """A stream that takes nothing until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = threading.Event()

    def write(self, text: str) -> int:
        self.opened.wait(10)
        return super().write(text)


def test_lines_that_do_not_fit_are_dropped_and_counted_and_all_others_are_written_in_order() -> None:
    gate = Gate()
    writer = _Writer(gate)
    for number in range(WAITING_LINES + 7):
        writer.write(f"{number}\n")
    gate.opened.set()
    writer.drain(10)
    writer.write("last\n")
    writer.drain(10)
    said = gate.getvalue().splitlines()
    noted = [line for line in said if line.startswith("(")]
    assert [line for line in said if line not in noted] == [*map(str, range(WAITING_LINES)), "last"]
    assert noted == ["(7 lines were dropped here)"]


@pytest.mark.parametrize(
    "line",
    [
        {"action": "fire", "vms": ("a", "b"), "count": 3, "none": None, "yes": True, "deep": {"x": [1, {}]}},
        {"text": "\x1b[1mred \x7f \x9b ü € \u2028 end"},
        {"odd": RuntimeError("why"), "bytes": b"x".hex()},
        {"huge": 2**70, "share": 0.25},
    ],
)
def test_a_line_for_machines_is_what_the_standard_library_would_write(line: dict[str, object]) -> None:
    """All of it in ASCII, so that nothing in it acts on a terminal (S28)."""
    said = _as_json(line, repr)
    assert said == json.dumps(line, default=repr)
    assert said.isascii()
    assert said.isprintable()


def test_a_change_is_said_to_machines_as_structlog_would_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same words and order; its time is that of the change."""
    known = structlog.get_config()
    monkeypatch.setattr(logs, "_WRITERS", [])
    stream = io.StringIO()
    try:
        configure("json", stream)
        line = _Line(NOW.at, t.Record(7, NOW.at, "VM ü", t.ScopeEnabled("vm/1")), Scope(3))
        _write_all([line, line])
        structlog.get_logger().info("scope enabled", **line.said())
        logs.drain()
    finally:
        structlog.configure(**known)
    first, second, slowly = stream.getvalue().splitlines()
    assert first == second
    assert list(json.loads(first)) == list(json.loads(slowly))
    assert json.loads(first) == {**json.loads(slowly), "timestamp": f"{NOW.at:%Y-%m-%dT%H:%M:%S}Z"}


@pytest.mark.parametrize(
    ("change", "level"),
    [
        (t.EventFailed("A", "vm/alone", "no power"), "error"),
        (t.MaintenanceChanged("P", Status.FAILED, "1 failed, 0 allowed."), "error"),
        (t.ImpactFailed("A", "vm/alone", 1, "no power"), "warning"),
        (t.MaintenanceChanged("P", Status.DONE), "info"),
        (t.EventCompleted("A", "vm/alone"), "info"),
    ],
)
def test_what_needs_a_person_is_an_error_for_machines_and_people(change: t.Transition, level: str) -> None:
    """A try that is made again is a warning, and all else is told for information."""
    line = _Line(NOW.at, t.Record(7, NOW.at, "test", change))
    assert json.loads(line.for_machines())["level"] == level
    with capture_logs() as lines:
        _write_all([line])
    assert [said["log_level"] for said in lines] == [level]


def test_the_line_of_a_failure_names_the_vms() -> None:
    """Its record does not."""
    state = listening()
    event = started(state, schedule(state, "web-0", "web-2"))
    failed = t.Record(9, NOW.at, "test", t.EventFailed(event.id, event.scope, "no power"))
    fold(state, failed)

    async def main() -> None:
        changes = ChangeLog()
        with capture_logs() as lines:
            changes.add([failed], state)
            changes.write()
        assert [(line["vms"], line["reason"]) for line in lines] == [(("web-0", "web-2"), "no power")]

    asyncio.run(asyncio.wait_for(main(), 10))
