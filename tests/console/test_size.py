"""Large fleets: the first page comes fast, stays readable, and its sums are right."""

import gzip
import http.client
from time import perf_counter

import pytest
from playwright.sync_api import Browser, expect

from tests.console.conftest import Visitors
from tests.support.node import Node

FIRST_PAINT_SECONDS = 0.5


def fleet(sets: int, scale_sets: int, each: int) -> str:
    """Sets of five VMs, and scale sets."""
    vms = "vms = [ {} ]"
    rows = [
        f'[[availability_sets]]\nname = "set-{n}"\n'
        + vms.format(
            ", ".join(
                f'{{ name = "set-{n}-{v}", address = "127.1.{n // 40}.{n % 40 * 6 + v + 1}", update_domain = {v} }}'
                for v in range(5)
            )
        )
        for n in range(sets)
    ]
    rows += [
        f'[[scale_sets]]\nname = "scale-{n}"\ncapacity = {each}\naddresses = "127.{64 + n}.0.0/16"'
        for n in range(scale_sets)
    ]
    return "\n".join(rows)


def server_time(node: Node, cookie: str, accept: str = "identity") -> tuple[float, bytes]:
    """Seconds from the request to the last byte of the fleet page, and the page."""
    connection = http.client.HTTPConnection(*node.operator_address, timeout=30)
    try:
        begun = perf_counter()
        connection.request("GET", "/", headers={"Cookie": cookie, "Accept-Encoding": accept})
        page = connection.getresponse().read()
        return perf_counter() - begun, page
    finally:
        connection.close()


@pytest.mark.serial
def test_the_fleet_page_of_5000_vms_comes_in_half_a_second() -> None:
    """In sets of five and in scale sets, a tenth of them with something to say."""
    with Node(fleet(200, 4, 1000)) as node:
        for name in ("scale-0_0", "scale-1_0"):
            node.enable(name)
        for number in range(500):
            node.schedule("Reboot", f"scale-{number % 2}_{number // 2}")
        assert node.operate("/v1/fleet", method="GET")["vms"] == 5000
        cookie = node.cookie()
        seconds, page = min(server_time(node, cookie) for _ in range(3))
    assert page.count(b'class="cell" id="vm-') == 500
    assert seconds < FIRST_PAINT_SECONDS, seconds


@pytest.mark.serial
def test_the_first_page_of_100000_vms_is_small_and_fast() -> None:
    """Also right after a change, when nothing is counted yet: at most 60 KB over the wire, in half a second."""
    with Node(fleet(4000, 16, 5000)) as node:
        assert node.operate("/v1/fleet", method="GET")["vms"] == 100_000
        node.enable("set-77-0", "scale-0_0")
        cookie = node.cookie()
        times, sizes = [], []
        for number in range(5):
            node.schedule("Reboot", f"scale-0_{number}")
            seconds, page = server_time(node, cookie, "gzip")
            times.append(seconds)
            sizes.append(len(page))
        assert b"99,895 of 100,000 VMs would get no notice" in gzip.decompress(page)
    assert max(sizes) <= 60_000, sizes
    assert min(times) < FIRST_PAINT_SECONDS, times


def test_many_groups_are_folded_and_the_urgent_come_first(browser: Browser) -> None:
    """205 groups: those with something going on are open on top, the others are lines; the sum is of all."""
    with Node(fleet(205, 1, 1000)) as node:
        node.enable("set-77-0")
        node.schedule("Reboot", "set-77-0")
        people = Visitors(browser, node)
        page = people.come()
        expect(page.locator("details.section").first).to_contain_text("set-77")
        expect(page.locator("details.section[open]")).to_have_count(1)
        expect(page.locator('.tile[data-state="fine"] b')).to_have_text("2,024")
        expect(page.get_by_text("And 6 more groups")).to_be_visible()
        node.enable("set-80-0")
        node.schedule("Reboot", "set-80-0")
        expect(page.locator('[data-section="set/set-80"] summary')).to_contain_text("1 scheduled")
        page.get_by_role("searchbox").fill("set-204-")
        page.keyboard.press("Enter")
        expect(page.locator("#main a.cell")).to_have_count(5)
        assert people.leave() == []


def test_more_than_20000_vms_are_counted_not_drawn(browser: Browser) -> None:
    """The page stays small and its numbers right, also when all of a group are told."""
    with Node(fleet(0, 5, 5000)) as node:
        people = Visitors(browser, node)
        page = people.come()
        expect(page.locator('.tile[data-state="fine"] b')).to_have_text("25,000")
        expect(page.locator("#main a.cell")).to_have_count(0)
        assert len(page.content()) < 60_000
        page.goto(f"{people.origin}/groups/scale-set/scale-0")
        expect(page.locator("#main a.cell")).to_have_count(5000)
        assert people.leave() == []
