"""Writes the tables of docs/scenarios.md from the tables of the code and the shipped files; --check only compares."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from duenotice.scenarios.kinds import CAST
from duenotice.scenarios.scenario import shipped_names, shipped_scenario
from duenotice.scenarios.verbs import VERBS

PAGE = Path(__file__).parents[1] / "docs" / "scenarios.md"


def _holds(kind: Callable[..., object]) -> str:
    text = (kind.__doc__ or "").rstrip(".")
    return text[0].lower() + text[1:]


def _code(words: Iterable[str]) -> str:
    return " ".join(f"`{word}`" for word in words)


def verbs() -> list[str]:
    """A row for each verb; the options of `expect` have a table of their own."""
    rows = [
        f"| `{name}` | {_holds(verb.value)} | {_code(verb.options) if name != 'expect' else 'below'} | {verb.help} |"
        for name, verb in VERBS.items()
    ]
    return ["| verb | holds | options | what it does |", "|---|---|---|---|", *rows]


def roles() -> list[str]:
    """A row for each kind of role."""
    rows = [f"| `{name}` | {kind.help} | {_code(kind.needs)} |" for name, kind in CAST.items()]
    return ["| `is` | who | what may be asked of it |", "|---|---|---|", *rows]


def shipped() -> list[str]:
    """A row for each scenario, those without a trap first."""
    found = sorted((shipped_scenario(name) for name in shipped_names()), key=lambda one: (bool(one.trap), one.name))
    rows = [f"| `{one.name}` | {one.title} | {one.trap} |" for one in found]
    return ["| scenario | what happens | trap |", "|---|---|---|", *rows]


def redrawn(page: str) -> str:
    """The page with its tables as they should be."""
    for name, table in (("verbs", verbs()), ("roles", roles()), ("shipped", shipped())):
        begin, end = f"<!-- {name}: made by tools/scenarios.py -->\n", f"<!-- /{name} -->"
        before, rest = page.split(begin)
        page = before + begin + "\n".join(table) + "\n" + end + rest.split(end)[1]
    return page


if __name__ == "__main__":
    page = PAGE.read_text()
    if "--check" in sys.argv and page != redrawn(page):
        sys.exit("docs/scenarios.md is not current: run python tools/scenarios.py")
    PAGE.write_text(redrawn(page))
