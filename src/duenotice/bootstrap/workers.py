"""Several processes that share the metadata port (`--workers`): this one is the node, and the others follow it.

A worker that ends is replaced by a spare, which has loaded its program; one that stands still is killed. All end with
the node.

The kernel leads a VM always to the same of them, so one VM's throttle, its connections and its polls that wait are
counted in one place (A08, S24). It runs a few instructions of a classic BPF program for each new connection: that takes
the source address and answers with a number.
"""

import asyncio
import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from duenotice.backoff import Backoff
from duenotice.bootstrap.ports import NOWHERE
from duenotice.clock import monotonic
from duenotice.domain.token import Role, Token, digest_of
from duenotice.engine.engine import Engine
from duenotice.engine.followers import Followers
from duenotice.errors import Misconfigured
from duenotice.operator_api.calls import new_id
from duenotice.operator_api.tokens import new_token
from duenotice.settings import ENVIRONMENT_PREFIX, ServeSettings, host_port

_ATTACH = getattr(socket, "SO_ATTACH_REUSEPORT_CBPF", 51)
_NETWORK_HEADER = -0x100000
"""Where the kernel has the IP header, whatever is in front of it."""
_VERSION, _FROM_4, _FROM_6 = 0, (12,), (8, 12, 16, 20)
"""Places in the header: the version is in the first half byte, then the source address in words of four bytes."""
_SPREAD, _HIGH_BITS = 2654435761, 16
"""Addresses in a row go to different processes: a multiplication by the golden ratio, of which the high bits count."""


class Instruction(NamedTuple):
    """One instruction: `code` says what, `yes` and `no` how many steps to skip, `value` its number."""

    code: int
    value: int = 0
    yes: int = 0
    no: int = 0


_LOAD_BYTE, _LOAD_WORD, _KEEP = 0x30, 0x20, 0x07
_SHIFT, _MULTIPLY, _MODULO, _XOR_KEPT = 0x74, 0x24, 0x94, 0xAC
_IF_EQUAL, _SKIP, _RETURN = 0x15, 0x05, 0x16


def program(processes: int) -> list[Instruction]:
    """The number of a process for each source address, of IPv4 or IPv6."""
    four, six = _folded(_FROM_4), _folded(_FROM_6)
    return [
        Instruction(_LOAD_BYTE, _NETWORK_HEADER + _VERSION),
        Instruction(_SHIFT, 4),
        Instruction(_IF_EQUAL, 4, no=len(four) + 1),
        *four,
        Instruction(_SKIP, len(six)),
        *six,
        Instruction(_MULTIPLY, _SPREAD),
        Instruction(_SHIFT, _HIGH_BITS),
        Instruction(_MODULO, processes),
        Instruction(_RETURN),
    ]


def _folded(places: tuple[int, ...]) -> list[Instruction]:
    """All words of an address as one."""
    first, *others = (Instruction(_LOAD_WORD, _NETWORK_HEADER + place) for place in places)
    return [first, *(step for other in others for step in (Instruction(_KEEP), other, Instruction(_XOR_KEPT)))]


def attach_reuseport_bpf(listening: socket.socket, processes: int) -> None:
    """For all who share the port of this socket. Without it connections are spread at random, and limits count less."""
    steps = [struct.pack("=HBBI", code, yes, no, value & 0xFFFFFFFF) for code, value, yes, no in program(processes)]
    code = ctypes.create_string_buffer(b"".join(steps))
    try:
        listening.setsockopt(socket.SOL_SOCKET, _ATTACH, struct.pack("@HP", len(steps), ctypes.addressof(code)))
    except OSError as error:
        hint = f"A VM may ask up to {processes} times as often as --throttle says."
        log.warning("VMs are not steered to one worker each", action="not-steered", error=str(error), hint=hint)


