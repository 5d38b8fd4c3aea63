"""The links of our documents: what each points to, and which of them lead nowhere. Pure, apart from reading files.

`python tools/links.py` lists those that are broken.
"""

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_FENCE = re.compile(r"^(```+|~~~+).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_TARGET_OF_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def slug(text: str, _: str = "-") -> str:
    """The anchor of a heading, as GitHub makes it; the site uses the same, so that a link works in both."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def prose(markdown: str) -> str:
    """A text without its code and comments. Positions stay: what is left out becomes spaces."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    for kind in (_FENCE, _COMMENT, _CODE):
        markdown = kind.sub(blank, markdown)
    return markdown


def targets(markdown: str) -> Iterator[tuple[int, int, str]]:
    """Each link outside of code: where its target begins and ends, and the target."""
    for found in _LINK.finditer(prose(markdown)):
        yield found.start(1), found.end(1), found[1]


def anchors(markdown: str) -> set[str]:
    """What a link can name after `#`."""
    text = _COMMENT.sub("", _FENCE.sub("", markdown))
    return {slug(_TARGET_OF_LINK.sub(r"\1", heading).replace("`", "")) for heading in _HEADING.findall(text)}


@cache
def anchors_of(path: Path) -> frozenset[str]:
    """Those of a file."""
    return frozenset(anchors(path.read_text()))


def is_outside(target: str) -> bool:
    """Whether a link leaves our documents."""
    return re.match(r"[a-z]+:", target) is not None


def complaint(path: Path, target: str) -> str:
    """What is wrong with a link of a file; empty if nothing is."""
    place, _, anchor = target.partition("#")
    meant = Path(os.path.normpath(path.parent / place)) if place else path
    if not meant.exists():
        return "there is no such file"
    if anchor and meant.suffix == ".md" and anchor not in anchors_of(meant):
        return f"{meant.name} has no heading with this anchor"
    return ""


def documents(root: Path = ROOT) -> list[Path]:
    """Everything that people read as pages."""
    return [
        *sorted(root.glob("*.md")),
        *sorted((root / "docs").rglob("*.md")),
        *sorted((root / "examples").rglob("*.md")),
    ]


def broken(paths: list[Path], root: Path = ROOT) -> list[str]:
    """Each link that leads nowhere: its file and line, and why."""
    found = []
    for path in paths:
        text = path.read_text()
        for start, _, target in targets(text):
            why = "" if is_outside(target) else complaint(path, target)
            if why:
                found.append(f"{path.relative_to(root)}:{text.count(chr(10), 0, start) + 1}: {target}: {why}")
    return found


if __name__ == "__main__":
    found = broken(documents())
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
