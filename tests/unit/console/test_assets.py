"""Scripts and styles: under an address that changes with them, packed for who can unpack it."""

import gzip
import re
from pathlib import Path

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from duenotice.console import assets

FOLDER = Path(assets.__file__).with_name("static")
KNOWN = assets.Assets()
CLIENT = TestClient(
    Starlette(routes=[Route("/static/{name}", KNOWN.serve), Route("/static/{digest}/{name}", KNOWN.serve)])
)


def test_with_the_digest_of_today_it_is_kept_for_good() -> None:
    for root, kept in (
        (KNOWN.root, assets.FOR_GOOD),
        ("/static/0123", assets.ASK_AGAIN),
        ("/static", assets.ASK_AGAIN),
    ):
        answer = CLIENT.get(f"{root}/console.css", headers={"Accept-Encoding": "identity"})
        assert (answer.status_code, answer.headers["cache-control"]) == (200, kept)
        assert answer.content == (FOLDER / "console.css").read_bytes()
    assert CLIENT.get(f"{KNOWN.root}/nothing.js").status_code == 404


def test_scripts_find_each_other_under_the_same_digest() -> None:
    """With two addresses a script would be there twice."""
    script = CLIENT.get(f"{KNOWN.root}/console.js", headers={"Accept-Encoding": "identity"}).text
    named = re.findall(r'"(/static/[^"]+)"', script)
    assert named and all(name.startswith(f"{KNOWN.root}/") for name in named)
    for name in named:
        assert CLIENT.get(name).status_code == 200


def test_it_is_packed_for_who_can_unpack_it() -> None:
    with CLIENT.stream("GET", f"{KNOWN.root}/console.css", headers={"Accept-Encoding": "br, gzip;q=0.8"}) as answer:
        raw = b"".join(answer.iter_raw())
        assert answer.headers["content-encoding"] == "gzip"
    plain = (FOLDER / "console.css").read_bytes()
    assert gzip.decompress(raw) == plain and len(raw) < len(plain) / 2
