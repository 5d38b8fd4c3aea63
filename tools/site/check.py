"""Looks at the built site: no link leads nowhere, no page loads anything from outside, and the search finds things.

    python -m tools.site.check .run/docs

The last two are seen in Chromium (Debian package chromium-headless-shell), on http and on files.
"""

import re
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag

LOADS = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}
"""What a browser fetches by itself; a link (`a`) is only followed by people."""
BROWSERS = ("/usr/bin/chromium", "/usr/bin/chromium-headless-shell")
WANTED = {
    "terminate_notice": "fleet-file.html",
    "DUENOTICE_TOKEN_FILE": "settings.html",
    "/v1/vms/{name}/restart": "rest.html",
    "maintenance retry": "commands.html",
    "spot-eviction": "scenarios.html",
}
"""What people look for, and a page that has to be among what is found."""
NARROW = {"width": 320, "height": 640}
LOOKS: list[tuple[Any, Any]] = [("light", {"width": 1360, "height": 900}), ("dark", NARROW)]
AXED = ("index", "tutorial", "fleet-file", "promises")
"""Pages of each form that the site has; axe takes a second for each."""


class Read(HTMLParser):
    """A page: its anchors, its links, what it loads, and text that looks like Markdown that was not understood."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.odd: list[str] = []
        self._inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._inside.append(tag)
        self.anchors |= {values["id"]} if "id" in values else set()
        self.links += [values["href"]] if tag == "a" and "href" in values else []
        self.loads += [values[LOADS[tag]]] if LOADS.get(tag, "") in values else []

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "pre" not in self._inside and "code" not in self._inside:
            self.odd += re.findall(r"(?m)^(?:[-*] |\||#+ |```).*", data)


def complaints(folder: Path) -> Iterator[str]:
    """What is wrong with the files of the site."""
    pages = {path: Read(path.read_text()) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(folder)
        yield from (f"{name}: this is not understood as Markdown: {line}" for line in page.odd)
        for target in page.links + page.loads:
            if re.match(r"[a-z]+:|//", target):
                yield from [f"{name}: loads {target} from outside"] if target in page.loads else []
                continue
            place, anchor = urldefrag(unquote(target))
            meant = (path.parent / place).resolve() if place else path
            if not meant.is_file():
                yield f"{name}: {target} leads nowhere"
            elif anchor and meant in pages and anchor not in pages[meant].anchors:
                yield f"{name}: {target}: there is no such anchor"
    for path in [*folder.rglob("*.css"), *folder.rglob("*.svg"), *folder.glob("*.js")]:
        if found := re.search(r"(?:@import|url\(|src=|href=)\s*[\"']?(?:https?:)?//[^\s\"')]+", path.read_text()):
            yield f"{path.relative_to(folder)}: loads {found[0]} from outside"


class Quiet(SimpleHTTPRequestHandler):
    """Serves the site, and does not log."""

    def log_message(self, *_: Any) -> None:
        pass


def in_a_browser(folder: Path) -> Iterator[str]:
    """What is wrong with the pages as people see them."""
    from playwright.sync_api import sync_playwright

    browser_file = next((path for path in BROWSERS if Path(path).exists()), None)
    if browser_file is None:
        yield "there is no Chromium: install the Debian package chromium-headless-shell"
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_port}"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_file)
        page = browser.new_page(viewport=NARROW)  # type: ignore[arg-type]
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: asked.append(f"error of a script: {error}"))
        for path in sorted(folder.rglob("*.html")):
            page.goto(f"{origin}/{path.relative_to(folder)}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > NARROW["width"]:
                yield f"{path.relative_to(folder)}: is {wide} pixels wide on a screen of {NARROW['width']}"
        for start in (origin, folder.resolve().as_uri()):
            page.goto(f"{start}/index.html")
            for text, wanted in WANTED.items():
                yield from _searched(page, start, text, wanted)
        for scheme, size in LOOKS:
            yield from _for_everybody(browser.new_page(viewport=size, color_scheme=scheme), origin, scheme)
        browser.close()
        yield from (f"asks {url}" for url in asked if not url.startswith((origin, folder.resolve().as_uri())))
    server.shutdown()


def _for_everybody(page: Any, origin: str, scheme: str) -> Iterator[str]:
    """What axe finds serious, for keyboards, screen readers and eyes."""
    axe = (files("axe_core_python") / "axe.min.js").read_text()
    for name in AXED:
        page.goto(f"{origin}/{name}.html")
        page.evaluate(axe)
        found = page.evaluate("async () => (await axe.run({ preload: false })).violations")
        wrong = [one for one in found if one["impact"] in ("serious", "critical")]
        yield from (f"{name}.html, {scheme}: {one['id']}: {one['nodes'][0]['html'][:160]}" for one in wrong)


def _searched(page: Any, start: str, text: str, wanted: str) -> Iterator[str]:
    page.get_by_role("searchbox").fill("")
    page.locator("#found[hidden]").wait_for(state="attached")
    page.get_by_role("searchbox").fill(text)
    page.locator("#found:not([hidden])").wait_for()
    found = [link.get_attribute("href") for link in page.locator("#found a").all()]
    if not any(wanted in (link or "") for link in found):
        yield f"{start}: a search for {text!r} does not find {wanted}, but {found}"


def main(folder: Path) -> int:
    """Say what is wrong, or how much was looked at."""
    wrong = [*complaints(folder), *in_a_browser(folder)]
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    if not wrong:
        pages = len(list(folder.rglob("*.html")))
        print(
            f"{pages} pages: no link leads nowhere, nothing is loaded from outside, the search works, axe is content."
        )
        print(f"Open {folder}/index.html.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
