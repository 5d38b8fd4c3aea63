"""Runs a program, unchanged and unprivileged, where 169.254.169.254:80 is answered by a service of ours.

The program gets a network of its own, on a machine that has the name of its VM. What listens on this machine's loopback
can be reached from in there on the same ports; the world outside only if asked for, and if slirp4netns is there. Where
the kernel allows no such network, the program is run with `http_proxy` set instead, which most clients honour.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from duenotice.errors import Misconfigured, Unavailable
from duenotice.escape import one_line
from duenotice.testkit import sandbox_child

LARGEST_WORD = 65536
MOST_SOCKETS = 200
"""The most that one message may carry is a little more."""

STARTING_SECONDS = 10.0
STOPPING_SECONDS = 5.0
_LOOPBACK = {"0100007F", "00000000", "00000000000000000000000001000000", "00000000000000000000000000000000"}
_LISTENING = "0A"


class Supervised(NamedTuple):
    """A program that runs, or is ready to; `process` supervises it, and ends as it does.

    When nobody holds the control socket any more, also because we were killed, the program ends with all that it has
    started.
    """

    process: "subprocess.Popen[bytes]"
    control: socket.socket

    def stop(self) -> None:
        """End it and what it has started: first with SIGTERM, then with SIGKILL."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(STOPPING_SECONDS)
        self.control.close()
        self.process.wait()


class Sandboxed(NamedTuple):
    """A program that is ready to begin; `metadata` is the socket to answer, `relays` lead to ports of this machine."""

    program: Sequence[str]
    hostname: str
    supervised: Supervised
    metadata: socket.socket
    relays: list[socket.socket]
    namespaces: list[int]
    """The open files of its user, network and hostname, by which another process can join them."""
    slirp: Supervised | None = None

    def begin(self) -> None:
        """Let the program run."""
        self.supervised.control.sendall(b"go")

    def begin_again(self) -> Supervised:
        """Run the program once more, in the same network."""
        arguments = [sandbox_child.JOIN, *map(str, self.namespaces), *self.program]
        return _supervised(arguments, _environment(self.hostname), *self.namespaces)

    def end(self) -> None:
        """End the program, and take down what was needed for it."""
        self.supervised.stop()
        for namespace in self.namespaces:
            os.close(namespace)
        if self.slirp is not None:
            self.slirp.stop()


def sandboxed(program: Sequence[str], hostname: str, network: bool = False) -> Sandboxed:
    """A program in a network of its own, not begun yet; raises Unavailable where that is not possible."""
    _require(program)
    ports = ",".join(str(port) for port in loopback_ports())
    supervised = _supervised([sandbox_child.NETWORK, hostname, ports, *program], _environment(hostname))
    supervised.control.settimeout(STARTING_SECONDS)
    try:
        word, descriptors, *_ = socket.recv_fds(
            supervised.control, LARGEST_WORD, MOST_SOCKETS + len(sandbox_child.NAMESPACES)
        )
        told = json.loads(word or b'{"error": "it ended at once"}')
    except (OSError, ValueError) as error:
        told, descriptors = {"error": str(error)}, []
    if "error" in told:
        supervised.stop()
        raise Unavailable(
            f"This machine allows no network of its own: {told['error']}.", hint="A proxy is used instead."
        )
    count = len(told["ports"])
    metadata, *relays = (socket.socket(fileno=descriptor) for descriptor in descriptors[:count])
    try:
        slirp = _lead_outside(supervised.process.pid) if network else None
    except BaseException:
        supervised.stop()
        raise
    return Sandboxed(program, hostname, supervised, metadata, relays, descriptors[count:], slirp)


def by_proxy(program: Sequence[str], metadata: tuple[str, int]) -> Supervised:
    """The second best way: we are the program's HTTP proxy, so it asks us for any address."""
    _require(program)
    proxy = f"http://{metadata[0]}:{metadata[1]}"
    names = {"http_proxy": proxy, "HTTP_PROXY": proxy, "no_proxy": "", "NO_PROXY": ""}
    names |= {"DUENOTICE_METADATA_ENDPOINT": proxy}  # for our own clients, which ignore proxies
    return _supervised([sandbox_child.SUPERVISE, *program], os.environ | names)


def _supervised(
    arguments: Sequence[str], environment: Mapping[str, str], *passed: int, output: int | None = None
) -> Supervised:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", sandbox_child.__name__, str(theirs.fileno()), *arguments],
        env=environment,
        pass_fds=[theirs.fileno(), *passed],
        stdout=sys.stderr.fileno() if output is None else output,  # output of the program is not our data
        stderr=output,
        start_new_session=True,  # Ctrl-C is for us alone
    )
    theirs.close()
    return Supervised(process, ours)


def _environment(hostname: str) -> dict[str, str]:
    """What a shell has told us of this machine's name is not true in there."""
    return {**os.environ, **({"HOSTNAME": hostname} if "HOSTNAME" in os.environ else {})}


def _require(program: Sequence[str]) -> None:
    """Refuse what the system would not run, with the reason, which it does not tell."""
    name = program[0]
    if (found := shutil.which(name)) is not None:
        _require_interpreter(Path(found))
        return
    shown, file = one_line(name), Path(name)
    if not name or not file.exists():
        raise Misconfigured(f"There is no program {shown or 'without a name'}.", hint="Give its path, or fix PATH.")
    if file.is_dir():
        raise Misconfigured(f"{shown} is a directory, not a program.", hint="Name a file in it.")
    if not os.access(file, os.X_OK):
        hint = f"chmod +x {shown}, or name what runs it before it, such as python3 or sh."
        raise Misconfigured(f"{shown} is not executable.", hint=hint)
    raise Misconfigured(f"There is no program {shown} in PATH, but here is such a file.", hint=f"Write ./{shown}.")


def _require_interpreter(file: Path) -> None:
    """A script whose first line names nothing that exists is said to be missing itself."""
    with suppress(OSError), file.open("rb") as opened:
        line, shown = opened.readline(256), one_line(str(file))
        interpreter = Path(os.fsdecode((line[2:].split() or [b"."])[0]))
        if not line.startswith(b"#!"):
            return
        if line.endswith(b"\r\n"):
            raise Misconfigured(f"The lines of {shown} end with CR LF.", hint="Let them end with LF: dos2unix does it.")
        if not interpreter.exists():
            what = f"{one_line(str(interpreter))}, which its first line names, is not there"
            raise Misconfigured(f"{shown} cannot be run: {what}.", hint="Change that line, or install it.")


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


def _lead_outside(pid: int) -> Supervised:
    """Let slirp4netns carry packets of the sandbox to the outside, without privileges."""
    program = shutil.which("slirp4netns")
    if program is None:
        raise Misconfigured("The outside network needs slirp4netns.", hint="Install it, or leave --network out.")
    ready, theirs = os.pipe()
    command = [program, "--configure", "--disable-host-loopback", f"--ready-fd={theirs}", str(pid), "tap0"]
    slirp = _supervised([sandbox_child.SUPERVISE, *command], os.environ, theirs, output=subprocess.DEVNULL)
    os.close(theirs)
    with os.fdopen(ready, "rb") as pipe:
        if pipe.read(1) != b"1":
            slirp.stop()
            raise Misconfigured("slirp4netns could not join the sandbox.", hint="Leave --network out.")
    return slirp
