"""docs/settings.md: every setting of `duenotice serve`, and the variables of the other commands."""

from typing import Annotated, Any, get_args, get_origin

import msgspec

from duenotice.settings import ENVIRONMENT_PREFIX, ServeSettings, SettingRow, rows
from tools.references.words import cell, code, head, table

INTRO = """
A setting of `duenotice serve` has three names: a flag, an environment variable, and a key in the TOML file that
`--config` names. A flag counts before the environment, the environment before the file, and the file before the
default. A switch that is on is turned off with `--no-…`. An unknown key in the file is an error that names the
nearest one.
"""

SECTIONS = {
    "fleet": "Fleet and journal",
    "node": "Nodes, followers and workers",
    "metadata_listen": "Ports and certificates",
    "clock": "Clock and callers",
    "throttle": "Limits",
    "first_answer_delay": "Odd answers",
    "user_operations_limit": "Rules and times of events",
    "impact": "Impact",
    "push_allow": "Push",
    "watchdog": "The process",
}
"""The setting that each section begins with."""

OTHERS: list[tuple[str, str, str]] = [
    ("DUENOTICE_ENDPOINT", "where commands and the client ask the operator's port", "`http://127.0.0.1:16926`"),
    ("DUENOTICE_TOKEN", "the operator's token", "see the next one"),
    ("DUENOTICE_TOKEN_FILE", "a file that has it", "`admin.token` of the default data directory"),
    ("DUENOTICE_OUTPUT", "the form of output: `table`, `json`, `jsonl`, `yaml` or `name`", "`table`"),
    ("DUENOTICE_REQUEST_TIMEOUT", "how long to wait for one answer", "30 seconds"),
    ("DUENOTICE_METADATA_ENDPOINT", "where the client and the agent ask for documents", "`http://169.254.169.254`"),
    ("DUENOTICE_AGENT_CONFIG", "the agent's file", "`/etc/duenotice/agent.toml`"),
    ("DUENOTICE_STATE_DIR", "where the agent keeps its ledger", "`/var/lib/duenotice`"),
    ("NO_COLOR", "no colours on a terminal", ""),
    ("SSL_CERT_FILE", "the CA that commands trust, if you have one of your own", "the system's"),
]
"""The variables of the other commands, what each says, and what counts without it."""

END = """
These are for the other commands, the client and the agent. Every flag of a command can be a variable too, see
[all commands](commands.md).
"""


def page() -> str:
    """The whole page."""
    fields = {field.name: field for field in msgspec.structs.fields(ServeSettings)}
    assert fields.keys() >= SECTIONS.keys(), "a section begins with a setting that does not exist"
    parts = [head("Settings", "`duenotice.settings`") + INTRO]
    for row in rows():
        parts += [f"## {SECTIONS[row.name]}\n"] if row.name in SECTIONS else []
        parts.append(_setting(row, fields[row.name].type))
    others = [(code(name), *rest) for name, *rest in OTHERS]
    return "\n".join([*parts, "## Variables\n", table(("variable", "what it says", "otherwise"), others) + END])


def _setting(row: SettingRow, kind: Any) -> str:
    names = (f"--{row.name.replace('_', '-')}", f"{ENVIRONMENT_PREFIX}{row.name.upper()}")
    default = _default(row)
    said = [*map(code, names), *([f"default {default}"] if default else [])]
    return f"### {row.name}\n\n{' · '.join(said)}: {_what(row, kind)}\n"


def _default(row: SettingRow) -> str:
    if row.is_switch:
        return "on" if row.default else "off"
    return code(f"{row.default:g}" if isinstance(row.default, float) else str(row.default))


def _what(row: SettingRow, kind: Any) -> str:
    words = f"; one of {', '.join(map(code, row.choices))}" if row.choices else ""
    return cell(row.help) + words + _bounds(kind)


def _bounds(kind: Any) -> str:
    """The smallest and the largest value, if there are any that people meet."""
    assert get_origin(kind) is Annotated
    meta = get_args(kind)[1]
    low = [f"at least {meta.ge}"] if meta.ge else [f"more than {meta.gt}"] if meta.gt is not None else []
    high = [f"at most {meta.le:g}"] if meta.le is not None and meta.le < 1e9 else []
    return f" ({', '.join(low + high)})" if low + high else ""
