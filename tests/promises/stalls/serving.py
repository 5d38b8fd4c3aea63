"""How the node of a world is started: a real `duenotice serve` with a journal on disk, on a manual clock."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.crash.server import Server
from tests.promises.stalls.fleet import only_the_poller

SETTINGS: dict[str, object] = {
    "clock": "manual",
    "maintenance-lasts": 600,
    "allow-faults": True,
    "throttle": 1e9,
    "events-per-scope": 100_000,
    "document-kib": 64 * 1024,
}


def starter(folder: Path) -> Callable[[], Server]:
    """Starts a node with nobody in its fleet but the VM that polls; each time with a data directory of its own."""
    numbers = count()

    def start() -> Server:
        first = folder / "first.toml"
        first.write_text(only_the_poller())
        server = Server(folder / f"data-{next(numbers)}", first, **SETTINGS)
        server.wait_until_serving()
        return server

    return start
