"""docs/settings.md: every setting of `duenotice serve`, and the variables of the other commands."""

from typing import Annotated, Any, get_args, get_origin

import msgspec

from duenotice.settings import ENVIRONMENT_PREFIX, ServeSettings, SettingRow, rows
from tools.references.words import cell, code, head, table

INTRO = """
A setting of `duenotice serve` has three names: a flag, an environment variable, and a key in the TOML file that
`--config` names. A flag counts before the environment, the environment before the file, and the file before the
default. A switch is turned off with `--no-…`. An unknown key in the file is an error that names the nearest one.
"""

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
Every flag of a command can be a variable too, see [all commands](commands.md).
"""


def page() -> str:
    """The whole page."""
    fields = {field.name: field for field in msgspec.structs.fields(ServeSettings)}
    lines = [(_names(row), _default(row), _what(row, fields[row.name].type)) for row in rows()]
    return "\n".join(
        [
            head("Settings", "`duenotice.settings`") + INTRO,
            table(("setting", "default", "what it does"), lines),
            "## Variables of the other commands\n",
            table(("variable", "what it says", "otherwise"), [(code(name), *rest) for name, *rest in OTHERS]) + END,
        ]
    )


def _names(row: SettingRow) -> str:
    flag = f"--{row.name.replace('_', '-')}"
    return "<br>".join(map(code, (flag, f"{ENVIRONMENT_PREFIX}{row.name.upper()}", row.name)))


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
