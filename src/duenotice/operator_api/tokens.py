"""Who may act: the admin token of the data directory, asked for on every call, loopback included."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from duenotice.errors import Misconfigured
from duenotice.operator_api.problems import problem

FILE = "admin.token"
SHORTEST = 20
"""Characters; anything shorter was not written by us."""

ADMIN = "token/admin"
"""The actor that the journal remembers."""


def new_token() -> str:
    """A token nobody can guess."""
    return "dn_" + secrets.token_urlsafe(32)


def token_of(data_dir: Path) -> str:
    """The admin token of a data directory; the first start writes it, readable by its owner only."""
    path = data_dir / FILE
    try:
        if not path.exists():
            _write(path, new_token())
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path} cannot be used: {error}.", hint="Mend the disk or the file's mode.") from None
    if len(token) < SHORTEST:
        raise Misconfigured(f"{path} holds no token.", hint="Remove it, and the next start writes a new one.")
    return token


def _write(path: Path, token: str) -> None:
    """Whole or not at all: half a token, or an empty one, would be easy to guess."""
    unfinished = path.with_name(f"{FILE}.new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)


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
