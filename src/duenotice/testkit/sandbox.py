"""Runs a program, unchanged and unprivileged, where 169.254.169.254:80 is answered by a service of ours.

The program gets a network of its own. What listens on this machine's loopback can be reached from in there on the same
ports; the world outside only if asked for, and if slirp4netns is there. Where the kernel allows no such network, the
program is run with `http_proxy` set instead, which most clients honour.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from duenotice.errors import Misconfigured, Unavailable
from duenotice.testkit import inside

LARGEST_WORD = 65536
MOST_SOCKETS = 200
"""The most that one message may carry is a little more."""

STARTING_SECONDS = 10.0
_LOOPBACK = {"0100007F", "00000000", "00000000000000000000000001000000", "00000000000000000000000000000000"}
_LISTENING = "0A"


class Sandboxed(NamedTuple):
    """A program that is ready to begin; `metadata` is the socket to answer, `relays` lead to ports of this machine."""

    program: Sequence[str]
    process: "subprocess.Popen[bytes]"
    metadata: socket.socket
    relays: list[socket.socket]
    namespaces: list[int]
    """The open files of its user and its network, by which another process can join them."""
    parent: socket.socket
    slirp: "subprocess.Popen[bytes] | None" = None

    def begin(self) -> None:
        """Let the program run."""
        self.parent.sendall(b"go")
        self.parent.close()

    def begin_again(self) -> "subprocess.Popen[bytes]":
        """Run the program once more, in the same network."""
        return _inside([inside.JOIN, *map(str, self.namespaces), *self.program], self.namespaces)

    def end(self) -> None:
        """Take down what was needed for the program, which has ended."""
        for namespace in self.namespaces:
            os.close(namespace)
        if self.slirp is not None:
            self.slirp.kill()
            self.slirp.wait()


def sandboxed(program: Sequence[str], network: bool = False) -> Sandboxed:
    """A program in a network of its own, not begun yet; Unavailable where that cannot be had."""
    _require(program)
    ours, theirs = socket.socketpair()
    ports = ",".join(str(port) for port in loopback_ports())
    process = _inside([str(theirs.fileno()), ports, *program], [theirs.fileno()])
    theirs.close()
    ours.settimeout(STARTING_SECONDS)
    try:
        word, descriptors, *_ = socket.recv_fds(ours, LARGEST_WORD, MOST_SOCKETS + len(inside.NAMESPACES))
        told = json.loads(word or b'{"error": "it ended at once"}')
    except (OSError, ValueError) as error:
        told, descriptors = {"error": str(error)}, []
    if "error" in told:
        process.kill()
        process.wait()
        ours.close()
        raise Unavailable(f"This machine allows no network of its own: {told['error']}.", hint="It goes by proxy then.")
    count = len(told["ports"])
    metadata, *relays = (socket.socket(fileno=descriptor) for descriptor in descriptors[:count])
    try:
        slirp = _lead_outside(process.pid) if network else None
    except BaseException:
        process.kill()
        process.wait()
        raise
    return Sandboxed(program, process, metadata, relays, descriptors[count:], ours, slirp)


def _inside(arguments: Sequence[str], files: Sequence[int]) -> "subprocess.Popen[bytes]":
    # What the program prints is not our data; a group of its own lets us end what it has started, too.
    command = [sys.executable, "-m", inside.__name__, *arguments]
    return subprocess.Popen(command, pass_fds=files, stdout=sys.stderr.fileno(), start_new_session=True)


def by_proxy(program: Sequence[str], metadata: tuple[str, int]) -> "subprocess.Popen[bytes]":
    """The second best way: the program is told that we are its proxy, and asks us whatever address it means."""
    _require(program)
    proxy = f"http://{metadata[0]}:{metadata[1]}"
    names = {"http_proxy": proxy, "HTTP_PROXY": proxy, "no_proxy": "", "NO_PROXY": ""}
    names |= {"DUENOTICE_METADATA_ENDPOINT": proxy}  # for clients of ours, which heed no proxy
    return subprocess.Popen(program, env=os.environ | names, stdout=sys.stderr.fileno(), start_new_session=True)


def _require(program: Sequence[str]) -> None:
    if shutil.which(program[0]) is None:
        raise Misconfigured(f"There is no program {program[0]}.", hint="Give its path, or fix PATH.")


def loopback_ports() -> list[int]:
    """The TCP ports that somebody listens on at this machine's loopback."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                address, _, port = local.partition(":")
                if state == _LISTENING and address in _LOOPBACK:
                    ports.add(int(port, 16))
    return sorted(ports)[: MOST_SOCKETS - 1]


async def relay(listening: socket.socket) -> asyncio.Server:
    """Pass connections in the sandbox on to the same port of this machine."""
    port = listening.getsockname()[1]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        writer.close()

    return await asyncio.start_server(serve, sock=listening)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


def _lead_outside(pid: int) -> "subprocess.Popen[bytes]":
    """Let slirp4netns carry packets of the sandbox to the outside, without privileges."""
    slirp = shutil.which("slirp4netns")
    if slirp is None:
        raise Misconfigured("The outside network needs slirp4netns.", hint="Install it, or leave --network out.")
    ready, theirs = os.pipe()
    command = [slirp, "--configure", "--disable-host-loopback", f"--ready-fd={theirs}", str(pid), "tap0"]
    slirp_process = subprocess.Popen(command, pass_fds=[theirs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(theirs)
    with os.fdopen(ready, "rb") as pipe:
        if pipe.read(1) != b"1":
            slirp_process.kill()
            slirp_process.wait()
            raise Misconfigured("slirp4netns could not join the sandbox.", hint="Leave --network out.")
    return slirp_process
