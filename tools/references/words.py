"""How the generated pages are written: cells of tables, and the note on top."""

from collections.abc import Sequence

COMMAND = "python -m tools.references"


def head(title: str, source: str) -> str:
    """The beginning of a page that nobody edits."""
    return f"# {title}\n\n<!-- Made from {source} by `{COMMAND}`; change that, not this page. -->\n"


def cell(text: str) -> str:
    """A text in one cell: what tables and pages would take for their own is taken for text."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def code(text: str) -> str:
    """A text as code, in a cell."""
    return f"`{text}`".replace("|", "\\|") if text else ""


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A table; the cells are ready."""
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
