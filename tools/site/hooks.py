"""What mkdocs does with our documents beside its own work: pages from outside docs/, tables that scroll, the search."""

import html
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from mkdocs.structure.files import File, InclusionLevel  # noqa: E402

from tools.links import slug  # noqa: E402
from tools.site.pages import BESIDE_DOCS, linked, moved, place_of, with_tables  # noqa: E402

ICON = ROOT / "src" / "duenotice" / "console" / "static" / "icon.svg"
LESS = {"conformance.html": 0.2, "changelog.html": 0.4}
"""Long lists, in which nearly every word is: what explains a word comes before them."""
_SOURCES: dict[str, str] = {}
"""The page of the site, and the document that it is made from."""


def on_config(config: Any) -> Any:
    """Anchors as on GitHub, so that a link works in both places."""
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the documents beside docs/, and the files that documents link to."""
    waiting = [f"docs/{file.src_uri}" for file in files if file.src_uri.endswith(".md")]
    waiting += [path for path, page in BESIDE_DOCS.items() if page != "index.md"]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        if path.endswith(".md"):
            text = (ROOT / path).read_text()
            _SOURCES[place_of(path)] = path
            more = {other for other in linked(text, path) if (ROOT / other).is_file()} - seen
            seen |= more
            waiting += more
        if not path.startswith("docs/") and path != "README.md":
            level = InclusionLevel.INCLUDED if path in BESIDE_DOCS else InclusionLevel.NOT_IN_NAV
            files.append(File.generated(config, place_of(path), abs_src_path=str(ROOT / path), inclusion=level))
    files.append(File.generated(config, "icon.svg", abs_src_path=str(ICON)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The document as the site needs it."""
    return with_tables(moved(markdown, _SOURCES[page.file.src_uri]))


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """A wide table scrolls by itself, also with the keyboard; and code in it has its `|`, as on GitHub."""
    content = re.sub(r"<td>.*?</td>", lambda cell: cell[0].replace("\\|", "|"), content, flags=re.DOTALL)
    content = re.sub(r"<table>", '<div class="wide" tabindex="0" role="region" aria-label="Table"><table>', content)
    return content.replace("</table>", "</table></div>")


def on_post_build(config: Any) -> None:
    """The sections that search.js looks through, as a script."""
    folder = Path(config.site_dir) / "search"
    found = json.loads((folder / "search_index.json").read_text())["docs"]
    pages = {one["location"]: html.unescape(one["title"]) for one in found if "#" not in one["location"]}
    sections = [
        {
            "location": one["location"],
            "title": html.unescape(one["title"]),
            "page": pages[one["location"].partition("#")[0]],
            "text": " ".join(html.unescape(one["text"]).split()),
            "weight": LESS.get(one["location"].partition("#")[0], 0.6 if "decisions/" in one["location"] else 1),
        }
        for one in found
        if "#" in one["location"]
    ]
    (folder / "sections.js").write_text(f"window.SECTIONS = {json.dumps(sections, ensure_ascii=False)};\n")
    (folder / "search_index.json").unlink()
