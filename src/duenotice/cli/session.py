"""What every command that talks to the service shares: its options, the endpoint, the token, and how to print."""

import functools
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from duenotice.cli.api import DEFAULT_ENDPOINT, Api
from duenotice.cli.errors import Denied, Failed
from duenotice.cli.output import WRITERS, View, asked, write_one
from duenotice.errors import DuenoticeError, reason


class Session:
    """One call of the command line."""

    def __init__(self, api: Api, output: str = "table") -> None:
        self.api = api
        self.output = output

    def show(self, items: Iterable[Any], view: View) -> None:
        """Print a list; forms with one line per item print each item as it arrives."""
        WRITERS[self.output](items, view, self.now)

    def show_one(self, item: Any, view: View) -> None:
        """Print one thing."""
        write_one(self.output, item, view, self.now)

    def now(self) -> str:
        """What time it is on the service's clock, for relative times."""
        return str(self.api.get("clock")["now"])


def talks(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first argument is a Session, with the options of one."""

    @functools.wraps(command)
    def with_session(endpoint: str, output: str, request_timeout: float, **rest: Any) -> None:
        try:
            command(Session(Api(endpoint, find_token(), request_timeout), output), **rest)
        except (LookupError, TypeError, AttributeError) as error:
            hint = "Does the service have another version than 'duenotice --version'?"
            raise DuenoticeError(f"Cannot read an answer: {error!r}.", hint=hint) from error

    for add in (_TIMEOUT, _ENDPOINT, OUTPUT):
        with_session = add(with_session)
    return with_session


def make_sure(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone; a script is not asked."""
    if not yes and sys.stdin.isatty() and not asked(question):
        raise Failed("Nothing was done.", hint="Answer y, or use --yes.")


def find_token() -> str:
    """DUENOTICE_TOKEN, the file of DUENOTICE_TOKEN_FILE, or the admin token of the default data directory."""
    if token := os.environ.get("DUENOTICE_TOKEN", "").strip():
        return token
    if file := os.environ.get("DUENOTICE_TOKEN_FILE", ""):
        try:
            return Path(file).read_text().strip()
        except (OSError, ValueError) as error:
            raise Denied(
                f"Cannot read the token file {file}: {reason(error)}.", hint="Set DUENOTICE_TOKEN_FILE."
            ) from None
    return _own_token()


def _own_token() -> str:
    from duenotice.settings import default_data_dir

    try:
        return (default_data_dir() / "admin.token").read_text().strip()
    except (OSError, ValueError):
        return ""


OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(list(WRITERS)),
    default="table",
    envvar="DUENOTICE_OUTPUT",
    help="How to print.  [default: table]",
)
_ENDPOINT = click.option(
    "--endpoint",
    metavar="URL",
    default=DEFAULT_ENDPOINT,
    envvar="DUENOTICE_ENDPOINT",
    help=f"The operator's port of the service.  [default: {DEFAULT_ENDPOINT}]",
)
_TIMEOUT = click.option(
    "--request-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=30.0,
    envvar="DUENOTICE_REQUEST_TIMEOUT",
    help="How long to wait for one answer.  [default: 30]",
)
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
