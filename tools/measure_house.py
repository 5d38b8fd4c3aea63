"""Prints how big the house is, room by room: files, lines, lines with `Any`, and class names that mean two things.

`python tools/measure_house.py [FOLDER]` measures src/duenotice, or the same folder of another work tree.
"""

import ast
import sys
from collections import Counter, defaultdict
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[1] / "src" / "duenotice"


def room(path: Path, house: Path) -> str:
    """The folder of the package that a file stands in; `ground` for files beside the folders."""
    parts = path.relative_to(house).parts
    return parts[0] if len(parts) > 1 else "ground"


def classes(house: Path) -> dict[str, list[str]]:
    """Where each class name is defined; names that begin with an underscore stay in their file and do not count."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(house.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(house).as_posix())
    return found


def loose_lines(path: Path) -> int:
    """How many lines use `Any`, or import it."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return len({getattr(n, "lineno", 0) for n in nodes if "Any" in (getattr(n, "id", ""), getattr(n, "name", ""))})


def measure(house: Path) -> list[str]:
    """A line for each room, one for the whole house, and one for each name that is used twice."""
    files, lines, loose = Counter[str](), Counter[str](), Counter[str]()
    for path in sorted(house.rglob("*.py")):
        for name in (room(path, house), "all"):
            files[name] += 1
            lines[name] += len(path.read_text().splitlines())
            loose[name] += loose_lines(path)
    rooms = sorted(files, key=lambda name: (name == "all", name))
    twice = {name: where for name, where in sorted(classes(house).items()) if len(where) > 1}
    return [
        f"{'room':14}{'files':>6}{'lines':>8}{'Any':>6}",
        *(f"{name:14}{files[name]:6}{lines[name]:8}{loose[name]:6}" for name in rooms),
        f"\n{len(twice)} class names mean more than one thing:",
        *(f"  {name}: {', '.join(where)}" for name, where in twice.items()),
    ]


if __name__ == "__main__":
    print(*measure(Path(sys.argv[1]) if sys.argv[1:] else HOUSE), sep="\n")
