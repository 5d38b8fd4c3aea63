"""The `duenotice` command: errors become one line of what happened and one of what to do, never a traceback."""

import sys

import click

from duenotice import __version__
from duenotice.cli.serve import serve
from duenotice.errors import DuenoticeError, Misconfigured, NotFound, Refused, Unavailable

EXIT_CODES: dict[type[DuenoticeError], int] = {
    DuenoticeError: 1,
    Misconfigured: 2,
    NotFound: 3,
    Refused: 4,
    Unavailable: 6,
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="duenotice")
def duenotice() -> None:
    """You are told before you are hit: Scheduled Events for a whole fleet of VMs."""


duenotice.add_command(serve)


def main() -> None:
    """Run the command line."""
    try:
        duenotice(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except DuenoticeError as error:
        click.secho(f"error: {error.message}", fg="red", err=True)
        if error.hint:
            click.echo(f" hint: {error.hint}", err=True)
        sys.exit(next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES))
