"""The contract and the promises are tables in docs/: whoever cites a row finds it there, and each promise is checked.

That each row of the contract has its acceptance test is in test_conformance.py.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools import conformance
from tools.conformance import ID, PROMISES, PROTOCOL, ROOT

CHECKERS = re.compile(r"`((?:tests|simulator)/[\w/.]+)`")
NAMED = re.compile(r"^test_([A-HMN]\d\d|S\d{1,2})_")
FOLDERS = ("src", "tests", "docs", "benchmarks", "examples", "tools", "simulator")
KINDS = {".py", ".md", ".toml", ".html", ".js"}
RECORDS = ("docs/decisions/",)
"""Records of the past may cite what is gone."""


def sayings(path: Path) -> Iterator[tuple[int, str]]:
    """What may cite a row, and its line: in tests what readers read, in the source also what users read."""
    source = path.read_text()
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), start=1)
        return
    if any(ID.search(line.partition("#")[2]) for line in source.splitlines()):  # to take a file apart is slow
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    all_strings = "src" in path.relative_to(ROOT).parts if path.is_relative_to(ROOT) else False
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if named := NAMED.match(node.name):
                yield node.lineno, named[1]
            case ast.ClassDef():
                yield node.lineno, node.name
            case ast.Expr(ast.Constant(str(text))):
                yield node.lineno, text
            case ast.Constant(str(text)) if all_strings:
                yield node.lineno, text


@cache
def citations(path: Path) -> tuple[tuple[int, str], ...]:
    """Every id that a file cites, with the line on which its text begins."""
    return tuple((line, found) for line, text in sayings(path) for found in ID.findall(text))


def files(*folders: str) -> list[Path]:
    """All that people write in these folders; records are left out."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*")) if path.suffix in KINDS]
    return [path for path in found if not path.relative_to(ROOT).as_posix().startswith(RECORDS)]


@cache
def cited(folder: str) -> frozenset[str]:
    """All ids that a folder cites."""
    return frozenset(found for path in files(folder) for _, found in citations(path))


def test_every_id_that_is_cited_is_defined() -> None:
    """A reader who meets `C04` or `S15` finds its sentence in docs/protocol.md or docs/promises.md."""
    defined = conformance.rows(PROTOCOL).keys() | conformance.rows(PROMISES).keys()
    unknown = [
        f"{path.relative_to(ROOT)}:{line} cites {found}, which neither docs/protocol.md nor docs/promises.md defines"
        for path in files(*FOLDERS)
        for line, found in citations(path)
        if found not in defined
    ]
    assert not unknown, "\n".join(unknown)


def test_every_promise_has_a_checker_that_names_it() -> None:
    """The last column of docs/promises.md names files, and each of them names the promise."""
    promises = [row for row in conformance.rows(PROMISES).values() if row.id.startswith("S")]
    wrong = [complaint for row in promises for complaint in unchecked(row)]
    assert not wrong, "\n".join(wrong)


def unchecked(row: conformance.Row) -> Iterator[str]:
    """What is wrong with the last column of a promise."""
    checkers = [ROOT / name for name in CHECKERS.findall(row.note)]
    for path in checkers:
        if not path.exists():
            yield f"{row.id}: docs/promises.md names {path.relative_to(ROOT)}, which does not exist"
        elif row.id not in ID.findall(path.read_text()):
            yield f"{row.id}: {path.relative_to(ROOT)} does not name it, so nobody knows that it checks it"
    if not checkers and ("none yet" not in row.note or row.id in cited("tests")):
        yield f"{row.id}: write the file that checks it into the last column of docs/promises.md"


def test_every_promise_that_the_source_keeps_is_tested() -> None:
    """Also of many nodes: a rule that the source cites has a test that cites it."""
    promised = conformance.rows(PROMISES).keys()
    assert sorted(cited("src") & promised - cited("tests")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""Who may approve (C02-C05, S16)."""', ["C02", "C05", "S16"]),
        ("x = 1  # A09", ["A09"]),
        ("def test_N03_a_zombie() -> None: ...", ["N03"]),
        ("class S1: ...", ["S1"]),
        ('event = "E59"', []),
        ('"""RFC 1123, C1 controls, 2020-07-01."""', []),
    ],
)
def test_a_citation_is_found_where_readers_look(tmp_path: Path, text: str, found: list[str]) -> None:
    """In docstrings, comments and names; the name of an event in a test is not one."""
    path = tmp_path / "x.py"
    path.write_text(text)
    assert [name for _, name in citations(path)] == found


def test_an_id_is_defined_once(tmp_path: Path) -> None:
    """Two rows with one id would be two rules with one name."""
    path = tmp_path / "x.md"
    path.write_text("| S1 | a | b |\n| S1 | c | d |\n")
    with pytest.raises(conformance.Untold, match="defines S1 twice"):
        conformance.rows(path)
