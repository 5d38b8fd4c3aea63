"""The settings of the service as options of a command: one flag per row."""

from collections.abc import Callable
from typing import Any

import click

from duenotice.settings import Row, rows

_METAVARS = {
    "fleet": "FILE",
    "data_dir": "DIR",
    "journal": "URL",
    "node": "NAME",
    "follow": "URL",
    "only": "KIND=NAME",
    "clock": "real|60x|manual",
    "default_vm": "NAME",
    "fault": "NAME",
    "impact_command": "COMMAND",
    "impact_url": "URL",
}


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """One flag per row of the settings; a flag that is not given is left out, so that the next source counts."""
    for row in reversed(rows()):
        has_default = not row.is_switch and row.default != ""
        command = option_of(row, f"{row.help}  [default: {_plain(row.default)}]" if has_default else row.help)(command)
    return command


def option_of(row: Row, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The flag of a row of the settings."""
    dashed = row.name.replace("_", "-")
    flag = f"--{dashed}/--no-{dashed}" if row.default is True else f"--{dashed}"
    kind = {"is_flag": True, "default": None} if row.is_switch else {"metavar": _metavar(row)}
    return click.option(flag, row.name, help=text, **kind)


def _plain(default: Any) -> str:
    return f"{default:g}" if isinstance(default, int | float) else str(default)


def _metavar(row: Row) -> str:
    """What help shows as its value: the allowed words, or the kind of value."""
    if row.choices:
        return f"[{'|'.join(row.choices)}]"
    ends = {"_listen": "HOST:PORT", "_file": "FILE"}
    kind = next((metavar for end, metavar in ends.items() if row.name.endswith(end)), "N")
    return _METAVARS.get(row.name, "SECONDS" if "seconds" in row.help else kind)
