"""Who may act: a token on every call, loopback included, and the admin token of a data directory."""

import hashlib
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from duenotice.domain.token import Role, Token
from duenotice.errors import Misconfigured
from duenotice.operator_api.problems import problem

FILE = "admin.token"
SHORTEST = 20
"""Length in characters; a shorter text was not written by us."""


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
        raise Misconfigured(f"{path} cannot be used: {error}.", hint="Fix the disk or the file's mode.") from None
    if len(token) < SHORTEST:
        raise Misconfigured(f"{path} holds no token.", hint="Remove it, and the next start writes a new one.")
    return token


def _write(path: Path, token: str) -> None:
    """Complete or not at all: half a token, or an empty one, would be easy to guess."""
    unfinished = path.with_name(f"{FILE}.new")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)


def digest_of(token: str) -> str:
    """What is stored in place of a token: a guess of 256 random bits needs no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


class Gate:
    """Lets a request through if its token has a sufficient role. It knows tokens only by their digest."""

    def __init__(self, tokens: Callable[[], Iterable[Token]]) -> None:
        self._tokens = tokens

    def refuse(self, request: Request, needed: Role) -> Response | None:
        """Why this request is refused, or None; then who asks is stored in its state."""
        token = self._bearer(request)
        if token is None:
            hint = f"Send 'Authorization: Bearer …' with a token, such as the one from {FILE} in the data directory."
            return problem(401, "This needs a token.", hint, {"WWW-Authenticate": "Bearer"})
        if not token.role.covers(needed):
            title = f"Token {token.name!r} has the role {token.role.value}; this needs {needed.value}."
            return problem(403, title, "Use a token with that role; an admin can create one.")
        request.state.actor, request.state.token = f"token/{token.name}", token
        return None

    def _bearer(self, request: Request) -> Token | None:
        given = request.headers.getlist("authorization")
        scheme, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer":
            return None
        # Comparing digests reveals nothing about the secret.
        digest = digest_of(secret.strip())
        return next((token for token in self._tokens() if token.digest == digest), None)
