"""Live pages: everybody sees what anybody does, only what changed is fetched, and losing the service shows."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from duenotice.operator_api import feed
from tests.console.conftest import FLEET, Visitors, wait_until
from tests.support.node import Node, Outside
from tests.support.ports import free_port

MANY = """
[[scale_sets]]
name = "big"
capacity = 5000
addresses = "127.16.0.0/16"

[[availability_sets]]
name = "web"
vms = [ { name = "web-0", address = "127.0.2.1" }, { name = "web-1", address = "127.0.2.2" } ]
"""

PAUSE = 500
"""Milliseconds after which a page has looked at all that it was told of."""


@pytest.mark.serial
def test_two_browsers_see_each_others_change_within_a_second(node: Node, visitors: Visitors) -> None:
    """One restarts a VM, the other approves it; each sees what the other did."""
    one, two = visitors.come("/vms/web-0"), visitors.come("/")
    cell = two.locator('a.cell[data-vm="web-0"]')
    one.get_by_role("button", name="Restart").click()
    begun = monotonic()
    wait_until(two, "document.getElementById('vm-web-0').dataset.state === 'scheduled'")
    assert monotonic() - begun < 1
    cell.click()
    two.locator(".coming a").first.click()
    two.get_by_role("button", name="Approve", exact=True).click()
    begun = monotonic()
    wait_until(one, "document.querySelector('.head .state').textContent === 'started'")
    assert monotonic() - begun < 1


def be_still(page: Page, answers: list[tuple[str, int]]) -> None:
    """Wait until the page asks for nothing more, and forget what it has asked for."""
    page.wait_for_timeout(PAUSE)
    while answers:
        answers.clear()
        page.wait_for_timeout(PAUSE)


def mutated(page: Page) -> None:
    """Note the ids of elements that change from now on."""
    page.evaluate("""() => {
        window.touched = new Set();
        new MutationObserver((records) => {
            for (const record of records) window.touched.add(record.target.closest?.("[id]")?.id ?? "?");
        }).observe(document.getElementById("main"), { subtree: true, childList: true, attributes: true });
    }""")


def test_an_update_to_one_vm_sends_only_that_part(browser: Browser) -> None:
    """Among 5,000 VMs: a small answer, and only that cell, the counts and what comes next are touched."""
    with Node(MANY) as node:
        node.enable("web-0")
        people = Visitors(browser, node)
        page = people.come()
        event_id, _ = node.schedule("Reboot", "web-0"), node.schedule("Reboot", "web-1")
        wait_until(page, "document.querySelectorAll('a.cell[data-state=scheduled]').length === 2")
        sizes: list[tuple[str, int]] = []
        page.on("response", lambda answer: sizes.append(size_of(answer)) if "/live" not in answer.url else None)
        be_still(page, sizes)
        mutated(page)
        node.approve("web-0", event_id)
        wait_until(page, "document.getElementById('vm-web-0').dataset.state === 'started'")
        wait_until(page, "document.querySelector('[data-state=started] b').textContent === '1'")
        # On a busy machine what the driver says of the event comes alone, and is asked for once more.
        assert {path for path, _ in sizes} == {"/parts?section=set%2Fweb"} and len(sizes) <= 3
        assert max(size for _, size in sizes) < 8_000
        touched = set(page.evaluate("[...window.touched]"))
        assert "vm-web-0" in touched and "vm-web-1" not in touched
        assert "section-scale-set_2f_big" not in touched
        assert people.leave() == []


def test_a_cell_of_a_small_fleet_comes_alone(node: Node, visitors: Visitors) -> None:
    """With the counts of its section and of the fleet; its neighbours are not touched."""
    page = visitors.come()
    asked: list[str] = []
    page.wait_for_load_state("load")
    page.on("request", lambda request: asked.append(request.url.split("/", 3)[3]))
    mutated(page)
    node.schedule("Reboot", "web-0")
    expect(page.locator('[data-section="set/web"] summary')).to_contain_text("1 scheduled")
    assert [url for url in asked if not url.startswith(("live", "static"))] == ["parts?vm=web-0&section=set%2Fweb"]
    touched = set(page.evaluate("[...window.touched]"))
    assert "vm-web-0" in touched and "counts-set_2f_web" in touched
    assert {one for one in touched if one.startswith(("vm-", "section-"))} == {"vm-web-0"}


def size_of(answer: Response) -> tuple[str, int]:
    return answer.url.split("/", 3)[3].join(["/", ""]), len(answer.body())


def test_a_burst_is_told_together(node: Node, visitors: Visitors) -> None:
    """A hundred changes at once are a few answers, and the last of them is right."""
    page = visitors.come()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for _ in range(50):
        node.operate(f"/v1/events/{node.schedule('Reboot', 'web-0')}/cancel")
    node.schedule("Reboot", "db-0")
    wait_until(page, "document.getElementById('vm-db-0').dataset.state === 'scheduled'")
    wait_until(page, "document.getElementById('vm-web-0').dataset.state === 'fine'")
    assert 1 <= len(asked) <= 25


def test_a_page_that_is_left_frees_its_place_in_the_feed(node: Node, visitors: Visitors) -> None:
    """Places are few; one is taken while a page is open, and not longer."""
    readers = node.service._api.feed.readers
    page = visitors.come()
    for path, places in (("", 1), ("about:blank", 0)):
        if path:
            page.goto(path)
        for _ in range(400):
            if len(readers) == places:
                break
            page.wait_for_timeout(25)
        assert len(readers) == places


def test_a_full_feed_is_said_and_pages_still_work(
    node: Node, visitors: Visitors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says that it is not live, looks again by itself, and recovers when there is room."""
    visitors.allow(complaint="503")
    monkeypatch.setattr(feed, "MOST_READERS", 0)
    page = visitors.come()
    expect(page.locator("#link")).to_have_text("not live")
    node.schedule("Reboot", "web-0")
    expect(page.locator('a.cell[data-vm="web-0"]')).to_have_attribute("data-state", "scheduled")
    monkeypatch.setattr(feed, "MOST_READERS", 100)
    expect(page.locator("#link")).to_have_text("live")


