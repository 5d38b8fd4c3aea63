"""The `duenotice` command: all nouns, and how it ends. An error is one line of what happened and one of what to do."""

import errno
import sys
from collections.abc import Sequence

import click

from duenotice import __version__
from duenotice.cli.errors import EXIT_CODES
from duenotice.cli.options import CommandPlace, Group
from duenotice.cli.output import print_note, print_text
from duenotice.clock import survive_every_year
from duenotice.errors import DuenoticeError, missing_extra

COMMANDS = {
    "serve": CommandPlace("serve:serve", "Run the service that VMs ask for coming events."),
    "demo": CommandPlace("demo:demo", "Start a busy fleet of 60 VMs, and watch it."),
    "vm": CommandPlace("vms:vm", "List, restart, redeploy, evict and delete VMs."),
    "scale-set": CommandPlace("fleet:scale_set", "List scale sets, show and scale them, delete instances."),
    "policy": CommandPlace("vms:policy", "Show and set what owners approve beforehand."),
    "events": CommandPlace("events:events", "List, schedule, cancel, approve and watch events."),
    "maintenance": CommandPlace("maintenance:maintenance", "Plan maintenances and follow them."),
    "host": CommandPlace("fleet:host", "List, drain, degrade, fail and repair hosts; run on a hypervisor."),
    "document": CommandPlace("vms:document", "Show the document as a VM reads it."),
    "search": CommandPlace("vms:search", "Find VMs, groups, hosts, maintenances and events by name."),
    "clock": CommandPlace("admin:clock", "Show the service's clock, let time pass."),
    "fleet": CommandPlace("fleet:fleet", "Apply a fleet file, show what there is."),
    "scenario": CommandPlace("scenarios:scenario", "List, show and play scenarios."),
    "run": CommandPlace("testing:run", "Lead a program through maintenance, and judge it."),
    "check": CommandPlace("testing:check", "Judge a client that you start yourself."),
    "record": CommandPlace("recording:record", "Record the documents of an endpoint."),
    "replay": CommandPlace("recording:replay", "Serve a recording, at any speed."),
    "diff": CommandPlace("recording:diff", "Compare the answers of two endpoints."),
    "audit": CommandPlace("admin:audit", "Show who did what, and when."),
    "subscription": CommandPlace("admin:subscription", "Tell receivers of events by push."),
    "azure": CommandPlace("azure:azure", "Point az and the Azure SDKs to the service."),
    "token": CommandPlace("admin:token", "Create, list and revoke tokens."),
    "node": CommandPlace("admin:node", "List the nodes of the service, and see which one leads."),
    "db": CommandPlace("admin:db", "Make and check the tables of a journal in PostgreSQL."),
    "journal": CommandPlace("admin:journal", "Copy the journal of a stopped service."),
    "agent": CommandPlace("agent:agent", "Run on a VM: prepare for its events, approve them, put things back."),
    "doctor": CommandPlace("doctor:doctor", "Check what is installed and what this machine allows."),
    "completion": CommandPlace("main:completion", "Print the completion script of a shell."),
}


_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class Root(Group):
    """The command itself, which says what is missing when an extra is not installed."""

    def invoke(self, ctx: click.Context) -> object:
        """Also flush the output, so that a broken pipe is noticed here."""
        try:
            result = super().invoke(ctx)
        except ModuleNotFoundError as error:
            raise missing_extra(error) or error from None
        if sys.stdout is not None:  # a script may have closed it
            sys.stdout.flush()
        return result


@click.group(
    cls=Root,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DUENOTICE"},
    epilog="Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 refused, 5 not allowed, 6 unreachable, 7 timed out.",
)
@click.version_option(__version__, prog_name="duenotice")
def duenotice() -> None:
    """You are told before you are hit: Scheduled Events for a whole fleet of VMs."""


@click.command(epilog='Example: eval "$(duenotice completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    print_text(kind(root, {}, "duenotice", "_DUENOTICE_COMPLETE").source())


def _in_our_form(error: click.ClickException) -> tuple[str, str]:
    """An error of click in the form of our own: what happened, and what to do."""
    words = error.format_message().replace("\n\t", " ")  # click puts choices on lines of their own
    what, _, near = words.partition(" Did you mean ")
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = f"See '{context.command_path} --help'." if context else "See --help."
    return what.rstrip(".") + ".", f"Did you mean {near}" if near else hint


def _print_error(what: str, hint: str) -> None:
    print_note(f"error: {what}", fg="red")
    if hint:
        print_note(f" hint: {hint}")


def main(arguments: Sequence[str] | None = None, root: click.Command = duenotice, name: str = "duenotice") -> None:
    """Run the command line."""
    survive_every_year()
    out = sys.stdout
    try:
        root(arguments, prog_name=name, standalone_mode=False)
    except SystemExit as end:
        # The reader of our output closed it, as `head` does: click then replaces stdout and ends with 1.
        sys.exit(end.code if sys.stdout is out else 0)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        print_text(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _print_error(*_in_our_form(error))
        sys.exit(error.exit_code)
    except DuenoticeError as error:
        _print_error(error.message, error.hint)
        sys.exit(next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES))
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        sys.stdout = None  # otherwise Python tries to write the rest once more, and fails again
        _print_error(f"The output cannot be written: {error.strerror}.", "Make room, or write it elsewhere.")
        sys.exit(1)
