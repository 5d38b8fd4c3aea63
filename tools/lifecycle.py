"""Draws the life of an event into ARCHITECTURE.md from the one table that rules it; --check only compares."""

import sys
from pathlib import Path

from duenotice.domain.event import MOVES

PAGE = Path(__file__).parents[1] / "ARCHITECTURE.md"
BEGIN, END = "<!-- lifecycle: made by tools/lifecycle.py -->\n", "<!-- /lifecycle -->"


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = [
        f"    {phase.value if phase else '[*]'} --> {after.value}: {act.value}" for (phase, act), after in MOVES.items()
    ]
    ends = set(MOVES.values()) - {phase for phase, _ in MOVES}
    lines += sorted(f"    {end.value} --> [*]" for end in ends)
    return "```mermaid\nstateDiagram-v2\n" + "\n".join(lines) + "\n```\n"


def redrawn(page: str) -> str:
    """The page with the diagram as it should be."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + diagram() + END + rest.split(END)[1]


if __name__ == "__main__":
    page = PAGE.read_text()
    if "--check" in sys.argv and page != redrawn(page):
        sys.exit("ARCHITECTURE.md does not show the lifecycle as it is: run python tools/lifecycle.py")
    PAGE.write_text(redrawn(page))
