"""Who may act: the admin token of the data directory, asked for on every call, loopback included."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from duenotice.operator_api.problems import problem

FILE = "admin.token"
ADMIN = "token/admin"
"""The actor that the journal remembers."""


def new_token() -> str:
    """A token nobody can guess."""
    return "dn_" + secrets.token_urlsafe(32)


def token_of(data_dir: Path) -> str:
    """The admin token of a data directory; the first start writes it, readable by its owner only."""
    path = data_dir / FILE
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(new_token() + "\n")
    return path.read_text().strip()


class Gate:
    """Lets a request through that carries the token; keeps only its hash."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token)

    def refuse(self, request: Request) -> Response | None:
        """Why this request may not go on, if it may not."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(_digest(token.strip()), self._digest):
            return None
        hint = f"Send 'Authorization: Bearer …' with the token from {FILE} in the data directory."
        return problem(401, "This needs a token.", hint, {"WWW-Authenticate": "Bearer"})


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
