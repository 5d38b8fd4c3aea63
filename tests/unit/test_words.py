"""Everything that a person reads is plain English: phrases and names that are refused, each with a better word.

Phrases are refused everywhere. Names are refused in the rooms that `words.toml` lists as rebuilt.
"""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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


class Refused(NamedTuple):
    """What one room refuses, each with a better word: `words` also inside a name, `names` only as the whole name."""

    words: dict[str, str]
    names: dict[str, str]

    def in_name(self, name: str, is_definition: bool) -> tuple[str, str] | None:
        """The refused word of a name, and what to write instead. `names` are fine for arguments and variables."""
        apart = f"_{snake_case(name)}_"
        for word, better in self.words.items():
            if f"_{word}_" in apart or f"_{word}s_" in apart:
                return word, better
        whole = name.strip("_")
        return (whole, self.names[whole]) if is_definition and whole in self.names else None


TABLE = tomllib.loads((Path(__file__).parent / "words.toml").read_text())
REBUILT: list[str] = TABLE.pop("rebuilt")
EVERYWHERE: dict[str, str] = TABLE.pop("everywhere")["words"]
ROOMS = {room: Refused(EVERYWHERE | told.get("words", {}), told.get("names", {})) for room, told in TABLE.items()}


def snake_case(name: str) -> str:
    """`_CurtainUp` is `curtain_up`, `HTTPHead` is `http_head`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower().strip("_")


def names_in(path: Path) -> Iterator[tuple[int, str, bool]]:
    """The name of a file and all that it gives: line, name, and whether it is more than an argument or a variable."""
    yield 1, path.stem, True
    tree = ast.parse(path.read_text())
    fields_and_constants = {
        target
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef | ast.Module)
        for statement in each.body
        for target in [getattr(statement, "target", None), *getattr(statement, "targets", [])]
    }
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name, True
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name, True
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name, node in fields_and_constants
            case ast.arg(arg=name) | ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield node.lineno, name, False
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield node.lineno, name, False


def files_of(room: str, root: Path) -> list[Path]:
    """A folder of the package or of the repository; `ground` is what stands beside the rooms."""
    package = root / "src" / "duenotice"
    if room == "ground":
        return sorted(package.glob("*.py"))
    return sorted((package / room if (package / room).is_dir() else root / room).rglob("*.py"))


def old_names(room: str, root: Path = ROOT) -> list[str]:
    """Every name in a room that its table refuses."""
    return [
        f"{path.relative_to(root).as_posix()}:{line}: {name!r} has the word {found[0]!r}; better: {found[1]}"
        for path in files_of(room, root)
        for line, name, is_definition in names_in(path)
        if (found := ROOMS[room].in_name(name, is_definition))
    ]


def test_a_rebuilt_room_has_no_old_names() -> None:
    """The message names the file, the line, the name, its word and a better one."""
    assert [room for room in REBUILT if not files_of(room, ROOT)] == [], "words.toml lists rooms that are not there"
    assert [complaint for room in REBUILT for complaint in old_names(room)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_better_word_is_not_refused_in_its_own_room(room: str) -> None:
    """Else whoever follows a complaint gets the next one."""
    refused = ROOMS[room]
    better = [word for text in (refused.words | refused.names).values() for word in re.findall(r"\w+", text)]
    assert [word for word in better if refused.in_name(word, is_definition=True)] == []


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("class _CurtainUp: ...", 1, "curtain"),
        ("\ndef two_curtains(): ...", 2, "curtain"),
        ("async def f(a, *, curtain_up): ...", 1, "curtain"),
        ("lambda curtain: 0", 1, "curtain"),
        ("def f(self):\n self._curtain = 0", 2, "curtain"),
        ("def f():\n for curtain in (): ...", 2, "curtain"),
        ("import a as curtain", 1, "curtain"),
        ("match a:\n case [*curtain]: ...", 2, "curtain"),
        ("CURTAIN: int", 1, "curtain"),
        ("PutOut = 0", 1, "put_out"),
        ("class Lanes: ...", 1, "lane"),
        ("def _hide(self): ...", 1, "hide"),
        ("class A:\n hide: int", 2, "hide"),
        ("class A:\n hide = 0", 2, "hide"),
        ("class NotMember(A): ...", 1, "NotMember"),
        ("_hide = 0", 1, "hide"),
    ],
)
def test_an_old_name_is_found(tmp_path: Path, text: str, line: int, word: str) -> None:
    """Of classes, functions, arguments, attributes and variables; as a word of a longer name too."""
    path = tmp_path / "src" / "duenotice" / "replication" / "reader.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (complaint,) = old_names("replication", tmp_path)
    better = (ROOMS["replication"].words | ROOMS["replication"].names)[word]
    assert complaint.startswith(f"src/duenotice/replication/reader.py:{line}: ")
    assert complaint.endswith(f" has the word {word!r}; better: {better}")


@pytest.mark.parametrize(
    ("room", "file"),
    [
        ("replication", "src/duenotice/replication/curtain.py"),
        ("ground", "src/duenotice/http_call.py"),
        ("tests", "tests/rig.py"),
    ],
)
def test_the_name_of_a_file_is_a_name(tmp_path: Path, room: str, file: str) -> None:
    """In a room of the package, beside its rooms, and in a folder of the repository."""
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.touch()
    (complaint,) = old_names(room, tmp_path)
    assert complaint.startswith(f"{file}:1: {path.stem!r} ")


def test_plain_names_and_other_rooms_are_left_alone(tmp_path: Path) -> None:
    """A common word may name an argument or a variable, and part of a name; each room has its own table."""
    for file, text in {
        "src/duenotice/replication/reader.py": "def hide_all(hide):\n known = curtail = hide.curtain",
        "src/duenotice/engine/curtain.py": "class Curtain: ...",
    }.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert old_names("replication", tmp_path) == []
    assert old_names("engine", tmp_path) == []
