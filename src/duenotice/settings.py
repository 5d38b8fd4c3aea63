"""Every setting of the service as one row, and where its value came from: flag, environment, file or default."""

import difflib
import errno
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from duenotice.errors import Misconfigured, reason
from duenotice.toml import Table, TomlFile, misfit

ENVIRONMENT_PREFIX = "DUENOTICE_"


class ServeSettings(Struct, frozen=True):
    """The rows of `duenotice serve`: name, type, default, help."""

    fleet: Annotated[str, Meta(description="fleet file to apply when it has changed")] = ""
    data_dir: Annotated[
        str, Meta(description="directory for the journal (~/.local/state/duenotice); :memory: keeps nothing on disk")
    ] = ""
    journal: Annotated[
        str, Meta(description="postgresql:// URL of the journal; without it, it is a file in the data directory")
    ] = ""
    node: Annotated[str, Meta(description="name of this node on a database (the host's name)")] = ""
    node_url: Annotated[
        str, Meta(description="URL where other nodes reach this node's operator port (as it listens)")
    ] = ""
    node_ca_file: Annotated[
        str, Meta(description="PEM file with the CA of other nodes' certificates, instead of the system's")
    ] = ""
    follow: Annotated[
        str,
        Meta(description="URL of a node's operator API: answer VMs for that node, without a journal; several: URL,URL"),
    ] = ""
    follow_token_file: Annotated[str, Meta(description="file with a token of the role follower of that node")] = ""
    only: Annotated[str, Meta(description="a follower answers only the VMs that this selects: host=h1")] = ""
    workers: Annotated[
        int,
        Meta(
            description="processes that share the metadata port; all but the first follow it; 0: one for each core",
            ge=0,
            le=256,
        ),
    ] = 1
    share_port: Annotated[bool, Meta(description="let other processes listen on the same metadata port")] = False
    lease: Annotated[
        float,
        Meta(description="seconds of silence after which a node or a follower may not answer VMs", ge=0.5, le=600),
    ] = 4.5
    metadata_listen: Annotated[str, Meta(description="HOST:PORT that VMs ask")] = "127.0.0.1:16925"
    operator_listen: Annotated[str, Meta(description="HOST:PORT for the operator, or none")] = "127.0.0.1:16926"
    operator_cert_file: Annotated[
        str, Meta(description="PEM file with the certificate of the operator's port, which then speaks TLS")
    ] = ""
    operator_key_file: Annotated[str, Meta(description="PEM file with the key of that certificate")] = ""
    azure_listen: Annotated[str, Meta(description="HOST:PORT for az and the Azure SDKs, with TLS")] = ""
    azure_cert_file: Annotated[
        str, Meta(description="PEM file with the certificate of that port, instead of one that the service makes")
    ] = ""
    azure_key_file: Annotated[str, Meta(description="PEM file with the key of that certificate")] = ""
    azure_names: Annotated[
        str, Meta(description="more names and addresses for the certificate that the service makes, with commas")
    ] = ""
    clock: Annotated[str, Meta(description="real, a speed such as 60x, or manual")] = "real"
    default_vm: Annotated[str, Meta(description="callers from unknown addresses count as this VM")] = ""
    throttle: Annotated[float, Meta(description="requests a second per VM", gt=0, le=1e9)] = 5.0
    approvals_throttle: Annotated[float, Meta(description="approvals a second per VM", gt=0, le=1e9)] = 5.0
    max_connections: Annotated[int, Meta(description="open connections in all", ge=1)] = 50_000
    connections_per_address: Annotated[int, Meta(description="open connections of one VM", ge=1)] = 64
    first_answer_delay: Annotated[
        float, Meta(description="seconds by which a scope's first answer is late", ge=0, le=120)
    ] = 0.0
    first_answer_empty: Annotated[bool, Meta(description="answer a scope's first request with an empty 200")] = False
    newer_versions_400: Annotated[bool, Meta(description="answer unknown newer api-versions with 400, not 404")] = False
    spot_rebalance: Annotated[
        bool, Meta(description="have api-version 2024-07-09, in which spot VMs are advised to move before an eviction")
    ] = False
    leaf_json: Annotated[
        bool, Meta(description="answer a single instance value in JSON, not with 400, if format=text is missing")
    ] = False
    gone_approval: Annotated[
        Literal[200, 400], Meta(description="answer to an approval of an event that is gone: 200 or 400")
    ] = 200
    host_failure_type: Annotated[
        Literal["Reboot", "Redeploy"], Meta(description="type of the events of a host that has failed")
    ] = "Reboot"
    degrade_unhealthy: Annotated[
        bool, Meta(description="degrade a host that a VM reports as unhealthy, and tell its VMs a day before")
    ] = False
    user_operations_limit: Annotated[int, Meta(description="user operations scheduled at once; 0: no limit", ge=0)] = 0
    events_per_scope: Annotated[int, Meta(description="live events that one scope may have", ge=1, le=100_000)] = 1000
    document_kib: Annotated[
        int, Meta(description="size that the document of one scope may have, in KiB", ge=128, le=64 * 1024)
    ] = 1024
    deletes_together: Annotated[
        bool, Meta(description="an approved delete waits for the other deletes of its scope")
    ] = True
    live_migration_lasts: Annotated[
        float, Meta(description="seconds that a live migration stays Started", gt=0, le=1e9)
    ] = 300.0
    maintenance_lasts: Annotated[
        float, Meta(description="seconds that other maintenance stays Started", gt=0, le=1e9)
    ] = 600.0
    removal_lasts: Annotated[
        float, Meta(description="seconds that the removal of a VM stays Started", gt=0, le=1e9)
    ] = 30.0
    impact: Annotated[
        Literal["simulated", "command", "webhook", "libvirt"],
        Meta(description="who carries out impacts"),
    ] = "simulated"
    impact_command: Annotated[
        str | tuple[str, ...], Meta(description="program and arguments that carry out one impact; no shell")
    ] = ""
    impact_url: Annotated[str, Meta(description="URL that each started event is POSTed to")] = ""
    impact_bearer_file: Annotated[str, Meta(description="file with the bearer token for that URL")] = ""
    impact_signing_key_file: Annotated[str, Meta(description="file with the key that signs what is POSTed")] = ""
    impact_ca_file: Annotated[str, Meta(description="PEM file with the CA of that URL, instead of the system's")] = ""
    impact_timeout: Annotated[float, Meta(description="real seconds one attempt may take", gt=0, le=1e9)] = 600.0
    impact_attempts: Annotated[int, Meta(description="attempts before an event has failed", ge=1, le=1000)] = 3
    impact_retry_after: Annotated[
        float, Meta(description="real seconds before the second attempt; then twice as long", gt=0, le=1e9)
    ] = 10.0
    impact_at_once: Annotated[int, Meta(description="impacts that run at once", ge=1, le=1000)] = 16
    impact_report_within: Annotated[
        float, Meta(description="real seconds to wait for a report after a 202", gt=0, le=1e9)
    ] = 3600.0
    impact_lost: Annotated[
        Literal["fail", "retry"], Meta(description="what to do when nobody knows how a command ended")
    ] = "fail"
    libvirt_hosts: Annotated[
        str, Meta(description="libvirt of each host, with commas: h1=qemu:///system,h2=qemu+ssh://h2/system")
    ] = ""
    libvirt_grace: Annotated[
        float, Meta(description="seconds a guest gets to shut down before its plug is pulled", ge=0, le=1e6)
    ] = 60.0
    libvirt_undefine: Annotated[bool, Meta(description="undefine domains that were evicted or deleted")] = False
    push_allow: Annotated[
        str,
        Meta(description="networks that messages may go to although they are refused otherwise: 127.0.0.0/8,::1/128"),
    ] = ""
    push_ca_file: Annotated[str, Meta(description="PEM file with the CA of receivers, instead of the system's")] = ""
    push_timeout: Annotated[float, Meta(description="real seconds one delivery may take", gt=0, le=600)] = 10.0
    push_retry_after: Annotated[
        float, Meta(description="real seconds before a delivery is tried again; then twice as long", gt=0, le=3600)
    ] = 10.0
    watchdog: Annotated[
        float, Meta(description="seconds without progress before the process ends itself; 0: no limit", ge=0, le=1e9)
    ] = 10.0
    allow_faults: Annotated[bool, Meta(description="let an admin set faults (wrong answers), to test clients")] = False
    fault: Annotated[str, Meta(description="give every VM this wrong answer; needs --allow-faults")] = ""
    fault_seconds: Annotated[float, Meta(description="seconds that the faults late and slow take", gt=0, le=3600)] = (
        10.0
    )
    log_format: Annotated[
        Literal["auto", "console", "json", "none"],
        Meta(description="how to log; auto is console on a terminal, json elsewhere"),
    ] = "auto"


