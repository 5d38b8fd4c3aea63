"""The least that a durable answer over HTTP costs in Python: uvicorn, a thread, a block and fdatasync; nothing else.

`python -m benchmarks.support.bare_app FILE` answers every request in that way, and prints where.
"""

import asyncio
import signal
import socket
import sys
from pathlib import Path

import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

from benchmarks.support.bare_sync import BareFile, bare_file
from duenotice.engine.threads import WorkerThread

BLOCKS = 4096
"""Of its file, which it writes again from its beginning."""

_HEAD = {
    "type": "http.response.start",
    "status": 201,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")],
}
_BODY = {"type": "http.response.body", "body": b"{}"}


class _App:
    def __init__(self, file: BareFile, thread: WorkerThread) -> None:
        self._file, self._thread = file, thread

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer once a block is on the disk."""
        while (await receive()).get("more_body"):
            pass
        await self._thread.call(lambda: self._file.write(1))
        await send(_HEAD)
        await send(_BODY)


async def _serve(place: Path) -> None:
    with bare_file(place, BLOCKS) as file, socket.create_server(("127.0.0.1", 0)) as listening:
        print("{}:{}".format(*listening.getsockname()), flush=True)
        config = uvicorn.Config(
            _App(file, WorkerThread("sync")), http="httptools", lifespan="off", log_config=None, access_log=False
        )
        signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises it again once it has stopped
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(Path(sys.argv[1])))
