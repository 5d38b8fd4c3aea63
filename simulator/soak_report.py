"""`docs/soak.md`: the part that `make soak` writes; what was found is written by people."""

import re
from collections.abc import Mapping
from pathlib import Path

from duenotice.clock import wall

REPORT = Path(__file__).parents[1] / "docs" / "soak.md"
WHAT = {
    "world": "whole worlds: nodes, fleets, operators, clients and agents, with faults",
    "agents": "a real agent beside a service that misbehaves",
    "power": "disks whose power is cut, about a thousand images each",
    "http": "a thousand streams of requests, read by us, h11 and httptools",
    "kills": "a real server under load, killed three times with -9",
    "stories": "random stories of Hypothesis",
}
_BEGIN, _END = "<!-- last run: written by make soak -->", "<!-- /last run -->"


def written(page: str, line: str, rounds: Mapping[str, int], cores: int, seed: int) -> str:
    """The page with what was run last in place of what was run before."""
    rows = [f"| {tier} | {count} | {WHAT[tier]} |" for tier, count in rounds.items()]
    table = ["| part | seeds | what one seed is |", "|---|---|---|", *rows]
    told = [f"On {wall():%Y-%m-%d}, {cores} cores, from seed {seed}. {line}.", "", *table]
    block = "\n".join([_BEGIN, *told, _END])
    return re.sub(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", lambda _: block, page, flags=re.DOTALL)