QUIRKS = (
    "throttle",
    "approvals_throttle",
    "first_answer_delay",
    "first_answer_empty",
    "newer_versions_400",
    "spot_rebalance",
    "host_failure_type",
    "leaf_json",
    "gone_approval",
    "fault",
    "fault_seconds",
)
"""The settings that make the service behave oddly; `run` and `check`, which test clients, have them too."""


class SettingRow(NamedTuple):
    """One setting as a person sees it."""

    name: str
    default: Any
    help: str
    is_switch: bool
    choices: tuple[str, ...] = ()


class Resolved(NamedTuple):
    """The settings and, for each, where it came from."""

    settings: ServeSettings
    origins: dict[str, str]


def rows() -> list[SettingRow]:
    """All settings in order."""
    return [_row(field) for field in msgspec.structs.fields(ServeSettings)]


def _row(field: msgspec.structs.FieldInfo) -> SettingRow:
    kind, meta = field.type.__origin__, field.type.__metadata__[0]
    choices = tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()
    return SettingRow(field.name, field.default, meta.description, isinstance(field.default, bool), choices)


def resolve(flags: Mapping[str, Any], environment: Mapping[str, str], file: str = "") -> Resolved:
    """Flag before environment before file before default; an unknown key is an error that names the nearest one."""
    values: dict[str, Any] = {}
    origins = {row.name: "default" for row in rows()}
    toml = _open(file)
    layers = ((_from_file(toml), file), (_from_environment(environment), "environment"), (flags, "flag"))
    for layer, origin in layers:
        values.update(layer)
        origins.update(dict.fromkeys(layer, origin))
    try:
        return Resolved(msgspec.convert(values, ServeSettings, strict=False), origins)
    except msgspec.ValidationError as error:
        raise _misfit(error, values, origins, toml) from None


