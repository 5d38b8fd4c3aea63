"""The contract of journals in a stranger's suite: the page is true, and a journal that is wrong is found out."""

import re
from pathlib import Path

import pytest

from tests.testkit.test_plugin import PLUGIN

pytest_plugins = ["pytester"]
PAGE = (Path(__file__).parents[2] / "docs" / "journals.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PLAIN_ONES = ("-k", "not every_transition and not every_snapshot")

RIGHT = """
from duenotice.store.memory import MemoryJournal
KEPT = {}
def MyJournal(folder):
    return KEPT.setdefault(folder, MemoryJournal())
"""
FORGETFUL = "from duenotice.store.memory import MemoryJournal\ndef MyJournal(folder): return MemoryJournal()\n"
ONE_BY_ONE = """
from duenotice.store.memory import MemoryJournal
KEPT = {}
class OneByOne(MemoryJournal):
    def append(self, records):
        for record in records:
            super().append([record])
def MyJournal(folder):
    return KEPT.setdefault(folder, OneByOne())
"""


def outcomes(pytester: pytest.Pytester, journal: str) -> tuple[pytest.RunResult, set[str]]:
    pytester.makepyfile(my_journal=journal, test_mine=EXAMPLE)
    result = pytester.runpytest_subprocess(*PLUGIN, *PLAIN_ONES, "-rf", "-W", "error")
    return result, set(re.findall(r"^FAILED test_mine.py::TestMyJournal::(\w+)", result.stdout.str(), re.MULTILINE))


def test_a_journal_that_keeps_its_promises_passes(pytester: pytest.Pytester) -> None:
    """The example of the page, copied as it stands."""
    result, failed = outcomes(pytester, RIGHT)
    assert (result.ret, failed) == (0, set())


def test_a_journal_that_forgets_at_a_restart_is_found_out(pytester: pytest.Pytester) -> None:
    assert outcomes(pytester, FORGETFUL)[1] >= {
        "test_everything_is_there_after_a_restart",
        "test_how_far_readers_have_seen_it_is_remembered",
    }


def test_a_journal_that_stores_half_of_an_append_is_found_out(pytester: pytest.Pytester) -> None:
    """And what differs is shown, as pytest does it for one's own tests."""
    result, failed = outcomes(pytester, ONE_BY_ONE)
    assert failed == {"test_positions_have_no_gaps", "test_an_append_that_cannot_be_encoded_leaves_nothing"}
    assert "At index" in result.stdout.str() or "assert 1 == 0" in result.stdout.str()
