"""`duenotice doctor`: what is installed and what this machine allows, a line for each with what to do."""

import os
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import click

from duenotice import __version__
from duenotice.cli.errors import Failed
from duenotice.cli.output import NEVER, WRITERS, confirm, print_text, view
from duenotice.client.operator.config import DEFAULT_ENDPOINT, found_token
from duenotice.client.operator.errors import NotReached
from duenotice.errors import BROUGHT_BY, DuenoticeError, reason

OK, NOTE, BAD = "ok", "note", "bad"
COLOURS = {OK: "green", NOTE: "yellow", BAD: "red"}
VIEW = view("subject", "SUBJECT=subject STATE=state")
LITTLE_ROOM = 200 * 2**20
SLOW_SYNC = 0.1
SECONDS = 3.0
METADATA = ("169.254.169.254", 80)
_TIME_ERROR = 5
_IN_A_NETWORK_OF_ITS_OWN = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
raise SystemExit(libc.unshare(0x10000000 | 0x40000000) and os.strerror(ctypes.get_errno()))
"""


class CheckResult(NamedTuple):
    """One line: `note` is for what only some people need."""

    subject: str
    state: str
    what: str
    do: str = ""


@click.command(epilog="Example: duenotice doctor --data-dir /var/lib/duenotice")
@click.option(
    "--endpoint",
    default=DEFAULT_ENDPOINT,
    envvar="DUENOTICE_ENDPOINT",
    show_default=True,
    help="the operator's port of a service",
)
@click.option("--metadata", default="", metavar="URL", help="the metadata service  [default: http://169.254.169.254]")
@click.option("-y", "--yes", is_flag=True, help="contact http://169.254.169.254 without asking")
@click.option("--data-dir", default="", metavar="DIRECTORY", help="where the journal is, or would be")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "jsonl", "yaml"]),
    default="text",
    help="the form of the output",
)
def doctor(endpoint: str, metadata: str, yes: bool, data_dir: str, output: str) -> None:
    """Check what is installed and what this machine allows; say what to do.

    The exit code is 1 when something is bad. A note is for what only some people need.

    On a machine of a cloud, http://169.254.169.254 is that cloud's own service, and not ours. So it is asked only if
    you say so: at the question, with --yes, or with --metadata.
    """
    found = list(_findings(endpoint, metadata, yes or bool(metadata) or _may_ask(), data_dir))
    if output == "text":
        for finding in found:
            _print(finding)
    else:
        WRITERS[output]([finding._asdict() for finding in found], VIEW, lambda: NEVER)
    bad = sum(finding.state == BAD for finding in found)
    if bad:
        raise Failed(
            f"{bad} of {len(found)} findings {'is' if bad == 1 else 'are'} bad.",
            hint="Do what stands behind the arrow.",
        )


def _may_ask() -> bool:
    """Whether a person lets us contact the metadata address; a script has not said so."""
    return sys.stdin.isatty() and confirm(
        "Ask http://169.254.169.254 for the name of this VM? A cloud may have its own."
    )


def _findings(endpoint: str, metadata: str, may_ask: bool, data_dir: str) -> Iterator[CheckResult]:
    from duenotice.settings import ServeSettings, default_data_dir, parse_listen

    defaults = ServeSettings()
    places = {
        "metadata port": parse_listen("metadata_listen", defaults.metadata_listen),
        "operator port": parse_listen("operator_listen", defaults.operator_listen),
        "metadata address": METADATA,
    }
    return chain(
        check_installation(),
        check_ports(places),
        check_namespaces(),
        check_metadata(metadata) if may_ask else metadata_not_asked(),
        check_service(endpoint, found_token()),
        check_clock(),
        check_disk(Path(data_dir) if data_dir else default_data_dir()),
    )


def _print(finding: CheckResult) -> None:
    print_text(f"{finding.state:4}", nl=False, fg=COLOURS[finding.state])
    print_text(f"  {finding.subject:17} {finding.what}")
    if finding.do:
        print_text(f"{'':23} → {finding.do}", dim=True)


def check_installation() -> Iterator[CheckResult]:
    """This program, and which extras are there."""
    import platform
    from importlib.util import find_spec

    python = f"Python {platform.python_version()} on {sys.platform} {platform.machine()}"
    yield CheckResult("version", OK, f"duenotice {__version__}, {python}")
    for extra in dict.fromkeys(BROUGHT_BY.values()):
        libraries = [library for library, brings in BROUGHT_BY.items() if brings == extra]
        missing = [library for library in libraries if find_spec(library) is None]
        if missing:
            what = f"{', '.join(missing)} is not installed"
            yield CheckResult(f"extra {extra}", NOTE, what, f"If you need it: pip install 'duenotice[{extra}]'")
        else:
            yield CheckResult(f"extra {extra}", OK, "installed")


def check_ports(places: dict[str, tuple[str, int]]) -> Iterator[CheckResult]:
    """Whether the service could listen where it does by default, and on the metadata address."""
    import errno
    import socket

    from duenotice.settings import host_port, listen_hint

    for name, place in places.items():
        try:
            socket.create_server(place).close()
        except OSError as error:
            state = NOTE if place == METADATA or error.errno == errno.EADDRINUSE else BAD
            yield CheckResult(
                name,
                state,
                f"{host_port(place)} cannot be had: {os.strerror(error.errno or 0)}",
                listen_hint(place, error),
            )
        else:
            yield CheckResult(name, OK, f"{host_port(place)} is free")


def check_namespaces() -> Iterator[CheckResult]:
    """Whether `duenotice run` can give a program a network of its own."""
    import subprocess

    tried = subprocess.run(
        [sys.executable, "-c", _IN_A_NETWORK_OF_ITS_OWN], capture_output=True, text=True, check=False
    )
    if tried.returncode == 0:
        yield CheckResult("namespaces", OK, "'duenotice run' can give a program a network of its own")
    else:
        why = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        hint = "'duenotice run' uses http_proxy instead. To allow it: sysctl kernel.unprivileged_userns_clone=1"
        yield CheckResult("namespaces", NOTE, f"not allowed here: {why}", hint)


def metadata_not_asked() -> Iterator[CheckResult]:
    """Nobody has said that it may be asked."""
    hint = "Whether it answers: 'duenotice doctor --yes'. Of another service: --metadata URL."
    yield CheckResult("metadata", NOTE, "{}:{} was not asked".format(*METADATA), hint)


def check_metadata(endpoint: str) -> Iterator[CheckResult]:
    """Whether the metadata address answers, as a VM asks it. It does not poll: that would turn events on (F01)."""
    from duenotice.client import MetadataClient
    from duenotice.client.errors import MetadataError
    from duenotice.clock import wall

    with MetadataClient(endpoint or None, timeout=SECONDS, budget=0.0) as client:
        try:
            name = client.instance_name()
        except MetadataError as error:
            hint = "On a VM of Azure or of duenotice it would. Elsewhere use 'duenotice run', or --metadata URL."
            yield CheckResult("metadata", NOTE, f"no answer: {error.message.rstrip('.')}", hint)
        else:
            yield CheckResult("metadata", OK, f"it answers, and calls this VM {name}")
            yield from _difference((client.service_time - wall()).total_seconds() if client.service_time else 0.0)


def _difference(seconds: float) -> Iterator[CheckResult]:
    if abs(seconds) > SECONDS:
        what = f"this machine and the metadata service differ by {abs(seconds):.0f} s"
        yield CheckResult("clock", BAD, what, "Use NTP: the notice that is left would be counted wrong.")


def check_service(endpoint: str, token: str) -> Iterator[CheckResult]:
    """Whether the operator's port answers, and takes the token."""
    from duenotice.cli.session import connected

    with connected(endpoint, token, SECONDS) as client:
        try:
            clock = client.clock()
        except NotReached as error:
            yield CheckResult("service", NOTE, error.message.rstrip("."), error.hint)
        except DuenoticeError as error:
            yield CheckResult("token", BAD, error.message.rstrip("."), error.hint)
        else:
            yield CheckResult("service", OK, f"{endpoint} answers and takes the token; its clock is {clock.clock}")


