"""Pages of the docs that are made from code: commands, calls, records, settings, bounds, keys of files and handlers."""

from pathlib import Path

from tools.references import bounds, commands, fleet_file, handlers, records, rest, settings
from tools.references.words import COMMAND

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "bounds.md": bounds.page,
    "commands.md": commands.page,
    "handlers.md": handlers.page,
    "records.md": records.page,
    "rest.md": rest.page,
    "settings.md": settings.page,
    "fleet-file.md": fleet_file.page,
}


def write() -> None:
    """Write all of them."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


def stale(names: tuple[str, ...] = tuple(PAGES)) -> list[str]:
    """Those that do not say what the code says now."""
    return [
        f"docs/{name} is not current: run `{COMMAND}`" for name in names if (DOCS / name).read_text() != PAGES[name]()
    ]
