"""Several processes that share the metadata port (`--workers`): this one is the node, and the others follow it.

A worker that ends is started again. It ends by itself when the node is gone, because nobody writes to it any more.
"""

import asyncio
import os
import sys
from contextlib import suppress

import structlog

from duenotice.backoff import Backoff
from duenotice.bootstrap.ports import NOWHERE
from duenotice.domain.commands import CreateToken
from duenotice.domain.token import Role, digest_of
from duenotice.engine.engine import SELF, Engine
from duenotice.errors import Misconfigured, Unavailable
from duenotice.operator_api.calls import new_id
from duenotice.operator_api.tokens import new_token
from duenotice.settings import ENVIRONMENT_PREFIX, ServeSettings, host_port

_SAME = (
    "throttle",
    "approvals_throttle",
    "default_vm",
    "max_connections",
    "connections_per_address",
    "first_answer_delay",
    "first_answer_empty",
    "newer_versions_400",
    "leaf_json",
    "watchdog",
    "log_format",
    "node_ca_file",
)
"""Settings that workers have from the node."""

PROGRAM = (sys.executable, "-m", "duenotice.cli.worker")
PAUSES = Backoff(0.1, 5.0)
STOP_SECONDS = 8.0
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

    def __init__(self, settings: ServeSettings, node: str) -> None:
        self._settings, self._node = settings, node
        self._task: asyncio.Task[None] | None = None
        self._token: int | None = None

    def start(self, engine: Engine, metadata: tuple[str, int], operator: tuple[str, int]) -> None:
        """Start them; nothing if there are none."""
        if count_of(self._settings) == 1:
            return
        self._task = asyncio.create_task(self._run_all(engine, metadata, operator), name="workers")
        self._task.add_done_callback(engine.lost)

    async def _run_all(self, engine: Engine, metadata: tuple[str, int], operator: tuple[str, int]) -> None:
        self._token = _kept(await self._let_in(engine))
        command, token = (*PROGRAM, *self._flags(metadata, operator, self._token)), self._token
        await asyncio.gather(*(_run(number, command, token) for number in range(1, count_of(self._settings))))

    async def _let_in(self, engine: Engine) -> str:
        """A token made for them. There may be no node that leads just now."""
        secret = new_token()
        # Nodes that share a journal have workers of their own.
        name = f"workers@{self._node}" if self._settings.journal else "workers"
        for pause in PAUSES.pauses():
            try:
                made = CreateToken(new_id(), name, Role.FOLLOWER, digest_of(secret), replace=True)
                await engine.submit(made, SELF)
                break
            except Unavailable as error:
                log.warning("workers cannot start yet", action="workers-wait", error=error.message, hint=error.hint)
                await asyncio.sleep(pause)
        return secret

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
        if self._token is not None:
            os.close(self._token)
            self._token = None


async def _run(number: int, command: tuple[str, ...], token: int) -> None:
    """One worker, again and again."""
    loop, ends = asyncio.get_running_loop(), 0
    while True:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)},
            start_new_session=True,
            pass_fds=(token,),
        )
        began = loop.time()
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            await _end(process)
            raise
        ends = 0 if loop.time() - began > PAUSES.longest else ends + 1
        log.error(
            "a worker has ended", action="worker-ended", worker=number, status=status, hint="It is started again."
        )
        await asyncio.sleep(PAUSES.after(ends))


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
