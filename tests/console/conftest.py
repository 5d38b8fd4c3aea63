"""A real Chromium on the real console; whatever a test does, no page may complain or ask anybody but us."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.programs import require_program
from tests.support.node import Node

QUIET = [
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
    "--disable-quic", "--host-resolver-rules=MAP console.test 127.0.0.1",
]  # fmt: skip
HEADLESS = "/usr/lib/chromium/chromium-headless-shell"
"""Chromium without what draws windows: the same pages for a third of the work."""

FLEET = Path(__file__).with_name("fleet.toml")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder drive a browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def wait_until(page: Page, expression: str, seconds: float = 10.0) -> None:
    """Wait until something is true in the page; Playwright's own way is forbidden by the page's policy."""
    for _ in range(int(seconds * 40)):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never true: {expression}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a file: while it is there an event loop runs, which other tests must not meet."""
    expect.set_options(timeout=10_000)
    with sync_playwright() as playwright:
        program = require_program(HEADLESS, "chromium-headless-shell")
        chromium = playwright.chromium.launch(executable_path=program, args=QUIET)
        yield chromium
        chromium.close()


@pytest.fixture
def node() -> Iterator[Node]:
    """A node with the demo fleet on a manual clock; the scopes of web-0 and db-0 listen."""
    with Node(FLEET.read_text()) as running:
        running.enable("web-0", "db-0")
        yield running


class Visitors:
    """Lets people into a console, each with a browser profile of their own, and notes what goes wrong there."""

    def __init__(self, browser: Browser, node: Node) -> None:
        self.problems: list[str] = []
        self._browser, self._node = browser, node
        self._contexts: list[BrowserContext] = []
        self._expected: list[re.Pattern[str]] = []
        self._origins: set[str] = set()

    @property
    def origin(self) -> str:
        """Where the console is."""
        return "http://{}:{}".format(*self._node.operator_address)

    def come(self, path: str = "/", token: str | None = None, **options: Any) -> Page:
        """Somebody who has signed in opens a page."""
        page = self.stranger(**options)
        self.let_in(page, token)
        page.goto(self.origin + path)
        return page

    def let_in(self, page: Page, token: str | None = None) -> None:
        """Sign a profile in without the form."""
        name, _, value = self._node.cookie(token or "").partition("=")
        page.context.add_cookies([{"name": name, "value": value, "url": self.origin}])

    def stranger(self, **options: Any) -> Page:
        """Somebody with an empty profile."""
        self._origins.add(self.origin)
        context = self._browser.new_context(**options)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        page.on("request", self._on_request)
        return page

    def with_role(self, role: str) -> str:
        """A token of a role."""
        return str(self._node.operate("/v1/tokens", {"name": f"a-{role}", "role": role})["token"])

    def allow(self, origin: str = "", complaint: str = "") -> None:
        """Something that this test does on purpose."""
        if origin:
            self._origins.add(origin)
        if complaint:
            self._expected.append(re.compile(complaint))

    def leave(self) -> list[str]:
        """Everybody goes; what went wrong meanwhile."""
        for context in self._contexts:
            context.close()
        return [problem for problem in self.problems if not any(known.search(problem) for known in self._expected)]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" not in self._origins:
            self.problems.append(f"outside request: {request.url}")


@pytest.fixture
def visitors(browser: Browser, node: Node) -> Iterator[Visitors]:
    """People to let in; the test fails if any page of theirs complained or asked anybody but us."""
    people = Visitors(browser, node)
    yield people
    assert people.leave() == []


@pytest.fixture
def page(visitors: Visitors) -> Page:
    """The fleet page of an admin."""
    return visitors.come()
