"""Scripts, styles and pictures of the pages: read once, packed once, under an address that changes with them.

A page names them with a digest of them all, so a browser may keep them for good. Scripts name each other without
it; when they are read, the digest is put in.
"""

import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

FOR_GOOD = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
KINDS = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
SMALL = 500
"""Bytes below which packing is not worth it."""


class Asset(NamedTuple):
    """One file as it is sent."""

    kind: str
    plain: bytes
    packed: bytes


class Assets:
    """All files in the folder `static`."""

    def __init__(self) -> None:
        folder = Path(__file__).parent / "static"
        raw = {each.name: each.read_bytes() for each in sorted(folder.iterdir(), key=lambda each: each.name)}
        raw = {name: body for name, body in raw.items() if _ending(name) in KINDS}
        digest = hashlib.sha256()
        for name, body in raw.items():
            digest.update(f"{name} {len(body)}\n".encode() + body)
        self.digest = digest.hexdigest()[:16]
        self.root = f"/static/{self.digest}"
        self._known = {name: self._made(name, body) for name, body in raw.items()}

    def serve(self, request: Request) -> Response:
        """One of them: with the right digest for good, else to be asked for again each time."""
        name, asked = request.path_params["name"], request.path_params.get("digest", "")
        if (asset := self._known.get(name)) is None:
            raise HTTPException(404)
        headers = {"Cache-Control": FOR_GOOD if asked == self.digest else ASK_AGAIN, "Vary": "Accept-Encoding"}
        if not _takes_gzip(request):
            return Response(asset.plain, 200, headers, asset.kind)
        return Response(asset.packed, 200, headers | {"Content-Encoding": "gzip"}, asset.kind)

    def _made(self, name: str, body: bytes) -> Asset:
        if _ending(name) == "js":
            body = body.replace(b'"/static/', f'"{self.root}/'.encode())
        return Asset(KINDS[_ending(name)], body, gzip.compress(body, mtime=0))


def shrunk(request: Request, response: Response) -> Response:
    """A page that is made, smaller. It takes a moment for large pages, so it is not done on the loop (S26)."""
    body = response.body
    if len(body) < SMALL or not _takes_gzip(request) or "content-encoding" in response.headers:
        return response
    response.body = gzip.compress(body, 5, mtime=0)
    response.headers["Content-Length"] = str(len(response.body))
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Vary"] = "Accept-Encoding"
    return response


def _takes_gzip(request: Request) -> bool:
    offered = (part.split(";")[0].strip() for part in request.headers.get("accept-encoding", "").split(","))
    return "gzip" in offered


def _ending(name: str) -> str:
    return name.rpartition(".")[2]