def without_password(text: str) -> str:
    """A setting as it may be logged: the password of a URL is left out."""
    text = re.sub(r"(?<=://)([^:/?@]*):[^/?]*@", r"\1:***@", text)
    return re.sub(r"(?<=[?&])((?:ssl)?password)=[^&]*", r"\1=***", text)


def default_data_dir() -> Path:
    """Where the journal is kept when nobody says otherwise."""
    try:
        state_home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise Misconfigured("This user has no home directory.", hint="Say where with --data-dir.") from None
    return Path(state_home) / "duenotice"


def parse_listen(name: str, text: str) -> tuple[str, int]:
    """HOST:PORT, with IPv6 in brackets."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise Misconfigured(f"{name} = {text!r} is not HOST:PORT.", hint="Write it like 127.0.0.1:16925.")
    return host, int(port)


def host_port(address: tuple[str, int]) -> str:
    """As text again: HOST:PORT, with IPv6 in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_hint(address: tuple[str, int], error: OSError) -> str:
    """What to do when a port cannot be used."""
    host, port = address
    if error.errno == errno.EADDRINUSE:
        taken = "Another metadata service has it; 'ss -ltnp sport = :80' shows which." if port == 80 else ""
        return f"{taken or 'Is another duenotice running there?'} Stop it, or choose another HOST:PORT."
    if error.errno == errno.EADDRNOTAVAIL:
        add = f"ip -6 addr add {host}/128 dev lo" if ":" in host else f"ip addr add {host}/32 dev lo"
        return f"This machine does not have that address. Give it one with '{add}', as root."
    if error.errno == errno.EACCES and port < 1024:
        allow = f"setcap cap_net_bind_service=+ep {Path(sys.executable).resolve()}"
        return f"Ports below 1024 need the capability CAP_NET_BIND_SERVICE: be root, or once, as root, '{allow}'."
    return "Name an address of this machine and a port, like 127.0.0.1:16925."


def _open(file: str) -> TomlFile:
    try:
        return TomlFile(Path(file).read_text() if file else "", file)
    except (OSError, ValueError) as error:
        raise Misconfigured(
            f"Cannot read the settings file {file}: {reason(error)}.", hint="Fix it, or leave --config out."
        ) from None


def _from_file(file: TomlFile) -> dict[str, Any]:
    top = Table(file, file.read())
    values = {row.name: top.take(row.name, object) for row in rows() if top.has(row.name)}
    top.done()
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of our rows. One that is almost such a name is a mistake; all others belong to other commands."""
    names = {ENVIRONMENT_PREFIX + row.name.upper(): row.name for row in rows()}
    for key in environment:
        near = difflib.get_close_matches(key, names, 1, cutoff=0.9)
        if key.startswith(ENVIRONMENT_PREFIX) and key not in names and near:
            raise Misconfigured(f"The environment has an unknown {key}.", hint=f"Did you mean {near[0]}?")
    return {names[key]: value for key, value in environment.items() if key in names}


def _misfit(error: Exception, values: dict[str, Any], origins: dict[str, str], file: TomlFile) -> Misconfigured:
    (name, *_), problem, _ = misfit(error)
    origin, value = origins[str(name)], values[str(name)]
    where = file.where((name,)) if origin == file.name else origin
    return Misconfigured(
        f"{name} = {value!r} (from {where}) is not valid: {problem}.", hint="See --help for the valid values."
    )
