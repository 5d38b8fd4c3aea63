"""The driver that the settings ask for; settings that contradict each other are refused before anything begins."""

import shlex
import shutil
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from duenotice.bootstrap.cluster import claims_of
from duenotice.domain.event import Event, Phase
from duenotice.engine.engine import Engine
from duenotice.errors import Misconfigured
from duenotice.impact.command import CommandDriver
from duenotice.impact.dispatcher import Dispatcher
from duenotice.impact.driver import Driver
from duenotice.impact.webhook import Receiver, WebhookDriver
from duenotice.settings import ServeSettings

SPOOL = "impact"

log = structlog.get_logger()

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


def check(settings: ServeSettings, data_dir: Path | None) -> None:
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
        from duenotice.bootstrap.libvirt import libvirt_hosts  # what only a hypervisor needs takes 1 MB

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
        claims=claims_of(engine, settings.impact_timeout),
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
            from duenotice.bootstrap.libvirt import libvirt_driver

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
