"""`docs/soak.md`: the part that `make soak` writes; what was found is written by people."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from duenotice.clock import wall
from simulator.tiers import Round

REPORT = Path(__file__).parents[1] / "docs" / "soak.md"
WHAT = {
    "world": "whole worlds: nodes, fleets, operators, clients and agents, with faults",
    "cluster": "25 busy minutes of three nodes, and an hour in which all comes to rest",
    "drivers": "the same of a node whose impacts are carried out by webhooks or commands",
    "followers": "the same of one node or three with two followers, which answer VMs too",
    "hub": "one node and its followers of hosts, with a model of messages that are lost, late or doubled",
    "scenes": "a scripted situation",
    "agents": "a real agent beside a service that misbehaves",
    "changing": "a real agent whose events change while its handlers work",
    "power": "disks whose power is cut, about a thousand images each",
    "http": "a thousand streams of requests, read by us, h11 and httptools",
    "kills": "a real server under load, killed three times with -9",
    "stories": "random stories of Hypothesis",
}
_BEGIN, _END = "<!-- last run: written by make soak -->", "<!-- /last run -->"


class Ran(Protocol):
    """What a run has counted."""

    rounds: Counter[str]
    sums: dict[str, Counter[str]]
    spent: dict[str, float]
    found: list[tuple[str, Round]]

    def line(self) -> str:
        """All of it in a line."""


def hours(sums: Mapping[str, float]) -> float:
    """Virtual hours."""
    return sums.get("virtual_seconds", 0.0) / 3600


def written(page: str, ran: Ran, cores: int, seed: int) -> str:
    """The page with what was run last in place of what was run before."""
    told = [f"On {wall():%Y-%m-%d}, {cores} cores, from seed {seed}. {ran.line()}.", ""]
    told += [_HEAD, "|---|---|---|---|---|---|---|", *(_row(tier, ran) for tier in ran.sums)]
    for _, found in ran.found:
        told += ["", f"Found: `{_one_line(found.violations[0])}`. Again: `{_one_line(found.replay)}`"]
    block = "\n".join([_BEGIN, *told, _END])
    return re.sub(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", lambda _: block, page, flags=re.DOTALL)


_HEAD = "| part | seeds | seconds of a core | virtual hours | faults | acts | what one seed is |"


def _row(tier: str, ran: Ran) -> str:
    """What a tier has done; worlds without time have neither hours nor acts."""
    sums = ran.sums[tier]
    lived = (f"{hours(sums):.1f}", str(sums["faults"]), str(sums["acts"])) if hours(sums) else ("", "", "")
    return f"| {tier} | {ran.rounds[tier]} | {ran.spent[tier]:.0f} | {' | '.join(lived)} | {WHAT[tier]} |"


def _one_line(text: str) -> str:
    return " ".join(text.replace("`", "'").split())[:300]
