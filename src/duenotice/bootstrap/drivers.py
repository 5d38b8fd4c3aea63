"""Drivers from the settings: what carries impacts out, the hypervisor behind them, and push."""

import shlex
import shutil
import ssl
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from duenotice.bootstrap.cluster import claims_of
from duenotice.domain.event import Event, Phase
from duenotice.domain.fleet import Condition, Fleet
from duenotice.domain.rules.receivers import MOST_SUBSCRIPTIONS
from duenotice.engine.engine import Engine
from duenotice.errors import Misconfigured
from duenotice.impact.command import CommandDriver
from duenotice.impact.dispatcher import Dispatcher
from duenotice.impact.driver import Driver
from duenotice.impact.webhook import Receiver, WebhookDriver
from duenotice.push.addresses import AllowedAddresses
from duenotice.push.receiver import NetworkPolicy, ReceiverThread
from duenotice.push.service import PushService, PushTerms
from duenotice.settings import ServeSettings
from duenotice.wire.fleet_file import is_name

log = structlog.get_logger()

SPOOL = "impact"

if TYPE_CHECKING:  # what only a hypervisor needs takes 1 MB
    from duenotice.host.libvirt_host import LibvirtHost
    from duenotice.impact.libvirt import LibvirtDriver, Whereabouts


def libvirt_driver(settings: ServeSettings, engine: Engine) -> "LibvirtDriver":
    """The driver of all hosts that are named."""
    from duenotice.impact.libvirt import LibvirtDriver

    hosts = {host.name: host for host in libvirt_hosts(settings)}
    first = next(iter(hosts))
    return LibvirtDriver(
        hosts, lambda vm: place_of(engine.state.fleet, first, vm), settings.libvirt_grace, settings.libvirt_undefine
    )


def libvirt_hosts(settings: ServeSettings) -> "list[LibvirtHost]":
    """The hosts that are named; no connection is made yet."""
    named: dict[str, str] = {}
    for text in settings.libvirt_hosts.split(","):
        name, _, uri = text.strip().partition("=")
        if not is_name(name) or "://" not in uri or name in named:
            hint = "Write h1=qemu:///system, each host once; several with commas between them."
            raise Misconfigured(f"libvirt_hosts: {text.strip()!r} is not NAME=URI.", hint=hint)
        named[name] = uri
    from duenotice.host.libvirt_host import LibvirtHost  # libvirt itself may not be there

    return [LibvirtHost(name, uri) for name, uri in named.items()]


def place_of(fleet: Fleet, only: str, vm: str) -> "Whereabouts":
    """Where a VM is, and where it may go: the host that the fleet will say when the event is over."""
    from duenotice.impact.libvirt import Whereabouts

    known = fleet.vms.get(vm)
    host = known.host if known is not None and known.host else only
    there = fleet.hosts.get(host)
    is_held = there is not None and there.condition is Condition.DRAINED
    return Whereabouts(host, fleet.other_host(avoid=host), is_held)


def check_push(settings: ServeSettings) -> None:
    """Refuse networks that are not valid, and a CA that cannot be used."""
    _allowed(settings)
    if settings.push_ca_file:
        _trust(settings.push_ca_file)


def pusher_of(settings: ServeSettings, engine: Engine) -> PushService:
    """It delivers when it is started."""
    policy = NetworkPolicy(
        _allowed(settings),
        partial(_trust, settings.push_ca_file),
        settings.push_timeout,
        ThreadPoolExecutor(MOST_SUBSCRIPTIONS, thread_name_prefix="push-resolver"),
    )
    return PushService(engine, ReceiverThread(policy), PushTerms(settings.push_retry_after))


def _allowed(settings: ServeSettings) -> AllowedAddresses:
    return AllowedAddresses(settings.push_allow.replace(",", " ").split())


@cache  # it takes a while to read the system's, and most services need none
def _trust(path: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=path or None)
    except (OSError, ValueError) as error:
        raise Misconfigured(f"push_ca_file: cannot use {path}: {error}.", hint="It must be in PEM.") from None


_BELONGS_TO = {
    "impact_command": "command",
    "impact_url": "webhook",
    "impact_bearer_file": "webhook",
    "impact_signing_key_file": "webhook",
    "impact_ca_file": "webhook",
    "libvirt_hosts": "libvirt",
    "libvirt_undefine": "libvirt",
}
_NEEDS = {"command": "impact_command", "webhook": "impact_url", "libvirt": "libvirt_hosts"}


