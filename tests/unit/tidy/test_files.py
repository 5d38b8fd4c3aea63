"""What every file of the package keeps: it says what it is for, and it and its functions stay short."""

import ast
import re

import pytest

from tests.unit.tidy.house import ROOT, TESTS, Function, excused, functions, name_of, parsed, sources

MOST_LINES = 400
LONGEST_FUNCTION = 31
MOST_STATEMENTS = 24


def test_every_module_says_what_it_is_for() -> None:
    """Its first sentence is what a reader sees first, and often all that is needed."""
    silent = {
        name_of(path): f"{name_of(path)} begins without a sentence on what it is for"
        for path in [*sources(), *TESTS.rglob("*.py"), *(ROOT / "tools").glob("*.py")]
        if path.read_text().strip() and not ast.get_docstring(parsed(path))
    }
    excused(silent, {})


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    """Aim at 150 lines; a file that grows beyond the limit has become two."""
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in sources()}
    long = {
        name: f"{name} has {lines} lines, more than {MOST_LINES}: it is about two things, so make it two files"
        for name, lines in lengths.items()
        if lines > MOST_LINES
    }
    excused(long, {})


def test_no_function_is_longer_than_a_screen() -> None:
    """Aim at 10 lines. A long table may be long, so lines and statements are counted, each with its own limit."""
    long = {}
    for path in sources():
        for function in functions(path):
            lines, statements = size(function)
            if lines > LONGEST_FUNCTION or statements > MOST_STATEMENTS:
                name = f"{name_of(path)}::{function.name}"
                long[name] = f"{name} has {lines} lines and {statements} statements: give its parts names of their own"
    excused(long, {})


def size(function: Function) -> tuple[int, int]:
    """How many lines a function has from its name on, and how many statements; its docstring does not count."""
    documented = ast.get_docstring(function) is not None
    body = function.body[1:] if documented else function.body
    statements = sum(isinstance(node, ast.stmt) for each in body for node in ast.walk(each))
    said = (function.body[0].end_lineno or 0) - function.body[0].lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - said, statements


NOTHING = {"a", "all", "an", "and", "are", "as", "at", "be", "by", "do", "for", "from", "in", "is", "it", "its"}
NOTHING |= {"of", "on", "one", "or", "something", "that", "the", "this", "to", "what", "with"}
"""Words that say nothing by themselves."""


def test_no_docstring_repeats_the_name() -> None:
    """`close`: "Close it." is noise. It says what it is for or what surprises, or it is left out."""
    idle = {}
    for path in sources():
        for node in ast.walk(parsed(path)):
            if isinstance(node, Function | ast.ClassDef) and says_nothing(node):
                name = f"{name_of(path)}::{node.name}"
                idle[name] = f"{name} says {ast.get_docstring(node)!r}, which its name says already"
    excused(idle, {})


def says_nothing(node: Function | ast.ClassDef) -> bool:
    """Whether a docstring has no word that the name does not have.

    The help of a command is for users, and a method that only passes its call on is explained where it goes.
    """
    said = ast.get_docstring(node)
    is_command = any(".command" in ast.unparse(decorator) for decorator in node.decorator_list)
    passes_on = len(node.body) == 2 and f".{node.name}(" in ast.unparse(node.body[1])
    return said is not None and not (is_command or passes_on) and not words(said) - words(node.name)


def words(text: str) -> set[str]:
    """The words of a sentence or of a name, without their endings."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", text).lower()
    return {
        re.sub(r"(?<=\w{3})(ing|ed|es|s|e)$", "", word) for word in re.findall("[a-z]+", apart) if word not in NOTHING
    }


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        ('def close():\n """Close it."""\n a()\n b()', True),
        ('class StepStatus:\n """The status of a step."""', True),
        ('def post():\n """Do something."""', True),
        ('def close():\n """Close it; what runs outside goes on."""', False),
        ('def close(self):\n """Close it."""\n self.journal.close()', False),
        ('@hosts.command("list")\ndef list_hosts():\n """List hosts."""', False),
        ("def close(): a()", False),
    ],
)
def test_a_docstring_that_says_nothing_is_found(text: str, idle: bool) -> None:
    """Endings and small words do not count; no docstring is better than an idle one."""
    (node,) = ast.parse(text).body
    assert isinstance(node, Function | ast.ClassDef)
    assert says_nothing(node) is idle


def test_a_function_is_measured_without_its_docstring() -> None:
    """Three lines and two statements; what it says to readers is never too long."""
    (function,) = ast.parse('def f():\n    """One.\n\n    Two."""\n    if x:\n        y()\n').body
    assert isinstance(function, ast.FunctionDef)
    assert size(function) == (3, 2)