_SAME = (
    "throttle",
    "approvals_throttle",
    "default_vm",
    "max_connections",
    "connections_per_address",
    "first_answer_delay",
    "first_answer_empty",
    "newer_versions_400",
    "spot_rebalance",
    "leaf_json",
    "watchdog",
    "log_format",
    "node_ca_file",
)
"""Settings that workers have from the node."""

PROGRAM = (sys.executable, "-m", "duenotice.cli.worker")
PAUSES = Backoff(0.1, 5.0)
LIVED = 2.0
"""Seconds after which a worker has started, and a spare is made. Who ends later than that is replaced at once."""
SOON = 0.1
"""What waited for the one that has ended goes first: the loop stands still while a process is made."""
STOP_SECONDS, LOOK_EVERY = 8.0, 0.25
LOCK = "workers.lock"
"""In the data directory; the node and all its workers hold it, so it is free when all of them have ended."""
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where we reach ourselves when we listen everywhere."""

log = structlog.get_logger()


def count_of(settings: ServeSettings) -> int:
    """How many processes there are, the node included; 0 is one for each core that we may use."""
    return settings.workers or len(os.sched_getaffinity(0))


def check_workers(settings: ServeSettings) -> None:
    """Refuse what cannot be done by several processes."""
    if count_of(settings) == 1:
        return
    if settings.operator_listen == NOWHERE:
        raise Misconfigured("workers need the operator's port.", hint="Give operator_listen a HOST:PORT.")
    if settings.operator_cert_file and not settings.node_url:
        hint = "Set node_url to the name in operator_cert_file: https://name:port."
        raise Misconfigured("workers ask the operator's port by the name in its certificate.", hint=hint)
    if settings.allow_faults or settings.fault:
        raise Misconfigured("Faults are set in one process, and workers would not have them.", hint="Use one worker.")


class Workers:
    """All processes but the first."""

    def __init__(self, settings: ServeSettings, data_dir: Path | None) -> None:
        self._settings = settings
        self._path = None if data_dir is None else data_dir / LOCK
        self._task: asyncio.Task[None] | None = None
        self._token = self._lock = -1

    async def last_ones_are_gone(self) -> None:
        """Wait until no worker of the last process on this directory runs: then nobody has to wait for them (N18).

        They were killed with it, which takes some milliseconds. After a lease none of them may answer.
        """
        if self._path is None or not self._path.exists():
            return
        self._lock, until = _opened(self._path), monotonic() + self._settings.lease
        while not _is_taken(self._lock) and monotonic() < until:  # noqa: ASYNC110 (a lock does not call)
            await asyncio.sleep(0.02)

    def start(
        self,
        engine: Engine,
        followers: Followers,
        admit: Callable[[tuple[Token, ...]], None],
        metadata: tuple[str, int],
        operator: tuple[str, int],
    ) -> None:
        """Start them; their token is admitted, and known to nobody else."""
        secret = new_token()
        token = Token(new_id(), "workers", Role.FOLLOWER, digest_of(secret), engine.clock.now().at)
        admit((token,))
        self._token = _kept(secret)
        if self._path is not None and self._lock < 0:
            self._lock = _opened(self._path)
            _is_taken(self._lock)
        inherited = tuple(file for file in (self._token, self._lock) if file >= 0)
        command = (*PROGRAM, *self._flags(metadata, operator, self._token))
        spare, numbers = _Spare(command, inherited), range(1, count_of(self._settings))
        runs = [_Run(number, spare, followers, token.id).again_and_again() for number in numbers]
        self._task = asyncio.create_task(_all([*runs, spare.keep()]), name="workers")
        self._task.add_done_callback(engine.lost)

    def _flags(self, metadata: tuple[str, int], operator: tuple[str, int], token: int) -> list[str]:
        host, port = operator
        flags = {
            "follow": self._settings.node_url
            if self._settings.operator_cert_file
            else f"http://{host_port((_ANY.get(host, host), port))}",
            "follow_token_file": f"/proc/self/fd/{token}",
            "metadata_listen": host_port(metadata),
            "operator_listen": NOWHERE,
            "share_port": True,
            **{name: getattr(self._settings, name) for name in _SAME},
        }
        return [_flag(name, value) for name, value in flags.items() if value != "" and value is not False]

    async def stop(self) -> None:
        """End all of them."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for file in (self._token, self._lock):
            if file >= 0:
                os.close(file)
        self._token = self._lock = -1


