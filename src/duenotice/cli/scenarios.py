"""`duenotice scenario`: rehearse what can happen, against a running service or in a service of its own."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duenotice.cli.errors import Failed
from duenotice.cli.options import Group
from duenotice.cli.output import NEVER, WRITERS, write_one
from duenotice.cli.session import OUTPUT, Session, connected, with_client
from duenotice.cli.views import SCENARIOS
from duenotice.errors import Malformed, Misconfigured, Refused, reason

if TYPE_CHECKING:
    from duenotice.client import OperatorClient
    from duenotice.scenarios.player import PlayVerdict
    from duenotice.scenarios.scenario import Scenario

_FREE_PORT = "127.0.0.1:0"
_PATIENCE = 30.0


@click.group(cls=Group)
def scenario() -> None:
    """List, show and play scenarios."""


def _complete(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from duenotice.scenarios.scenario import shipped_names

    return [name for name in shipped_names() if name.startswith(incomplete)]


@scenario.command("list", epilog="Example: duenotice scenario list")
@OUTPUT
def list_scenarios(output: str) -> None:
    """List the scenarios that come with duenotice."""
    from duenotice.cli.verdicts import scenario_json
    from duenotice.scenarios.scenario import shipped_names, shipped_scenario

    WRITERS[output]([scenario_json(shipped_scenario(name)) for name in shipped_names()], SCENARIOS, lambda: NEVER)


@scenario.command("show", epilog="Example: duenotice scenario show rolling-maintenance")
@click.argument("name", metavar="NAME|FILE", shell_complete=_complete)
@OUTPUT
def show(name: str, output: str) -> None:
    """Show what a scenario will do, step by step."""
    from duenotice.cli.verdicts import scenario_json, show_scenario

    found = find(name)
    if output == "table":
        show_scenario(found)
    else:
        write_one(output, scenario_json(found), SCENARIOS, lambda: NEVER)


@scenario.command("play", epilog="Example: duenotice scenario play user-reboot --clock manual")
@click.argument("names", nargs=-1, metavar="NAME|FILE…", shell_complete=_complete)
@click.option("--all", "everything", is_flag=True, help="Play every scenario that comes with duenotice.")
@click.option(
    "--cast",
    "told",
    multiple=True,
    metavar="ROLE=NAME",
    help="Which VM or host plays a role; other roles are cast for you.",
)
@click.option(
    "--clock",
    metavar="60x|manual",
    default=None,
    help="Use a service of its own with this clock; manual takes no time.",
)
@click.option("--clean", is_flag=True, help="If it does not pass, cancel its events that have not started.")
@with_client
def play(
    session: Session, names: Sequence[str], everything: bool, told: Sequence[str], clock: str | None, clean: bool
) -> None:
    """Play scenarios against the running service, or with --clock in a service of their own.

    Everything happens for real: an eviction removes the VM.
    """
    if clock is not None:  # first: who lacks its extra and that of the views is told of the one that has both
        import_module("duenotice.testkit.emulator")

    from duenotice.cli.verdicts import show_verdicts
    from duenotice.scenarios.scenario import shipped_names

    if not names and not everything:
        raise click.UsageError("Name a scenario, or play --all; 'duenotice scenario list' lists them.")
    scenarios = [find(name) for name in ([*names, *shipped_names()] if everything else names)]
    roles = _told(told, scenarios)
    verdicts = [_play(session, one, roles, clock, clean) for one in scenarios]
    show_verdicts(session, verdicts)
    _end(verdicts)


def find(name: str) -> "Scenario":
    """A shipped scenario by name, or the one in a file."""
    from duenotice.scenarios.scenario import read_scenario, shipped_scenario

    if not name.endswith(".toml") and "/" not in name:
        return shipped_scenario(name)
    try:
        return read_scenario(Path(name).read_text(), name)
    except (OSError, ValueError) as error:
        raise Misconfigured(f"Cannot read {name}: {reason(error)}.", hint="Name a scenario file (TOML).") from None


def _told(told: Sequence[str], scenarios: Sequence["Scenario"]) -> dict[str, str]:
    from duenotice.toml import near_miss

    roles = dict.fromkeys(role.name for one in scenarios for role in one.cast)
    pairs = [pair.partition("=") for pair in told]
    for role, _, name in pairs:
        if role not in roles or not name:
            hint = near_miss(role, roles, "roles")
            raise Malformed(f"--cast {role}={name} does not name a role and who plays it.", hint=hint)
    return {role: name for role, _, name in pairs}


def _play(session: Session, one: "Scenario", roles: dict[str, str], clock: str | None, clean: bool) -> "PlayVerdict":
    from duenotice.cli.verdicts import shown
    from duenotice.scenarios.player import PlayVerdict
    from duenotice.scenarios.player import play as played

    told = {role.name: roles[role.name] for role in one.cast if role.name in roles}
    world = contextlib.nullcontext(session.client) if clock is None else _own_service(clock)
    with world as client, shown(one, session.output) as show:
        for progress in played(one, client, told, time.sleep, clean):
            show(progress)
    assert isinstance(progress, PlayVerdict)
    return progress


@contextlib.contextmanager
def _own_service(clock: str) -> Iterator["OperatorClient"]:
    """A service in this process with all VMs and hosts that our scenarios need, on free ports and without a log."""
    from duenotice.bootstrap.logs import configure
    from duenotice.scenarios.scenario import shipped_fleet
    from duenotice.testkit.emulator import Emulator

    configure("none")
    with (
        Emulator(fleet=str(shipped_fleet()), clock=clock, operator_listen=_FREE_PORT) as emulator,
        connected(emulator.operator_url, emulator.service.token, _PATIENCE) as client,
    ):
        yield client


def _end(verdicts: Sequence["PlayVerdict"]) -> None:
    """The exit code: a failed scenario counts before a refused one."""
    from duenotice.scenarios.player import FAILED, PASSED

    missed = [verdict for verdict in verdicts if verdict.outcome != PASSED]
    if not missed:
        return
    kind = Failed if any(verdict.outcome == FAILED for verdict in missed) else Refused
    if len(verdicts) > 1:
        shipped_names = ", ".join(verdict.name for verdict in missed)
        raise kind(
            f"{len(missed)} of {len(verdicts)} scenarios did not pass: {shipped_names}.", hint="Play one to see why."
        )
    (verdict,) = missed
    left = f"Still there: {', '.join(verdict.left)}; --clean would cancel what has not started." * bool(verdict.left)
    raise kind(f"{verdict.name}: {verdict.problem}", hint=" ".join(filter(None, (verdict.hint, left))))
