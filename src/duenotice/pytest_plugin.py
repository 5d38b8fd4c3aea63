"""The pytest plugin: a fixture with a running service, a manual clock and one VM; nothing to set up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from duenotice.testing import ScheduledEvents

# So that pytest shows what differs in these tests too; it loads nothing.
pytest.register_assert_rewrite("duenotice.testkit.journal_contract")


@pytest.fixture
def scheduled_events() -> Iterator[ScheduledEvents]:
    """A Scheduled Events service of this test's own: ask `scheduled_events.url` in place of http://169.254.169.254.

    Its type is `duenotice.testing.ScheduledEvents`. There is one VM, `vm()`; every client is this VM. `fleet(…)` makes
    another fleet. Time passes only by `advance(…)`.
    """
    # Only a test that uses the fixture has to wait for this import.
    try:
        from duenotice.testkit.emulator import Emulator
        from duenotice.testkit.fixture import DEFAULT_VM, ScheduledEvents
    except ModuleNotFoundError as error:
        pytest.fail(f"The fixture scheduled_events needs {error.name}: pip install 'duenotice[test]'", pytrace=False)

    with Emulator(default_vm=DEFAULT_VM) as emulator:
        yield ScheduledEvents(emulator)
