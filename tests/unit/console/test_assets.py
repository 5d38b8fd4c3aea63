"""Scripts and styles: under an address that changes with them, packed for who can unpack it."""

import asyncio
import gzip
import re
from pathlib import Path
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.routing import Route

from duenotice.console import assets

FOLDER = Path(assets.__file__).with_name("static")
KNOWN = assets.Assets()
APP = Starlette(routes=[Route("/static/{name}", KNOWN.serve), Route("/static/{digest}/{name}", KNOWN.serve)])


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes


def get(path: str, accept: str = "identity") -> Got:
    """What the application answers."""
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        said.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "root_path": "",
             "headers": [(b"accept-encoding", accept.encode())]}  # fmt: skip
    asyncio.run(APP(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in said[0]["headers"]}
    return Got(said[0]["status"], headers, b"".join(part.get("body", b"") for part in said[1:]))


def test_with_the_digest_of_today_it_is_kept_for_good() -> None:
    for root, kept in (
        (KNOWN.root, assets.FOR_GOOD),
        ("/static/0123", assets.ASK_AGAIN),
        ("/static", assets.ASK_AGAIN),
    ):
        answer = get(f"{root}/console.css")
        assert (answer.status, answer.headers["cache-control"]) == (200, kept)
        assert answer.content == (FOLDER / "console.css").read_bytes()
    assert get(f"{KNOWN.root}/nothing.js").status == 404


def test_scripts_find_each_other_under_the_same_digest() -> None:
    """With two addresses a script would be there twice."""
    script = get(f"{KNOWN.root}/console.js").content.decode()
    named = re.findall(r'"(/static/[^"]+)"', script)
    assert named and all(name.startswith(f"{KNOWN.root}/") for name in named)
    for name in named:
        assert get(name).status == 200


def test_it_is_packed_for_who_can_unpack_it() -> None:
    answer = get(f"{KNOWN.root}/console.css", "br, gzip;q=0.8")
    raw = answer.content
    assert answer.headers["content-encoding"] == "gzip"
    plain = (FOLDER / "console.css").read_bytes()
    assert gzip.decompress(raw) == plain and len(raw) < len(plain) / 2