async def _all(runs: Sequence[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*runs)


class _Spare:
    """A process that has loaded all that it needs, and begins when it is taken: most of a start is loading (N18)."""

    def __init__(self, command: Sequence[str], inherited: Sequence[int]) -> None:
        self._command, self._inherited = command, inherited
        self._process: asyncio.subprocess.Process | None = None
        self._taken = asyncio.Event()

    @property
    def is_there(self) -> bool:
        """Whether one waits, so that none has to be made."""
        return self._process is not None and self._process.returncode is None

    async def take(self) -> asyncio.subprocess.Process:
        """One that begins now."""
        process = self._process if self.is_there else None
        self._process = None
        if process is None:
            process = await self._made()
        if process.stdin is not None:
            process.stdin.write(b"\n")
        self._taken.set()
        return process

    async def keep(self) -> None:
        """Make the next one a while after the last was taken: to load it takes time from those that serve."""
        try:
            while True:
                await self._taken.wait()
                self._taken.clear()
                await asyncio.sleep(LIVED)
                if not self.is_there:
                    self._process = await self._made()
        finally:
            if self._process is not None:
                await _end(self._process)

    async def _made(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)},
            start_new_session=True,
            pass_fds=self._inherited,
        )


class _Run:
    """One worker, again and again."""

    def __init__(self, number: int, spare: _Spare, followers: Followers, token_id: str) -> None:
        self._number, self._spare, self._followers, self._token_id = number, spare, followers, token_id

    async def again_and_again(self) -> None:
        """Start it, and start it again when it has ended; one that stands still is killed (N18)."""
        loop, ends = asyncio.get_running_loop(), 0
        while True:
            process = await self._spare.take()
            began, child = loop.time(), f"{self._token_id}/{process.pid}"
            self._followers.adopt(child, partial(_kill, process))
            try:
                status = await _ended(process)
            except asyncio.CancelledError:
                await _end(process)
                raise
            finally:
                self._followers.reaped(child)
            ends = 0 if loop.time() - began > LIVED else ends + 1
            log.error(
                "a worker has ended",
                action="worker-ended",
                worker=self._number,
                status=status,
                hint="It is started again.",
            )
            if ends > 1 or not self._spare.is_there:
                await asyncio.sleep(PAUSES.after(ends) if ends > 1 else SOON)


async def _ended(process: asyncio.subprocess.Process) -> int:
    """How it has ended. While it is stopped (SIGSTOP) the VMs of its connections get no answer: it is killed then."""
    ending = asyncio.ensure_future(process.wait())
    try:
        while not ending.done():
            await asyncio.wait([ending], timeout=LOOK_EVERY)
            if not ending.done() and _is_stopped(process.pid):
                _kill(process)
        return ending.result()
    finally:
        ending.cancel()


def _is_stopped(pid: int) -> bool:
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None
    return False


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        log.warning("a worker stands still and is killed", action="worker-killed", process=process.pid)
        with suppress(ProcessLookupError):
            process.kill()


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _is_taken(lock: int) -> bool:
    """Take a lock, which all have who inherit this file: it is free when the last of them has ended."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _flag(name: str, value: object) -> str:
    dashed = name.replace("_", "-")
    return f"--{dashed}" if value is True else f"--{dashed}={value}"


def _kept(secret: str) -> int:
    """In a file in memory: arguments and environments can be seen by others, and a kill would leave a file on disk."""
    handle = os.memfd_create("duenotice-workers")
    os.write(handle, secret.encode())
    return handle