def check_impact(settings: ServeSettings, data_dir: Path | None) -> None:
    """Refuse settings that contradict each other, or that name something that does not exist."""
    for name, impact in _BELONGS_TO.items():
        if getattr(settings, name) and settings.impact != impact:
            raise Misconfigured(f"{name} is set, but impact is {settings.impact}.", hint=f"Set impact to {impact}.")
    needed = _NEEDS.get(settings.impact)
    if needed is not None and not getattr(settings, needed):
        raise Misconfigured(f"impact is {settings.impact}, but {needed} is not set.", hint=f"Set {needed}.")
    if settings.impact == "command":
        _check_command(command_of(settings), data_dir)
    if settings.impact == "webhook":
        _check_url(settings.impact_url)
        _receiver(settings)
    if settings.impact == "libvirt":
        libvirt_hosts(settings)


def dispatcher_of(settings: ServeSettings, engine: Engine, data_dir: Path | None) -> Dispatcher | None:
    """The dispatcher with its driver; None when impacts are simulated."""
    driver = _driver(settings, engine, data_dir)
    if driver is None:
        return None
    return Dispatcher(
        engine,
        driver,
        at_once=settings.impact_at_once,
        retry_after=settings.impact_retry_after,
        report_within=settings.impact_report_within,
        claims=claims_of(engine, settings.impact_timeout, driver.directory),
    )


def begin(dispatcher: Dispatcher | None, engine: Engine) -> None:
    """Go on with what has started. Also at a node that does not lead: its earlier process may have begun it (N12)."""
    if dispatcher is not None:
        dispatcher.start()
    elif engine.leads and (left := [event.id for event in engine.state.events.values() if waits_for_report(event)]):
        hint = "Report each with POST /v1/events/ID/report, or start with the impact setting that it had before."
        log.warning("a driver had begun these", action="impact-left", event_ids=left[:10], count=len(left), hint=hint)


def waits_for_report(event: Event) -> bool:
    """Whether an event goes on only when somebody reports it."""
    return event.phase is Phase.STARTED and event.impact_ends is None


def command_of(settings: ServeSettings) -> list[str]:
    """Program and arguments: a list as it is; a text is split as a shell would do it, but without a shell."""
    if not isinstance(settings.impact_command, str):
        return list(settings.impact_command)
    try:
        return shlex.split(settings.impact_command)
    except ValueError as error:
        raise Misconfigured(f"impact_command cannot be split into words: {error}.", hint="Fix its quotes.") from None


def _driver(settings: ServeSettings, engine: Engine, data_dir: Path | None) -> Driver | None:
    match settings.impact:
        case "command":
            assert data_dir is not None  # or check has refused it
            final = settings.impact_lost == "fail"
            return CommandDriver(command_of(settings), data_dir / SPOOL, settings.impact_timeout, final)
        case "webhook":
            return WebhookDriver(_receiver(settings), settings.impact_timeout)
        case "libvirt":
            return libvirt_driver(settings, engine)
        case _:
            return None


def _check_command(command: list[str], data_dir: Path | None) -> None:
    if data_dir is None:
        raise Misconfigured(
            "impact is command, but :memory: keeps nothing on disk.",
            hint="Give a data_dir: it keeps notes of what has run.",
        )
    if not command or shutil.which(command[0]) is None:
        program = command[0] if command else ""
        raise Misconfigured(
            f"impact_command: {program!r} is not a program.", hint="Give its path, and make it executable."
        )
    if any("\0" in word for word in command):
        raise Misconfigured("impact_command has a NUL character in it.", hint="Take it out.")


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise Misconfigured(f"impact_url {url!r} is not a URL.", hint="Write it like https://host/path.")
    if parts.username is not None or parts.fragment:
        raise Misconfigured(
            "impact_url has a password or a fragment in it.", hint="Use impact_bearer_file for a secret."
        )


def _receiver(settings: ServeSettings) -> Receiver:
    if settings.impact_ca_file:
        _check_certificates(settings.impact_ca_file)
    return Receiver(
        settings.impact_url,
        _secret("impact_bearer_file", settings.impact_bearer_file),
        _secret("impact_signing_key_file", settings.impact_signing_key_file),
        settings.impact_ca_file or None,
    )


def _secret(name: str, path: str) -> str:
    """The one line of a file."""
    if not path:
        return ""
    try:
        secret = Path(path).read_text().strip()
    except (OSError, ValueError) as error:
        raise Misconfigured(
            f"{name}: cannot read {path}: {error}.", hint="Check the path and who may read it."
        ) from None
    if not secret or not secret.isascii() or not secret.isprintable():
        raise Misconfigured(f"{name}: {path} holds no secret.", hint="Write it as one line of plain characters.")
    return secret


def _check_certificates(path: str) -> None:
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ValueError) as error:
        raise Misconfigured(f"impact_ca_file: cannot use {path}: {error}.", hint="It must be in PEM.") from None
