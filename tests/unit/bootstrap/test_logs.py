"""What is logged and how."""

import asyncio
import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from duenotice.bootstrap.logs import LINES_AT_ONCE, ChangeLog
from duenotice.domain import transitions as t
from duenotice.domain.state import State
from tests.unit.domain.build import NOW

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


def test_very_many_changes_are_logged_a_few_in_each_turn_of_the_loop() -> None:
    """So that VMs are answered in between (S26)."""

    async def main() -> None:
        changes, most = ChangeLog(), 0
        with capture_logs() as lines:
            changes.add([t.Record(n, NOW.at, "test", t.ScopeEnabled(f"vm/{n}")) for n in range(500)], State())
            while len(lines) < 500:
                before = len(lines)
                await asyncio.sleep(0)
                most = max(most, len(lines) - before)
            assert most == LINES_AT_ONCE
        assert [line["position"] for line in lines] == list(range(500))

    asyncio.run(asyncio.wait_for(main(), 10))
