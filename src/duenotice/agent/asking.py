"""How a command asks the agent that runs on this machine: at the socket in its state directory."""

import http.client
import json
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from duenotice.agent.http import short_name
from duenotice.agent.ports import SOCKET
from duenotice.errors import Conflict, Malformed, NotFound, Unavailable

SECONDS = 10.0
_ERRORS = {400: Malformed, 404: NotFound, 409: Conflict}


class _Connection(http.client.HTTPConnection):
    """HTTP over the socket; a path may be longer than the name of a socket."""

    def __init__(self, directory: Path) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._directory = directory

    def connect(self) -> None:
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(SECONDS)
            self.sock.connect(short_name(directory, self._directory / SOCKET))
        finally:
            os.close(directory)


def ask_status(directory: Path) -> dict[str, Any]:
    """All that the running agent says of itself; raises `Unavailable` when it does not answer."""
    found: dict[str, Any] = _ask(directory, "GET", "/status")
    return found


def pull(directory: Path, lever: str, **wanted: str) -> str:
    """Have the running agent do something; gives its words, or raises what it refuses with."""
    return str(_ask(directory, "POST", f"/{lever}?{urlencode(wanted)}")["done"])


def _ask(directory: Path, method: str, target: str) -> dict[str, Any]:
    connection = _Connection(directory)
    try:
        connection.request(method, target)
        answer = connection.getresponse()
        said: dict[str, Any] = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        what = f"The agent does not answer at {directory / SOCKET}: {getattr(error, 'strerror', None) or error}."
        raise Unavailable(what, hint="Does it run, and may you ask it? Look at its log; ask as root.") from None
    finally:
        connection.close()
    if answer.status != 200:
        raise _ERRORS.get(answer.status, Unavailable)(str(said.get("error")), hint=str(said.get("hint", "")))
    return said