@pytest.mark.serial
def test_a_service_that_stops_does_not_wait_for_open_pages(browser: Browser, tmp_path: Path) -> None:
    """Consoles that listen, and a play under way, are let go at once."""
    with Node(FLEET.read_text(), clock="60x", data_dir=str(tmp_path / "data")) as node:
        people = Visitors(browser, node)
        pages = [people.come("/"), people.come("/timeline"), people.come("/scenarios/host-maintenance")]
        pages[2].get_by_role("button", name="Play").click()
        expect(pages[2].locator('[data-step="running"]')).to_be_visible()
        begun = monotonic()
    assert monotonic() - begun < 4
    people.allow(complaint="ERR_|status of 503")
    assert people.leave() == []


class Process(Outside):
    """The service as a process of its own, to be killed and started again on the same port and data."""

    def __init__(self, folder: Path) -> None:
        self.operator_address, self.metadata_address = ("127.0.0.1", free_port()), ("127.0.0.1", free_port())
        self._data = folder / "data"
        self.start()
        self.token = (self._data / "admin.token").read_text().strip()

    def start(self) -> None:
        """Start it, and wait until it serves."""
        listen = ["--operator-listen={}:{}".format(*self.operator_address)]
        listen += ["--metadata-listen={}:{}".format(*self.metadata_address)]
        command = [sys.executable, "-m", "duenotice", "serve", f"--fleet={FLEET}", f"--data-dir={self._data}", *listen]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ)
        for _ in range(1200):
            try:
                with socket.create_connection(self.operator_address, 1):
                    return
            except OSError:
                assert self._process.poll() is None, "the service did not start"
                signal.sigtimedwait([], 0.025)
        raise AssertionError("the service does not serve")

    @property
    def pid(self) -> int:
        """Which process it is."""
        return self._process.pid

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()
        self._process.wait()

    def back_up(self, folder: Path) -> None:
        """Put its data aside."""
        shutil.copytree(self._data, folder)

    def restore(self, folder: Path) -> None:
        """Bring back what was put aside."""
        shutil.rmtree(self._data)
        shutil.copytree(folder, self._data)

    def address(self, vm: str) -> str:
        return {"web-0": "127.0.2.1", "web-1": "127.0.2.2"}.get(vm, vm)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """A service to be killed."""
    running = Process(tmp_path)
    yield running
    running.kill()


def test_a_killed_service_is_seen_and_a_restarted_one_too(browser: Browser, process: Process) -> None:
    """The page says since when it is stale, keeps what it shows, and catches up by itself on what it missed."""
    people = Visitors(browser, process)  # type: ignore[arg-type]
    people.allow(complaint="ERR_")
    page = people.come("/")
    process.enable("web-0")
    process.schedule("Reboot", "web-0")
    cells = page.locator('a.cell[data-state="scheduled"]')
    expect(cells).to_have_count(1)
    process.kill()
    expect(page.get_by_role("alert")).to_contain_text("The connection is lost. This page shows how things were at")
    expect(page.get_by_role("alert")).to_contain_text("UTC")
    expect(page.locator("#link")).to_have_text("not live")
    expect(cells).to_have_count(1)
    page.evaluate("window.same = true")
    process.start()
    process.schedule("Reboot", "web-1")
    expect(page.locator("#link")).to_have_text("live", timeout=15_000)
    expect(page.locator("#stale")).to_be_hidden()
    expect(cells).to_have_count(2)
    process.schedule("Redeploy", "web-1")
    expect(page.locator("#coming li")).to_have_count(3)
    assert page.evaluate("window.same"), "no reload"
    assert people.leave() == []


def test_a_service_that_comes_back_with_an_older_journal_is_believed(
    browser: Browser, process: Process, tmp_path: Path
) -> None:
    """Nothing was told of what is no longer so. Everybody signs in again (S35); the page looks at everything again."""
    process.kill()
    process.back_up(tmp_path / "older")
    process.start()
    people = Visitors(browser, process)  # type: ignore[arg-type]
    people.allow(complaint="ERR_|401")
    process.enable("web-0")
    process.schedule("Reboot", "web-0")
    page = people.come("/")
    cells = page.locator('a.cell[data-state="scheduled"]')
    expect(cells).to_have_count(1)
    process.kill()
    process.restore(tmp_path / "older")
    process.start()
    page.get_by_role("link", name="Sign in again").click(timeout=15_000)
    page.get_by_label("Token").fill(process.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#link")).to_have_text("live", timeout=15_000)
    expect(cells).to_have_count(0)
    assert people.leave() == []
