"""From `[handlers.NAME]` to a handler: our own kinds, then plugins of the group `duenotice.handlers`."""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import msgspec

from duenotice.agent.handlers.base import Handler, HandlerFailed, read_value
from duenotice.agent.handlers.trust import distrust, distrust_files
from duenotice.toml import Misplaced, misfit, near_miss, shown

GROUP = "duenotice.handlers"
KINDS = {
    "command": "duenotice.agent.handlers.command:CommandHandler",
    "systemd": "duenotice.agent.handlers.systemd:Systemd",
    "haproxy": "duenotice.agent.handlers.haproxy:Haproxy",
    "patroni": "duenotice.agent.handlers.patroni:Patroni",
    "postgresql": "duenotice.agent.handlers.postgresql:Postgresql",
    "kubernetes": "duenotice.agent.handlers.kubernetes:Kubernetes",
    "checkpoint": "duenotice.agent.handlers.checkpoint:Checkpoint",
    "webhook": "duenotice.agent.handlers.webhook:Webhook",
    "readiness": "duenotice.agent.handlers.readiness:Readiness",
    "log": "duenotice.agent.handlers.log:Log",
    "shutdown": "duenotice.agent.handlers.shutdown:Shutdown",
}
"""Our own kinds by name. Each is imported when a configuration asks for it."""


def load(name: str, kind: str, keys: Mapping[str, Any]) -> Handler[Any]:
    """The handler of that kind with those keys, or an error that names the key."""
    made = handler_class(name, kind)
    return made(name, _options(name, kind, made.options, keys))


def kinds() -> list[str]:
    """Every kind of handler. A plugin cannot take the name of one of ours."""
    return sorted({*KINDS, *(plugin.name for plugin in entry_points(group=GROUP))})


def problems(handler: Handler[Any]) -> list[str]:
    """Why this machine would refuse what the handler runs and reads. A plugin need not name any of it."""
    try:
        programs = handler.programs() if hasattr(handler, "programs") else ()
    except HandlerFailed as error:
        return [error.message]
    files = handler.files() if hasattr(handler, "files") else ()
    return sorted({reason for argv in programs if argv and (reason := distrust(argv))} | {*distrust_files(files)})


def handler_class(name: str, kind: str) -> type[Handler[Any]]:
    """The class behind a kind, imported only now."""
    if kind in KINDS:
        module, _, attribute = KINDS[kind].partition(":")
        found: type[Handler[Any]] = getattr(import_module(module), attribute)
        return found
    plugins = [plugin for plugin in entry_points(group=GROUP) if plugin.name == kind]
    if not plugins:
        unknown = f"handlers.{name}.kind = {kind!r} is unknown."
        raise Misplaced(unknown, hint=near_miss(kind, kinds(), "kinds"), path=("handlers", name, "kind"))
    return _plugin_class(name, plugins[0])


def _plugin_class(name: str, plugin: EntryPoint) -> type[Handler[Any]]:
    try:
        made: type[Handler[Any]] = plugin.load()
    except Exception as error:  # a module of somebody else may raise anything when it is imported
        raise _bad_plugin(name, plugin, f"cannot be loaded: {error}") from error
    for part in ("options", "prepare", "recover"):
        if not hasattr(made, part):
            raise _bad_plugin(name, plugin, f"has no `{part}`")
    return made


def _bad_plugin(name: str, plugin: EntryPoint, problem: str) -> Misplaced:
    message = f"handlers.{name}: the plugin {plugin.name!r} ({plugin.value}) {problem}."
    return Misplaced(message, hint="Fix or remove the package that it comes from.", path=("handlers", name, "kind"))


def _options(name: str, kind: str, options: type, keys: Mapping[str, Any]) -> Any:
    known = [field.encode_name for field in msgspec.structs.fields(options)]
    for key in keys:
        if key not in known:
            unknown = f"handlers.{name}.{key} is not a key of {kind}."
            raise Misplaced(unknown, hint=near_miss(key, known, "keys"), path=("handlers", name, key))
    try:
        return msgspec.convert(dict(keys), options, dec_hook=read_value)
    except msgspec.ValidationError as error:
        path, problem, _ = misfit(error)
        path = ("handlers", name, *path)
        message = f"{shown(path)} is not valid: {problem.rstrip('.')}."
        raise Misplaced(message, hint=f"Keys of {kind}: {', '.join(known)}.", path=path) from None
