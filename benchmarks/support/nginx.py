"""nginx as the reference: one worker on the server's core that returns the very bytes our server sends."""

import os
import socket
import time
from pathlib import Path

from benchmarks.support.children import Child
from benchmarks.support.http import Address, exchange
from benchmarks.support.machine import SERVER_CORE, CannotMeasure, pinned, require
from benchmarks.support.process import children

_CONFIG = """\
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {folder}/nginx.pid;
error_log stderr error;
{user}
events {{ worker_connections 15000; }}
http {{
    access_log off;
    server_tokens off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    uwsgi_temp_path {folder};
    scgi_temp_path {folder};
    server {{
        listen {address} backlog=4096{deferred};
        location / {{
            default_type '{content_type}';
            {headers}
            return 200 '{body}';
        }}
    }}
}}
"""
_ITS_OWN = ("server", "date", "content-type", "content-length", "connection")
"""Headers that nginx writes itself."""

_PADDED = "x-ms-request-id"
"""The header whose value makes up for what differs, so that both answers have the same number of bytes."""


class Nginx(Child):
    """Answers every request with the bytes of one answer of ours; `worker` is the process that does the work.

    With `deferred` the kernel gives it connections when their first bytes are there, as it does for us.
    """

    def __init__(self, folder: Path, request: bytes, answer: bytes, deferred: bool = False) -> None:
        folder.mkdir()
        self.address = _free_address()
        config = folder / "nginx.conf"
        config.write_text(_config(folder, self.address, answer, deferred))
        command = [require("nginx", "nginx-light"), "-p", str(folder), "-e", "stderr", "-c", str(config)]
        super().__init__(pinned(SERVER_CORE, command), folder / "nginx.log")
        try:
            _check_same(self._first_answer(request), answer)
            (self.worker,) = children(self.pid)
        except BaseException:
            self.kill()
            raise

    def _first_answer(self, request: bytes) -> bytes:
        """nginx does not say when it listens: ask until it answers."""
        while not self.has_ended:
            try:
                return exchange(self.address, request)
            except ConnectionRefusedError:
                time.sleep(0.01)
        raise self.failed("ended before it listened")


def _config(folder: Path, address: Address, answer: bytes, deferred: bool) -> str:
    head, _, body = answer.decode().partition("\r\n\r\n")
    ours = dict(line.split(": ", 1) for line in head.split("\r\n")[1:])
    added = {name: value for name, value in ours.items() if name.lower() not in _ITS_OWN}
    length = len(added[_PADDED]) + len(ours["Server"]) - len("nginx")
    length -= 0 if "Connection" in ours else len("Connection: keep-alive\r\n")
    added[_PADDED] = added[_PADDED].ljust(length, "0")[:length]
    return _CONFIG.format(
        folder=folder,
        address=address,
        deferred=" deferred" if deferred else "",
        user="user root;" if os.getuid() == 0 else "",
        content_type=ours["Content-Type"],
        headers=" ".join(f"add_header {name} '{value}';" for name, value in added.items()),
        body=body,
    )


def _free_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return Address(*listening.getsockname())


def _check_same(theirs: bytes, ours: bytes) -> None:
    if len(theirs) != len(ours) or theirs.partition(b"\r\n\r\n")[2] != ours.partition(b"\r\n\r\n")[2]:
        raise CannotMeasure(f"nginx does not send what we send:\n{theirs!r}\n{ours!r}")
