"""ARCHITECTURE.md is a map of the house as it is: what it names is there, and every room is on it."""

import re
from pathlib import Path

from tools.measure_house import classes

ROOT = Path(__file__).parents[2]
HOUSE = ROOT / "src" / "duenotice"
MAP = (ROOT / "ARCHITECTURE.md").read_text()
FLOORS = MAP.split("## Floors")[1].split("\n\n")[1]

CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|toml))")
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def test_every_file_it_names_is_there() -> None:
    """`domain/rules/due.py` in the package, `tests/promises/` in the repository; and links lead somewhere."""
    named = {text for text in CODE.findall(MAP.replace(FLOORS, "")) if PATH.fullmatch(text)} | set(LINK.findall(MAP))
    assert sorted(name for name in named if not ((HOUSE / name).exists() or (ROOT / name).exists())) == []


def floors() -> list[tuple[str, str]]:
    """The rows of the table of floors: the rooms, and what is in them."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in FLOORS.splitlines()[2:]]
    return [(rooms, inside) for _, rooms, inside in rows]


def test_every_room_is_on_the_map() -> None:
    """And nothing is on it that is not a room, or a file beside the rooms."""
    there = {path.name for path in HOUSE.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    there |= {path.stem for path in HOUSE.glob("*.py")} - {"__init__", "__main__", "pytest_plugin"}
    drawn = {name.rstrip("/") for rooms, _ in floors() for name in CODE.findall(rooms)}
    assert drawn == there


def test_what_is_said_to_be_in_a_room_is_there() -> None:
    """A word in code is a file or a folder of the room, or another room."""
    missing = [
        f"{rooms} has no {word}"
        for rooms, inside in floors()
        for word in CODE.findall(inside)
        if re.fullmatch(r"\w+/?", word)
        and not any(_has(place, word) for place in (HOUSE, *(HOUSE / room for room in CODE.findall(rooms))))
    ]
    assert missing == []


def test_the_rules_are_where_it_says() -> None:
    """The paragraph on `domain/` names all its files, by what is in them."""
    (paragraph,) = [text for text in MAP.split("\n\n") if text.startswith("In `domain/`")]
    values, rules = paragraph.split("In `domain/rules/`")
    for room, text in (("domain", values), ("domain/rules", rules)):
        named = {word for word in CODE.findall(text) if re.fullmatch(r"[a-z_]+", word)}
        assert named == {path.stem for path in (HOUSE / room).glob("*.py")} - {"__init__"}


def test_the_classes_that_it_names_are_there() -> None:
    """`Writer`, or `Engine.submit`; a `Transition` is any of many classes, and some words are those of the wire."""
    others = {"NotBefore", "Resources", "Scheduled", "Started", "Transition"}
    named = {text.split(".")[0] for text in CODE.findall(MAP) if re.fullmatch(r"([A-Z][a-z]+)+(\.\w+)?", text)}
    assert sorted(named - others - classes(HOUSE).keys()) == []


def _has(room: Path, word: str) -> bool:
    return (room / word).is_dir() or (room / f"{word}.py").exists()
