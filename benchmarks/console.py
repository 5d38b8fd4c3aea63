"""What the console costs: the fleet page of 5,000 VMs, from the request to its last byte."""

import http.client
from time import perf_counter

from benchmarks.support.node import Node
from benchmarks.support.results import Row, p50, within
from benchmarks.support.yard import Yard

VMS = 5_000
PAGES = 20
LIMIT_MILLISECONDS = 500


def measure(yard: Yard) -> list[Row]:
    """Ask for it again and again, as somebody who is signed in."""
    with Node(yard.data_dir(VMS)) as node:
        cookie = _signed_in(node)
        milliseconds = p50([_page_seconds(node, cookie) for _ in range(PAGES)]) * 1000
    return [within(f"fleet page of {VMS:,} VMs", milliseconds, LIMIT_MILLISECONDS, "ms")]


def _signed_in(node: Node) -> str:
    connection = http.client.HTTPConnection(*node.operator, timeout=30)
    try:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/sign-in", f"token={node.token}", form)
        return connection.getresponse().headers["set-cookie"].partition(";")[0]
    finally:
        connection.close()


def _page_seconds(node: Node, cookie: str) -> float:
    connection = http.client.HTTPConnection(*node.operator, timeout=30)
    try:
        begun = perf_counter()
        connection.request("GET", "/", headers={"Cookie": cookie})
        answer = connection.getresponse()
        page = answer.read()
        seconds = perf_counter() - begun
    finally:
        connection.close()
    if answer.status != 200 or f"<b>{VMS:,}</b>".encode() not in page:
        raise node.failed(f"showed another page: {answer.status}")
    return seconds
