"""Every command line in our documents is one that the program takes: its words and its flags are there."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from duenotice.cli.main import duenotice
from tools.links import ROOT, documents

_BLOCK = re.compile(r"^```(?:sh|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^(?:[$#] )?(?:[A-Z_]+=\S+ )*(?:event=\$\(|plan=\$\()?(?:\S*/)?duenotice ([^\n]*)", re.MULTILINE)
_NOT_YET = re.compile(
    r"^(?!.*first release).*(?:git clone|helm repo|uses: duenotice/"
    r"|pipx? (?:install|run) [^`\n]*(?<![\w/])duenotice(?![-\w])).*",
    re.MULTILINE,
)
"""What can only work when there is a release, in a line that does not say so."""
_END = re.compile(r" +#.*| [|&]+( .*)?$| >.*|\)+$")


def command_lines(text: str) -> Iterator[str]:
    """What follows `duenotice` in the blocks of a document that are typed into a shell."""
    for block in _BLOCK.findall(text):
        for line in _LINE.findall(block.replace("\\\n", " ")):
            yield _END.sub("", line)


def complaint(line: str) -> str:
    """What the program would not understand of a line; values are not looked at."""
    words = shlex.split(line)
    command: click.Command = duenotice
    # With its settings: click keeps the help option of a command as the first context has it.
    context = click.Context(duenotice, info_name="duenotice", **duenotice.context_settings)
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        try:
            _, found, words = command.resolve_command(context, words)
        except click.UsageError as error:
            return error.message
        assert found is not None
        command, context = found, click.Context(found, info_name=found.name, parent=context)
    known = {flag for option in command.get_params(context) for flag in (*option.opts, *option.secondary_opts)}
    ours = words[: words.index("--")] if "--" in words else words
    flags = [word.partition("=")[0] for word in ours if re.match(r"--?[a-z]", word)]
    return ", ".join(f"there is no {flag}" for flag in flags if flag not in known)


@pytest.mark.parametrize("path", documents(), ids=lambda path: Path(path).relative_to(ROOT).as_posix())
def test_every_command_line_would_be_understood(path: Path) -> None:
    """A flag that was renamed is found here, and not by a reader."""
    lines = list(command_lines(path.read_text()))
    assert [f"{line}: {why}" for line in lines if (why := complaint(line))] == []


def test_the_documents_have_command_lines() -> None:
    """Else this looks at nothing."""
    assert sum(len(list(command_lines(path.read_text()))) for path in documents()) > 100


def test_nothing_is_fetched_that_nobody_has_published() -> None:
    """There is no release: what is installed comes from a clone, and what will come later is marked as such."""
    pages = [*documents(), *(ROOT / "examples").rglob("*.y*ml")]
    found = [(page.name, line) for page in pages for line in _NOT_YET.findall(page.read_text())]
    assert found == [], "name a file in dist/ instead, or say in the line that it comes with the first release"


@pytest.mark.parametrize(
    ("line", "is_too_early"),
    [
        ("pip install 'duenotice[server]'", True),
        ("pip install --upgrade duenotice", True),
        ("From the first release on, `pip install duenotice` will do.", False),
        ('pip install "$(ls dist/duenotice-*.whl)[server]"', False),
        ("pip install pytest hypothesis", False),
        ("      - uses: duenotice/duenotice@main", True),
    ],
)
def test_a_command_that_is_too_early_is_found(line: str, is_too_early: bool) -> None:
    """A name of the package; neither a file of it, nor other packages."""
    assert bool(_NOT_YET.search(line)) is is_too_early


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("vm restart web-0 --wait", ""),
        ("vm restart web-0 --later", "there is no --later"),
        ("vm explode", "There is no command 'explode'."),
        ("run --patience 5s -- ./agent --its-own", ""),
    ],
)
def test_a_line_that_is_wrong_is_told(line: str, why: str) -> None:
    """Its word or its flag."""
    assert complaint(line) == why
