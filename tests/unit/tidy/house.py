"""What the tidy tests look at: the files of the package, their syntax trees, and what they import."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
HOUSE = ROOT / "src" / "duenotice"
TESTS = ROOT / "tests"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file; every test here looks at all of them."""
    return ast.parse(path.read_text())


def sources() -> list[Path]:
    """All files of the package."""
    return sorted(HOUSE.rglob("*.py"))


def name_of(path: Path) -> str:
    """A file as people name it: `domain/event.py`, or `tests/promises/rig.py`."""
    return path.relative_to(HOUSE if path.is_relative_to(HOUSE) else ROOT).as_posix()


def functions(path: Path) -> Iterator[Function]:
    """All functions and methods of a file."""
    return (node for node in ast.walk(parsed(path)) if isinstance(node, Function))


def excused(complaints: dict[str, str], exceptions: dict[str, str]) -> None:
    """Fail with every complaint that has no exception, and with every exception that is not needed."""
    wrong = [complaint for name, complaint in complaints.items() if name not in exceptions]
    wrong += [f"{name} needs no exception any more: delete its entry" for name in exceptions if name not in complaints]
    assert not wrong, "\n".join(wrong)


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    dotted = {path.relative_to(HOUSE.parent).with_suffix("").as_posix().replace("/", "."): path for path in sources()}
    return {name.removesuffix(".__init__"): path for name, path in dotted.items()}


@cache
def imported(path: Path) -> frozenset[tuple[str, bool]]:
    """Which modules of ours a file imports when it is loaded, and whether only for types."""
    return frozenset(_imported(parsed(path).body, typing=False))


def _imported(body: Iterable[ast.stmt], typing: bool) -> Iterator[tuple[str, bool]]:
    for node in body:
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "duenotice":
                whole = {f"{module}.{alias.name}" for alias in node.names}
                yield from ((name if name in modules() else module, typing) for name in whole)
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                yield from _imported(node.body, typing=True)
