"""What becomes of our documents on the site: links that point elsewhere there, and diagrams as tables. Pure."""

import os
import re
from pathlib import PurePosixPath

from tools.links import is_outside, targets

BESIDE_DOCS = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
}
"""Documents at the top of the repository, and their pages."""

_MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EDGE = re.compile(r"\s*(?:-- (.*?) )?-->\s*")
_NODE = re.compile(r"(\w+|\[\*\])(?:\[(.*)\]|\{(.*)\})?", re.DOTALL)


def place_of(path: str) -> str:
    """Where a file of the repository is on the site: `docs/agent.md` is agent.md, `action.yml` is source/action.yml."""
    if path in BESIDE_DOCS:
        return BESIDE_DOCS[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}"


def linked(text: str, path: str) -> set[str]:
    """The files of the repository that a document links to."""
    folder = PurePosixPath(path).parent
    places = {target.partition("#")[0] for _, _, target in targets(text) if not is_outside(target)}
    return {os.path.normpath(folder / place) for place in places if place}


def moved(text: str, path: str) -> str:
    """A document of the repository with the links that it needs on the site."""
    folder, here = PurePosixPath(path).parent, PurePosixPath(place_of(path)).parent
    for start, end, target in reversed(list(targets(text))):
        place, hash_, anchor = target.partition("#")
        if place and not is_outside(target):
            there = os.path.relpath(place_of(os.path.normpath(folder / place)), here)
            text = f"{text[:start]}{there}{hash_}{anchor}{text[end:]}"
    return text


def with_tables(text: str) -> str:
    """A document whose Mermaid diagrams are tables: the site loads no program that could draw them."""
    return _MERMAID.sub(lambda found: table(found[1]), text)


def table(diagram: str) -> str:
    """A flowchart or a state diagram as a table, an arrow a row."""
    kind, *lines = diagram.strip().splitlines()
    names: dict[str, str] = {}
    rows = [row for line in lines for row in _arrows(line.strip(), kind.startswith("state"), names)]
    body = [f"| {names[before]} | {label} | {names[after]} |" for before, label, after in rows]
    return "\n".join(["| from | | to |", "|---|---|---|", *body, ""])


def _arrows(line: str, is_state: bool, names: dict[str, str]) -> list[tuple[str, str, str]]:
    """The arrows of a line; what each name is called is noted where it is first said."""
    line, _, act = line.partition(": ") if is_state else (line, "", "")
    parts = _EDGE.split(line)
    nodes = [_named(part, names) for part in parts[::2]]
    labels = [act or (label or "").strip('"') for label in parts[1::2]]
    return list(zip(nodes, labels, nodes[1:], strict=False))


def _named(text: str, names: dict[str, str]) -> str:
    found = _NODE.fullmatch(text)
    assert found, f"{text!r} is not a node of a diagram that the site can show"
    said = (found[2] or found[3] or "").strip('"').replace("<br/>", " ")
    if said or found[1] not in names:
        names[found[1]] = said or ("(nothing)" if found[1] == "[*]" else found[1])
    return found[1]
