"""docs/troubleshooting.md: each sentence of its tables is one that our programs can say, word for word."""

import ast
import re
from collections.abc import Iterator

from tools.links import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
MEANINGS = dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", PAGE, re.MULTILINE))


def texts(source: str) -> Iterator[str]:
    """What a module says; `…` stands for what is known only when it runs."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.JoinedStr(values=parts):
                told = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
                yield re.sub("…+", "…", told)
            case ast.Constant(value=str(told)):
                yield told.replace("{}", "…")


def words(text: str) -> set[str]:
    return {*re.findall(r"\w{4,}", text)}


def test_each_sentence_is_one_that_the_programs_say() -> None:
    """When a message changes, this names the row to change with it. An `…` at an end only says that it goes on."""
    sources = [path.read_text() for path in (ROOT / "src" / "duenotice").rglob("*.py")]
    said = {sentence: sentence.removeprefix("… ").removesuffix(" …") for sentence in MEANINGS}
    for source in sources:
        known = words(source)
        if any(words(part) <= known for part in said.values()):  # to parse all of them takes seconds
            found = "\n".join(texts(source))
            said = {sentence: part for sentence, part in said.items() if part not in found}
    assert [*said] == []


def test_thirty_messages_are_explained() -> None:
    """Each once, with more than its own words."""
    assert len(MEANINGS) >= 30
    assert PAGE.count("\n| `") == len(MEANINGS), "a row has an odd form, or a sentence stands twice"


def test_what_a_module_says_is_read_with_its_gaps() -> None:
    """A text with values in it, one in two pieces, and one that is filled in later."""
    source = 'a = f"No VM {name!r} on {a}{b}."\nb = ("It " "ends.")\nc = "Nobody on {}."\n'
    assert {"No VM … on ….", "It ends.", "Nobody on …."} <= {*texts(source)}
