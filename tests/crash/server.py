"""The real server as a process of its own, to be killed; and one HTTP exchange with it."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from duenotice import cli
from tests.support.nursery import Forked, may_be_forked

PROGRAM = Path(sys.executable).with_name("duenotice")
STARTED_LASTS = 2.0
"""Seconds an event is Started: short, so that the load also sees events complete."""

_FLAGS = {
    "clock": "real",
    "metadata-listen": "127.0.0.1:0",
    "operator-listen": "127.0.0.1:0",
    "log-format": "json",
    "throttle": "1000000",
    "approvals-throttle": "1000000",
    "maintenance-lasts": str(STARTED_LASTS),
}
_PATIENCE = 30.0


class Response(NamedTuple):
    """What came back over HTTP."""

    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Server:
    """`duenotice serve` on a data directory, from exec to SIGKILL."""

    def __init__(self, data_dir: Path, fleet: Path, **more: object) -> None:
        """More settings by their names, as in `ServeSettings`; a switch is True."""
        given: dict[str, object] = {**_FLAGS, **{name.replace("_", "-"): value for name, value in more.items()}}
        flags = [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items()]
        command = self.command(data_dir, fleet, flags)
        self._data_dir = data_dir
        self._log: deque[str] = deque(maxlen=30)
        self._serving = threading.Event()
        said, says = Pipe(duplex=False)
        with said, says:
            self._process = _begun(command, says)
            self._said = os.fdopen(os.dup(said.fileno()))
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def command(self, data_dir: Path, fleet: Path, flags: list[str]) -> list[str]:
        """What to run."""
        return [str(PROGRAM), "serve", f"--data-dir={data_dir}", f"--fleet={fleet}", *flags]

    def token_file(self) -> Path:
        """The file with the token of an operator."""
        return self._data_dir / "admin.token"

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def wait_until_serving(self) -> None:
        """Return when the doors are open; a server that ends before that is a failure."""
        self._serving.wait(_PATIENCE)
        status = self._process.poll()
        assert status is None, f"the server ended with {status} instead of serving:\n{self.log()}"
        assert self._serving.is_set(), f"the server has not started within {_PATIENCE} seconds:\n{self.log()}"
        self.token = self.token_file().read_text().strip()
        assert self.token, "the operator's token is empty"

    def alive(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        """The last lines it wrote."""
        return "\n".join(self._log)

    def kill(self) -> None:
        """-9, in the middle of whatever it is doing."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Let it do nothing more, until it is thawed or killed."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on from where it was."""
        os.kill(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """Ask it to end, which it must do cleanly."""
        assert self._end(signal.SIGTERM) == 0, f"the server did not end cleanly:\n{self.log()}"

    def _end(self, how: signal.Signals) -> int:
        with suppress(ProcessLookupError):  # it may also have ended by itself
            os.kill(self._process.pid, how)
        return self.ended()

    def ended(self) -> int:
        """How it has ended, which it must do now, if only by itself."""
        status = self._process.wait(_PATIENCE)
        self._reader.join(_PATIENCE)
        self._said.close()
        return status

    def _read_log(self) -> None:
        for line in self._said:
            self._log.append(line.rstrip())
            if not self._serving.is_set() and (entry := _entry(line)).get("action") == "serving":
                self.metadata, self.operator = _address(entry["metadata"]), _address(entry["operator"])
                self._serving.set()
        self._serving.set()  # nobody need wait any longer


def _begun(command: list[str], says: Connection) -> "Forked | subprocess.Popen[bytes]":
    """Our own program is forked where that is the same; one that starts it in a namespace, say, is run as it is."""
    if command[0] == str(PROGRAM) and may_be_forked(os.environ):
        return Forked(cli.main, command[1:], dict(os.environ), Path.cwd(), Path(os.devnull), says)
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=says.fileno())


class Gone(Exception):
    """The server this caller was connected to is no more."""


class Caller:
    """Somebody with one connection, and no other after it: a dead server's port may soon be somebody else's."""

    def __init__(self, address: tuple[str, int], headers: dict[str, str], source: str = "127.0.0.1") -> None:
        self._connection = http.client.HTTPConnection(*address, timeout=_PATIENCE, source_address=(source, 0))
        self._headers = headers
        try:
            self._connection.connect()
        except OSError:
            raise Gone from None
        self._connection.auto_open = 0

    def ask(self, method: str, target: str, body: object = None) -> Response | None:
        """The answer; None when nobody can know whether the server did it."""
        if self._connection.sock is None:
            raise Gone
        payload = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, target, payload, self._headers)
            answer = self._connection.getresponse()
            return Response(answer.status, answer.read())
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return None

    def close(self) -> None:
        self._connection.close()


def _entry(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0
