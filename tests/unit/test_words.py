"""Everything that a person reads is plain English: some phrases are refused, each with a better word."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

RECORDS = ("docs/decisions/", "docs/benchmarks.md")
"""Records of the past, which are not rewritten."""

BETTER = {
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bwill not do\b": "is not valid",
    r"(?<!\bthere[^a-z])\b(is|are|was) no (?!longer\b)[a-z]+": "is not a …, is not valid, or: does not count as …",
    r", say\b(?!\))|\bsay,": "for example",
    r"\bbreath\b": "at once, or: in the same commit",
    r"\bin vain\b": "for nothing, or: failed",
    r"\bbeyond all\b": "too large, or: out of range",
    r"\bagain is (no|harmless)\b": "approving again does no harm",
    r"\b(bring|brings|brought|bringing) (?:[a-z]+ ){0,3}about\b": "carry out",
    r"\b(come|comes|came) to be\b": "is raised, is made",
    r"\banew\b": "again",
    r"\brightly\b": "correctly",
    r"\bheed(s|ed)?\b": "use, or: follow",
    r"\bwhom\b": "who, or the name of it",
    r"\bof no use\b": "cannot be used",
    r"\bnone of its business\b": "it does not need it",
    r"\bwhich there is not\b": "which does not exist",
    r"\bput to the test\b": "tested",
    r"\bsees to it\b": "makes sure",
    r"\bin the place of\b": "on behalf of, or: instead of",
    r"\blets? nobody in\b": "refuses, or: stops other threads",
    r"\bwho(m)?ever\b": "the client, node or person that …",
    r"\bso (many|much) (seconds|bytes|records|tries|time)\b|\b(seen|by) so much\b": "this many, this much",
    r"\bfor so long\b(?! (as|that)\b)|\bbegins so\b|\bonly so (far|many)\b": "for this long, begins like this, at most",
    r"\b(be|beat|hear|lead|leads|listen|listens|look|used|wait|waits) no more\b": "stop …, or: not … any more",
    r"\b(became|came|comes) of (it|a|an|the|them|work)\b": "its result, what happened to it",
    r"\bforet(ell|ells|old)\b": "predict",
    r"; was it\b": "if it was",
    r"\bpure but for\b": "pure, except for",
}


MADE = ("docs/commands.md", "docs/handlers.md", "docs/rest.md", "docs/settings.md")
"""Made from the source, which is looked at itself."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """What a file says to people, and on which line it begins: strings and comments of Python, all of anything else."""
    source = path.read_text()
    if path.suffix != ".py":
        yield 1, source
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def complaints(path: Path) -> list[str]:
    """Every phrase of a file that a tired reader would have to read twice."""
    where = path.as_posix().removeprefix(f"{ROOT.as_posix()}/")
    return [
        f"{where}:{line + text.count(chr(10), 0, found.start())}: {found.group()!r}; better: {better}"
        for line, text in texts(path)
        for phrase, better in BETTER.items()
        for found in re.finditer(phrase.replace(" ", r"\s+"), text, re.IGNORECASE)
    ]


def pages() -> list[Path]:
    """The source, its templates and stories, the documents, the examples, the Makefile; no records, no copies."""
    tops = ("ARCHITECTURE.md", "CONTRIBUTING.md", "Makefile", "README.md", "SECURITY.md")
    found = [*(ROOT / top for top in tops), *sorted((ROOT / "docs").rglob("*.md"))]
    found += sorted(path for path in (ROOT / "examples").rglob("*") if path.is_file())
    for kind in ("py", "html", "toml", "js"):
        found += sorted((ROOT / "src").rglob(f"*.{kind}"))
    return [path for path in found if not path.relative_to(ROOT).as_posix().startswith((*RECORDS, *MADE))]


def test_no_sentence_has_to_be_read_twice() -> None:
    """The message names the file, the line, the phrase and a better one."""
    assert [complaint for path in pages() for complaint in complaints(path)] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Mend the line.",
        "The body will not do.",
        "'x' is no name for a token.",
        "A full disk, say, stops it.",
        "It is drawn anew.",
        "Whoever asks is that VM.",
        "It waits for so many seconds.",
        "Scopes that are silent listen no more.",
    ],
)
def test_a_hard_phrase_is_found(tmp_path: Path, sentence: str) -> None:
    """In a string, a docstring, a comment and a page alike."""
    for name, text in {
        "a.py": f'"""{sentence}"""\n',
        "b.py": f'x = f"{{1}} {sentence}"  # {sentence}\n',
        "c.md": sentence,
    }.items():
        path = tmp_path / name
        path.write_text(text)
        assert complaints(path)


def test_plain_sentences_are_left_alone(tmp_path: Path) -> None:
    """`There is no` and `is no longer` are plain."""
    path = tmp_path / "a.md"
    path.write_text("There is no VM named x. It is no longer there. Nobody listens.")
    assert complaints(path) == []