def check_clock() -> Iterator[CheckResult]:
    """Whether the kernel says that the clock is kept right."""
    import ctypes

    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    except (AttributeError, OSError):  # not Linux
        return
    if state == _TIME_ERROR:
        hint = "Install chrony or systemd-timesyncd. Without it, NotBefore is shown wrong to people and clients."
        yield CheckResult("clock", NOTE, "nothing keeps this machine's clock right", hint)
    elif state >= 0:
        yield CheckResult("clock", OK, "it is kept right")


def check_disk(place: Path) -> Iterator[CheckResult]:
    """Whether the journal could be written, how much room it has, and how long a sync takes."""
    import shutil

    folder = next(parent for parent in (place, *place.parents) if parent.is_dir())
    try:
        free = shutil.disk_usage(folder).free
        seconds = _sync_seconds(folder)
    except OSError as error:
        yield CheckResult("disk", BAD, f"{folder} cannot be written: {reason(error)}", "Name another with --data-dir.")
        return
    if free < LITTLE_ROOM:
        yield CheckResult(
            "disk", BAD, f"{place} has {free / 2**20:.0f} MB left", "Make room: a full disk stops all changes."
        )
    elif seconds > SLOW_SYNC:
        hint = "Each change waits for one. A local disk is better than a network's."
        yield CheckResult("disk", NOTE, f"a sync in {place} took {seconds * 1000:.0f} ms", hint)
    else:
        what = f"{place}: {free / 2**30:.1f} GB left, a sync took {seconds * 1000:.1f} ms"
        yield CheckResult("disk", OK, what)


def _sync_seconds(folder: Path) -> float:
    import tempfile
    from time import perf_counter

    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(4096))
        file.flush()
        begun = perf_counter()
        os.fdatasync(file.fileno())
        return perf_counter() - begun
