"""The port of the Azure door: its socket, certificates and keys, which are renewed in time, and its server (M01)."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from duenotice import settings as s
from duenotice.azure_api import certificates
from duenotice.azure_api.app import AzureApi
from duenotice.azure_api.certificates import KeyPair
from duenotice.azure_api.sign_in import TENANT
from duenotice.azure_api.signing_keys import FILE, SecretStore, SigningKeys
from duenotice.bootstrap.operator_server import OperatorServer, config
from duenotice.bootstrap.ports import BACKLOG, bound
from duenotice.domain.fleet import Site
from duenotice.engine.engine import Engine
from duenotice.engine.log import FailureKind, RepeatedFailure
from duenotice.errors import DuenoticeError, Misconfigured
from duenotice.system import SecretFile
from duenotice.wire.operator import AzureDoor

LOOK_AGAIN_SECONDS = 3600.0
"""How often certificates are looked at; a new one counts for new connections."""
KEYS_SECONDS = 60.0
"""How often keys of access tokens are looked at: after so long a key that was ended counts nowhere."""
_EVERYWHERE = ("0.0.0.0", "::")

_KEYS = FailureKind(
    "error", "the keys of access tokens cannot be read", "azure-keys", "they can be read again", "azure-keys-again"
)

log = structlog.get_logger()


def azure_port(settings: s.ServeSettings) -> "AzurePort | None":
    """The port that the settings ask for, if they do."""
    if bool(settings.azure_cert_file) != bool(settings.azure_key_file):
        raise Misconfigured("azure_cert_file and azure_key_file belong together.", hint="Give both, or none of them.")
    if not settings.azure_listen:
        return None
    return AzurePort(settings, s.parse_listen("azure_listen", settings.azure_listen))


class AzurePort:
    """Takes the port first, opens it when the service is ready, and ends with it."""

    def __init__(self, settings: s.ServeSettings, listen: tuple[str, int]) -> None:
        self._settings, self._listen = settings, listen
        self._own = ExitStack()

    def bound(self, data_dir: Path | None) -> ExitStack:
        """Take the port and make the certificates; both are let go if the start fails."""
        with ExitStack() as taken:
            self._socket = taken.enter_context(bound(self._listen))
            self._directory = data_dir or Path(taken.enter_context(TemporaryDirectory(prefix="duenotice-")))
            self.pair = self._pair()
            self._tls = certificates.context_of(self.pair)
            self._own = taken.pop_all()
        return self._own

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    @property
    def url(self) -> str:
        """Where clients find it on this machine."""
        host, port = self.address
        return f"https://{s.host_port((_LOCALLY.get(host, host), port))}"

    def told(self, site: Site) -> AzureDoor:
        """What clients need to know."""
        return AzureDoor(
            resource_manager=self.url,
            authority=self.url,
            tenant_id=TENANT,
            subscription_id=site.subscription_id,
            resource_group=site.resource_group,
            ca_file=self.ca or None,
            ca=None if self.pair.ca is None else self.pair.ca.read_text(),
        )

    @property
    def ca(self) -> str:
        """The file with the CA that clients must trust; empty if somebody brought the certificate."""
        return "" if self.pair.ca is None else str(self.pair.ca.resolve())

    async def open(self, engine: Engine, shared: SecretStore | None) -> None:
        """Listen, and look after certificates and keys. Several nodes share a store of keys."""
        self.keys = SigningKeys(shared or SecretFile(self._directory / FILE))
        self._failures = RepeatedFailure(_KEYS)
        await asyncio.to_thread(self.keys.look)
        self._socket.listen(BACKLOG)
        self._api = AzureApi(engine, self.keys)
        self._server = OperatorServer(config(self._api.app(), self._tls))
        serving = self._server.serve(sockets=[self._socket])
        self._tasks = [
            asyncio.create_task(serving, name="azure-api"),
            asyncio.create_task(self._renew(LOOK_AGAIN_SECONDS, self.renew)),
            asyncio.create_task(self._renew(KEYS_SECONDS, self.look_for_keys)),
        ]
        for task in self._tasks:
            task.add_done_callback(engine.lost)

    async def stop(self) -> None:
        """Answer the open requests."""
        self._api.close()
        self._server.should_exit = True
        _, *renewing = self._tasks
        for task in renewing:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self.keys.close)
        self._own.close()

    async def _renew(self, seconds: float, renew: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            await renew()

    async def look_for_keys(self) -> None:
        """Take new keys, and make one if it is time; those that we know count until they can be looked at again."""
        try:
            await asyncio.to_thread(self.keys.look)
        except DuenoticeError as error:
            self._failures.failed(error)
        else:
            self._failures.worked()

    async def renew(self) -> None:
        """Use a newer certificate, if there is one or it is time for one; a bad one is not used."""
        try:
            self.pair = await asyncio.to_thread(self._pair)
            self._tls.load_cert_chain(self.pair.certificate, self.pair.key)
        except (DuenoticeError, OSError, ssl.SSLError) as error:
            log.error("the certificate of the Azure door is not renewed", action="azure-certificate", error=str(error))

    def _pair(self) -> KeyPair:
        settings = self._settings
        if settings.azure_cert_file:
            return certificates.given(settings.azure_cert_file, settings.azure_key_file)
        return certificates.own(self._directory, _names(self._listen[0], settings.azure_names))


_LOCALLY = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def _names(host: str, more: str) -> set[str]:
    """What clients may call this machine."""
    names = {name.strip() for name in more.split(",") if name.strip()} | {"localhost", "127.0.0.1", "::1"}
    if host not in _EVERYWHERE:
        return names | {host}
    own = socket.gethostname()
    try:
        found = {str(entry[4][0]).partition("%")[0] for entry in socket.getaddrinfo(own, None)}
    except OSError:
        found = set()
    return names | found | {own}
