"""Every cell can be seen by who sees little contrast: 3:1 against what is behind it, light and dark (WCAG 1.4.11)."""

import re
from pathlib import Path

import pytest

from duenotice.console import app
from duenotice.console.board import WORDS

FOLDER = Path(app.__file__).with_name("static")
CSS = "".join(path.read_text() for path in sorted(FOLDER.glob("*.css")))
COLOURS = {name: pair for name, *pair in re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", CSS)}
BEHIND = ("card", "sunk")
ENOUGH = 3.0


def luminance(colour: str) -> float:
    """As WCAG defines it."""
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def colour_of(state: str) -> str:
    """The name of the colour that a cell in this state is drawn with."""
    rule = re.search(rf'^\.cell\[data-state="{state}"\] {{([^}}]+)}}', CSS, re.M) or re.search(
        r"^\.cell {([^}]+)}", CSS, re.M
    )
    assert rule, state
    named = re.search(r"(?:background|border)[^;]*?var\(--([\w-]+)\)", rule.group(1))
    assert named, rule.group()
    return named.group(1)


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("state", [*WORDS, "silent"])
def test_a_cell_stands_out_from_what_is_behind_it(state: str, behind: str) -> None:
    name = "silent" if state == "silent" else colour_of(state)
    found = [contrast(cell, ground) for cell, ground in zip(COLOURS[name], COLOURS[behind], strict=True)]
    assert min(found) >= ENOUGH, f"--{name} on --{behind}: {found}"


def test_the_measure_is_that_of_wcag() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
