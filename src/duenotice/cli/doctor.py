"""`duenotice doctor`: what is installed and what this machine allows, a line for each with what to do."""

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duenotice.cli.errors import Failed
from duenotice.cli.output import NEVER, WRITERS, TableColumn, TableView, asked, say
from duenotice.client.operator.config import DEFAULT_ENDPOINT, found_token

if TYPE_CHECKING:
    from duenotice.cli.checkup import CheckResult

COLOURS = {"ok": "green", "note": "yellow", "bad": "red"}
VIEW = TableView("subject", (TableColumn("SUBJECT", "subject"), TableColumn("STATE", "state")))


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
            _tell(finding)
    else:
        WRITERS[output]([finding._asdict() for finding in found], VIEW, lambda: NEVER)
    bad = sum(finding.state == "bad" for finding in found)
    if bad:
        raise Failed(
            f"{bad} of {len(found)} findings {'is' if bad == 1 else 'are'} bad.",
            hint="Do what stands behind the arrow.",
        )


def _may_ask() -> bool:
    """Whether a person lets us contact the metadata address; a script has not said so."""
    return sys.stdin.isatty() and asked("Ask http://169.254.169.254 for the name of this VM? A cloud may have its own.")


def _findings(endpoint: str, metadata: str, may_ask: bool, data_dir: str) -> Iterator["CheckResult"]:
    from duenotice.cli import checkup
    from duenotice.settings import ServeSettings, default_data_dir, parse_listen

    defaults = ServeSettings()
    places = {
        "metadata port": parse_listen("metadata_listen", defaults.metadata_listen),
        "operator port": parse_listen("operator_listen", defaults.operator_listen),
        "metadata address": checkup.METADATA,
    }
    return chain(
        checkup.installed(),
        checkup.ports(places),
        checkup.namespaces(),
        checkup.metadata(metadata) if may_ask else checkup.metadata_not_asked(),
        checkup.service(endpoint, found_token()),
        checkup.clock(),
        checkup.disk(Path(data_dir) if data_dir else default_data_dir()),
    )


def _tell(finding: "CheckResult") -> None:
    say(f"{finding.state:4}", nl=False, fg=COLOURS[finding.state])
    say(f"  {finding.subject:17} {finding.what}")
    if finding.do:
        say(f"{'':23} → {finding.do}", dim=True)
