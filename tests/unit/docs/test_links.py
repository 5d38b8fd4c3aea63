"""No link of our documents leads nowhere: neither to a file nor to a heading."""

from pathlib import Path

import pytest

from tools.links import anchors, broken, documents, slug, targets


def test_no_link_leads_nowhere() -> None:
    """In docs/, beside it and in the examples; the site is looked at by `make docs`."""
    assert broken(documents()) == []


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("The agent's own port", "the-agents-own-port"),
        ("Looking for longer: `make soak`", "looking-for-longer-make-soak"),
        ("GET /v1/vms/{name}", "get-v1vmsname"),
        ("What it promises, and what that costs", "what-it-promises-and-what-that-costs"),
    ],
)
def test_an_anchor_is_the_one_of_github(heading: str, anchor: str) -> None:
    """Small letters and dashes, and no punctuation."""
    assert slug(heading.replace("`", "")) == anchor
    assert anchors(f"# Top\n\n## {heading}\n") == {"top", anchor}


def test_code_has_no_links_and_no_headings() -> None:
    """Neither in a block nor in a line."""
    text = "```sh\n# a\n[a](b.md)\n```\n`[c](d.md)` and [`e`](f.md), [over\nlines](#g)\n"
    assert [target for _, _, target in targets(text)] == ["f.md", "#g"]
    assert anchors(text) == set()


def test_a_broken_link_is_told_with_its_line(tmp_path: Path) -> None:
    """A file that is not there, and a heading that is not there; what leaves our documents is not asked."""
    page = tmp_path / "a.md"
    page.write_text("# A\n[b](b.md)\n[c](#c) [a](#a) [web](https://example.org/x)\n[self](a.md#d)\n")
    assert broken([page], tmp_path) == [
        "a.md:2: b.md: there is no such file",
        "a.md:3: #c: a.md has no heading with this anchor",
        "a.md:4: a.md#d: a.md has no heading with this anchor",
    ]
