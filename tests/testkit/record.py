"""Records the little clients again: `.venv/bin/python -m tests.testkit.record [HOW ...]`, all of them without names.

Each client runs in real time and is judged; what it did is cut down and kept in `transcripts/`. Then the table of
verdicts is written again from the transcripts; with `--table` only this is done. A changed rule needs no more than the
table. A changed tour or client needs a recording, on a quiet machine. Read what has changed before you commit it.
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from duenotice.testkit.suite import TRIALS
from duenotice.testkit.verdicts.evidence import Evidence
from duenotice.testkit.verdicts.verdict import PASSED, judge
from tests.testkit.little_clients import DIE, FROM_LIFE, RIGHT, WRONG, judged, trials_about
from tests.testkit.transcript import Line, decode, encode, read, write

TRANSCRIPTS = Path(__file__).parent / "transcripts"
TABLE = TRANSCRIPTS / "verdicts.txt"
ABOUT = (
    "# What the rules say of each transcript; a rule that is not named has passed. tests/testkit/record.py writes it."
)

WHOLE_TOUR = {*RIGHT, *FROM_LIFE, *DIE, "alive", "comes-back", "crowding", "hangs", "newer", "pace"}
"""Whoever is recorded in all trials; the others are in those about the rule that they break."""

AT_ONCE = 6
GAP_SECONDS = 2.0
"""Polls that show nothing new are left out, but no silence becomes longer than this, half of the patience."""

OF_ITS_OWN = {"at", "request", "after"}
"""In what a poll may differ from the one that it repeats."""

_EVENT_ID = re.compile("[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", re.IGNORECASE)


def record(how: str) -> str:
    """Let a client run and keep what it did; why that was not possible, if it was not."""
    found: list[Evidence] = []
    with TemporaryDirectory() as folder:
        trials = TRIALS if how in WHOLE_TOUR else trials_about(how)
        verdict = judged(Path(folder) / "client", how, trials, found.append)
    if (broken := {finding.rule.id for finding in verdict.broken}) != WRONG.get(how, set()):
        return f"{how} broke {broken}, so it was not recorded: the machine is too busy, or a rule is wrong"
    text = with_short_ids(write(encode(found[0])))
    (TRANSCRIPTS / f"{how}.jsonl").write_text(write(cut_down(read(text))))
    return ""


def with_short_ids(text: str) -> str:
    """Events are called E1, E2, … in the order of time."""
    short: dict[str, str] = {}
    return _EVENT_ID.sub(lambda found: short.setdefault(found[0].upper(), f"E{len(short) + 1}"), text)


def cut_down(lines: list[Line]) -> list[Line]:
    """Without polls that repeat the line before and are repeated by the line after, if the verdict stays the same."""
    expected, index = rules_about(lines), 2
    while index < len(lines) - 1:
        less = lines[:index] + lines[index + 1 :]
        if is_repeated(*lines[index - 1 : index + 2]) and rules_about(less) == expected:
            lines = less
        else:
            index += 1
    return lines


def is_repeated(before: Line, line: Line, after: Line) -> bool:
    """Whether three lines say the same, and the time between the outer two is short."""
    first, second, third = ({key: one[key] for key in one.keys() - OF_ITS_OWN} for one in (before, line, after))
    is_get = line.get("request", "").startswith("GET")
    return is_get and first == second == third and after["at"] - before["at"] <= GAP_SECONDS


def rules_about(lines: list[Line]) -> list[str]:
    """What the verdict on a transcript says, line by line, beside the rules that have passed in all their parts."""
    verdict = judge(decode(lines))
    broken = [f"{one.outcome:<10} {one.rule.id}: {words}" for one in verdict.broken for words in one.said]
    left = [f"not tried  {why}: {' '.join(rules)}" for why, rules in verdict.not_tried.items()]
    partly = [f"partly     {one.rule.id}: {one.why}" for one in verdict.findings if one.outcome == PASSED and one.why]
    return [*broken, *left, *partly, *(f"remark     {words}" for words in verdict.remarks)]


def section(how: str) -> str:
    """What the table says of one transcript: the rules, and the numbers that reports show."""
    lines = read((TRANSCRIPTS / f"{how}.jsonl").read_text())
    numbers = ", ".join(f"{name} {value}" for name, value in judge(decode(lines)).seen.items())
    return "\n".join([f"[{how}]", *rules_about(lines), f"seen       {numbers}"])


def kept() -> list[str]:
    """The clients of which there is a transcript."""
    return sorted(file.stem for file in TRANSCRIPTS.glob("*.jsonl"))


def main(arguments: list[str]) -> None:
    """Record a few at a time: they hardly do anything but wait, but each starts a Python."""
    hows = [] if arguments == ["--table"] else arguments or [*RIGHT, *WRONG]
    TRANSCRIPTS.mkdir(exist_ok=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        failed = [why for why in pool.map(record, hows) if why]
    sys.stderr.writelines(f"{why}\n" for why in failed)
    TABLE.write_text("\n\n".join([ABOUT, *map(section, kept())]) + "\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(sys.argv[1:])
