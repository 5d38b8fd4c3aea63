"""The docs site: every document has its place in it, and arrives there with links that work and diagrams as tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tools.site.check import Read, complaints
from tools.site.pages import BESIDE_DOCS, linked, moved, place_of, table, with_tables

ROOT = Path(__file__).parents[3]
READERS = ["Test my application", "Prepare my VMs", "Run the service", "Rehearse", "Reference", "How it works"]
NAV: list[Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]


def test_the_site_is_organised_by_reader() -> None:
    """In this order, after the first page."""
    assert NAV[0] == "index.md"
    assert [title for section in NAV[1:] for title in section] == READERS


def pages_of(entries: list[Any]) -> Iterator[str]:
    """The pages of the menu, section by section."""
    for entry in entries:
        for inner in [entry] if isinstance(entry, str) else entry.values():
            yield from [inner] if isinstance(inner, str) else pages_of(inner)


def test_every_document_is_in_the_menu_once() -> None:
    """What cannot be found is not read."""
    listed = list(pages_of(NAV))
    documents = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    there = {*documents, *BESIDE_DOCS.values()}
    wrong = [f"{page} has no place in nav of mkdocs.yml: add it where its reader looks" for page in there - {*listed}]
    wrong += [f"nav of mkdocs.yml has {page}, which does not exist" for page in {*listed} - there]
    assert wrong == []
    assert len(listed) == len(there)


def test_a_link_is_moved_with_its_page() -> None:
    """Out of docs/ to a page of its own or to a copy of the file; within docs/ it stays; code is left alone."""
    text = "[a](agent.md#x) [b](../SECURITY.md) [c](../action.yml) [d](https://e.org) [e](#f) `[g](../h)`"
    assert moved(text, "docs/testing.md") == (
        "[a](agent.md#x) [b](security.md) [c](source/action.yml) [d](https://e.org) [e](#f) `[g](../h)`"
    )
    assert moved("[a](docs/agent.md)", "ARCHITECTURE.md") == "[a](agent.md)"
    assert moved("[a](../agent.md)", "docs/decisions/0001.md") == "[a](../agent.md)"
    assert moved("[a](../../docs/client.md)", "examples/clients/README.md") == "[a](../../../client.md)"


def test_what_a_document_links_to_comes_along() -> None:
    """By its path in the repository."""
    assert linked("[a](../action.yml) [b](#c) [d](agent.md#e)", "docs/testing.md") == {"action.yml", "docs/agent.md"}
    assert place_of("action.yml") == "source/action.yml"


def test_a_flowchart_becomes_a_table() -> None:
    """An arrow a row, with the names as people read them."""
    chart = 'flowchart LR\n    a["one<br/>two"] --> b{ok?}\n    b -- "no: stop" --> c[end]\n    b -- yes --> d --> a\n'
    assert table(chart).splitlines()[2:] == [
        "| one two |  | ok? |",
        "| ok? | no: stop | end |",
        "| ok? | yes | d |",
        "| d |  | one two |",
    ]


def test_a_state_diagram_becomes_a_table() -> None:
    """The act stands between two states."""
    text = "before\n```mermaid\nstateDiagram-v2\n    [*] --> scheduled: raise\n    scheduled --> [*]\n```\nafter\n"
    assert with_tables(text).splitlines() == [
        "before",
        "| from | | to |",
        "|---|---|---|",
        "| (nothing) | raise | scheduled |",
        "| scheduled |  | (nothing) |",
        "",
        "after",
    ]


def test_a_page_is_read_for_what_it_loads_and_what_was_not_understood() -> None:
    """A link is no load; Markdown that is left over is told, unless it is code."""
    page = Read('<a href="x#y">l</a><img src="//cdn/z.png"><h2 id="y">t</h2><p>a:\n- b</p><pre>- c\n| d</pre>')
    assert (page.links, page.loads, page.anchors, page.odd) == (["x#y"], ["//cdn/z.png"], {"y"}, ["- b"])


def test_what_is_wrong_with_a_built_site_is_told(tmp_path: Path) -> None:
    """A link to nothing, an anchor that is not there, and whatever would be asked of another site."""
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">ok</a><a href="b.html#not">x</a><a href="c.html">y</a><a href="https://e.org">z</a>'
        '<script src="https://cdn.example/x.js"></script>'
    )
    (tmp_path / "b.html").write_text('<h2 id="there">t</h2>')
    (tmp_path / "s.css").write_text("@import url(//fonts.example/f.css);")
    assert list(complaints(tmp_path)) == [
        "a.html: b.html#not: there is no such anchor",
        "a.html: c.html leads nowhere",
        "a.html: loads https://cdn.example/x.js from outside",
        "s.css: loads url(//fonts.example/f.css from outside",
    ]
