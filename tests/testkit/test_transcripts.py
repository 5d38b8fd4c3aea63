"""All rules over what the little clients did: recorded once, so that no clock and no machine has a part in it.

`tests/testkit/record.py` made the transcripts, and the table of what the rules say of each. `test_judging` runs the
clients for real.
"""

from functools import cache

import pytest

from duenotice.testkit.verdicts.verdict import judge
from tests.testkit.little_clients import RIGHT, WRONG
from tests.testkit.record import ABOUT, TABLE, TRANSCRIPTS, kept, section
from tests.testkit.transcript import decode, encode, read, write


@cache
def expected() -> dict[str, str]:
    """The sections of the table, by transcript."""
    about, *sections = TABLE.read_text().rstrip("\n").split("\n\n")
    assert about == ABOUT
    return {one.partition("]")[0].removeprefix("["): one for one in sections}


def test_every_little_client_has_a_transcript_and_every_transcript_a_verdict() -> None:
    """None is forgotten, and none is left over."""
    assert kept() == sorted([*RIGHT, *WRONG]) == sorted(expected())


@pytest.mark.parametrize("how", kept())
def test_the_rules_say_of_a_transcript_what_the_table_says(how: str) -> None:
    """To the word. If the difference is right: `.venv/bin/python -m tests.testkit.record --table`."""
    assert section(how).splitlines() == expected()[how].splitlines()


@pytest.mark.parametrize("how", kept())
def test_a_transcript_breaks_the_rules_that_its_client_is_wrong_in(how: str) -> None:
    """And no other: so a table that was written again by mistake is noticed."""
    found = judge(decode(read((TRANSCRIPTS / f"{how}.jsonl").read_text())))
    assert {finding.rule.id for finding in found.broken} == WRONG.get(how, set())


@pytest.mark.parametrize("how", kept())
def test_a_transcript_loses_nothing_that_is_judged(how: str) -> None:
    """Read and written again it is the same."""
    text = (TRANSCRIPTS / f"{how}.jsonl").read_text()
    assert write(encode(decode(read(text)))) == text
