"""uvicorn as we need it: without its own signal handlers, and no client can keep idle connections open."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Container, Iterator
from functools import partial
from typing import cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from duenotice.bootstrap.logs import ToOurLog

MOST_CONNECTIONS = 200
"""File descriptors of this process are for VMs."""

PATIENCE_SECONDS = 10.0
"""How long a head, a body or an idle connection may take; uvicorn itself would wait for ever (S24)."""


class OperatorServer(uvicorn.Server):
    """Another part of this process decides when to stop."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen. uvicorn itself would wait for a handshake of TLS for a minute (S24)."""
        loop, config = asyncio.get_running_loop(), self.config
        made = partial(PatientOnlySoLong, config=config, server_state=self.server_state, app_state={})
        patience = PATIENCE_SECONDS if config.ssl else None
        self.servers = [
            await loop.create_server(
                made, sock=listening, ssl=config.ssl, ssl_handshake_timeout=patience, backlog=config.backlog
            )
            for listening in sockets or ()
        ]
        self.started = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class PatientOnlySoLong(H11Protocol):
    """A connection that is closed when two checks find the same thing unfinished."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast(asyncio.Transport, transport))
        if len(self.connections) > MOST_CONNECTIONS:
            self.transport.abort()
        else:
            self.loop.call_later(PATIENCE_SECONDS, self._look, None)

    def shutdown(self) -> None:
        """Also end a TLS connection that is idle: its end is a talk, and uvicorn would wait for the client's part."""
        super().shutdown()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.transport.abort()

    def _look(self, last: object) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle
        waits_for_client = cycle is None or cycle.response_complete or cycle.more_body
        if waits_for_client and cycle is last:
            self.transport.abort()
        else:
            self.loop.call_later(PATIENCE_SECONDS, self._look, cycle)


class Front:
    """One port for programs and people: the API has its own paths and all of /v1, the console the rest."""

    def __init__(self, api: ASGIApp, console: ASGIApp, api_paths: Container[str]) -> None:
        self._api, self._console, self._api_paths = api, console, api_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on to the API or to the console."""
        path = scope.get("path", "")
        is_for_programs = path in self._api_paths or path == "/v1" or path.startswith("/v1/")
        await (self._api if is_for_programs else self._console)(scope, receive, send)


def config(app: ASGIApp, tls: ssl.SSLContext | None = None) -> uvicorn.Config:
    """The settings of the operator's port, and of others like it; with `tls` it speaks only TLS."""
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [ToOurLog(logging.WARNING)], False
    return uvicorn.Config(
        app,
        http=PatientOnlySoLong,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=5,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )
