"""All rules over what the little clients did: recorded once, so that no clock and no machine has a part in it.

`tests/testkit/record.py` made the transcripts, and the table of what the rules say of each. `test_judging` runs the
clients for real.
"""

from functools import cache

import pytest

from duenotice.domain.event import EventType, Source
from duenotice.testkit.runner import KINDS
from duenotice.testkit.verdicts.checks import is_led_by_another, is_of_others
from duenotice.testkit.verdicts.evidence import Kind
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


def test_the_tour_has_every_type_source_and_status_of_events_for_every_part_that_a_vm_can_have_in_them() -> None:
    """Its own, a neighbour's, led by another: a client that is wrong about one of them only is caught all the same."""
    found = decode(read((TRANSCRIPTS / "right.jsonl").read_text()))
    parts = {
        "its own": [life for life in found.told if life.resources == (found.vm,)],
        "of others": [life for life in found.told if is_of_others(found, life)],
        "led by another": [life for life in found.told if is_led_by_another(found, life)],
    }
    ends = {Kind(EventType.TERMINATE, Source.USER), Kind(EventType.PREEMPT, Source.PLATFORM)}
    assert {part: {life.kind for life in lives} for part, lives in parts.items()} == {
        "its own": {*KINDS, *ends},
        "of others": {*KINDS, *ends},
        "led by another": {*KINDS},
    }
    shown = {
        part: [[event.status for _, event in found.seen[life.id]] for life in lives] for part, lives in parts.items()
    }
    assert {part for part, lives in shown.items() if all("Started" in one for one in lives if "Scheduled" in one)} == {
        "of others",
        "led by another",
    }  # one of its own is cancelled
    assert {part for part, lives in shown.items() if any(one[0] == "Started" for one in lives)} == {
        "its own",
        "of others",
    }


def test_a_client_that_hangs_was_judged_within_three_times_its_patience() -> None:
    """Ninety seconds for those who wait with the usual patience of thirty."""
    found = decode(read((TRANSCRIPTS / "hangs.jsonl").read_text()))
    assert found.ended - found.begun <= 3 * found.tempo.patience
