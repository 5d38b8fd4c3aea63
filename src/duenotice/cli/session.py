"""What every command that talks to the service shares: its options, the client, and how to print."""

import functools
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import click

from duenotice.cli.errors import Failed
from duenotice.cli.hints import COMMANDS
from duenotice.cli.output import WRITERS, TableView, asked, write_one
from duenotice.client.operator.config import DEFAULT_ENDPOINT, found_token
from duenotice.client.operator.errors import ForeignAnswer, NotReached, UnknownToken
from duenotice.errors import DuenoticeError

if TYPE_CHECKING:
    from duenotice.client import OperatorClient

HINTS: dict[type[DuenoticeError], str] = {
    NotReached: "Start it with 'duenotice serve', or name another with --endpoint or DUENOTICE_ENDPOINT.",
    ForeignAnswer: "Is this the operator's port, and of the version that 'duenotice --version' shows?",
    UnknownToken: "Set DUENOTICE_TOKEN, or DUENOTICE_TOKEN_FILE to admin.token in the service's data directory.",
}
"""What to do on the command line."""


class Session:
    """One call of the command line."""

    def __init__(self, client: "OperatorClient", output: str = "table") -> None:
        self.client = client
        self.output = output

    def show(self, items: Iterable[object], view: TableView) -> None:
        """Print a list; forms with one line per item print each item as it arrives."""
        WRITERS[self.output](items, view, self.now)

    def show_one(self, item: object, view: TableView) -> None:
        """Print one thing."""
        write_one(self.output, item, view, self.now)

    def now(self) -> datetime:
        """What time it is on the service's clock, for relative times."""
        return self.client.clock().now


def talks(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first argument is a Session, with the options of one."""

    @functools.wraps(command)
    def with_session(endpoint: str, output: str, request_timeout: float, **rest: object) -> None:
        with connected(endpoint, found_token(), request_timeout) as client:
            command(Session(client, output), **rest)

    for add in (_TIMEOUT, _ENDPOINT, OUTPUT):
        with_session = add(with_session)
    return with_session


def connected(endpoint: str, token: str, timeout: float) -> "OperatorClient":
    """A client whose errors say what to do on the command line; a call is tried once, and a person tries again."""
    from duenotice.client import OperatorClient  # costs milliseconds that --help should not pay

    return OperatorClient(endpoint, token, timeout=timeout, budget=0.0, explain=functools.partial(in_our_words, token))


def in_our_words(token: str, error: DuenoticeError) -> DuenoticeError:
    """The same error with hints for the command line instead of those for programs."""
    message, hint = error.message, HINTS.get(type(error)) or error.hint_in(COMMANDS)
    if isinstance(error, NotReached) and "certificate" in message:
        hint = "Set SSL_CERT_FILE to the CA of the service's certificate, and use a name that is in the certificate."
    if isinstance(error, UnknownToken):
        message = "The service does not know this token." if token else "No token was found, and the service needs one."
    return type(error)(message, hint=hint)


def make_sure(question: str, yes: bool) -> None:
    """Ask before something that cannot be undone; a script is not asked."""
    if not yes and sys.stdin.isatty() and not asked(question):
        raise Failed("Nothing was done.", hint="Answer y, or use --yes.")


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
