"""`duenotice agent`: what a person uses on a VM to start, check, watch and rehearse the agent."""

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from duenotice import __version__
from duenotice.cli.options import EVENT_TYPE, SPAN, Group
from duenotice.cli.output import WRITERS, print_note, print_text, view, write_one

if TYPE_CHECKING:
    from duenotice.agent.config import Config
    from duenotice.agent.drill import Drill

DEFAULT_CONFIG = "/etc/duenotice/agent.toml"
DEFAULT_STATE_DIR = "/var/lib/duenotice"
CaseFields = dict[str, Any]
"""What the agent says about an event, as JSON: from its ledger, or from its port."""
Rows = list[CaseFields]
OUTLOOK = view("type", "EVENT=type RULE=rule WHEN=when DOES=does:prose")
CASES = view(
    "event_id",
    "EVENT=event_id:id TYPE=type STATE=state:state NOT_BEFORE=left:when SEEN=first_seen:when? VMS=resources:list"
    " DONE=done:list",
    "No event is coming, and nothing needs to be put back.",
)
WORKS = view(
    "event_id",
    "EVENT=event_id:id TYPE=type STATE=event_state:state HANDLER=handler DID=state:state TRIES=tries? AT=at:when?"
    " REASON=reason:prose",
    "The agent knows of no event.",
)


def _with_config(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--config",
        "config",
        envvar="DUENOTICE_AGENT_CONFIG",
        default=DEFAULT_CONFIG,
        metavar="FILE",
        help=f"the agent's TOML file  [default: {DEFAULT_CONFIG}]",
    )(command)


def _with_state_dir(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--state-dir",
        "state_dir",
        envvar="DUENOTICE_STATE_DIR",
        default=DEFAULT_STATE_DIR,
        metavar="DIR",
        help=f"where the ledger is kept  [default: {DEFAULT_STATE_DIR}]",
    )(command)


_output = click.option(
    "-o",
    "--output",
    type=click.Choice(list(WRITERS)),
    default="table",
    envvar="DUENOTICE_OUTPUT",
    help="the form of the output",
)


@click.group(cls=Group)
@click.version_option(__version__, prog_name="duenotice-agent")
def agent() -> None:
    """Use the notice: prepare, approve, and put everything back."""


def main() -> None:
    """The command `duenotice-agent`: the same as `duenotice agent`."""
    from duenotice.cli.main import main as command_line

    command_line(root=agent, name="duenotice-agent")


@agent.command(epilog="Example: duenotice agent run --config agent.toml")
@_with_config
@_with_state_dir
@click.option("--dry-run", is_flag=True, help="only show what would be done; do nothing and approve nothing")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "console", "json"]),
    default="auto",
    envvar="DUENOTICE_LOG_FORMAT",
    help="json, console, or auto: console on a terminal  [default: auto]",
)
def run(config: str, state_dir: str, dry_run: bool, log_format: str) -> None:
    """Follow this VM's events until told to stop.

    SIGTERM stops it cleanly: the next start goes on where this one ended. SIGHUP reads the file again.
    """
    import asyncio

    from duenotice.agent import log, process

    log.configure(log_format)
    asyncio.run(process.run(Path(config), Path(state_dir), dry_run))


@agent.command(epilog="Example: duenotice agent check --config agent.toml --online")
@_with_config
@_with_state_dir
@click.option("--online", is_flag=True, help="also ask the metadata service for this VM's name and the time")
@click.option("--unit", is_flag=True, help="also rehearse each handler, for real, with the rights of the agent's unit")
@click.option("--rehearse", metavar="HANDLER", help="only rehearse this one, here; --unit does so for each, in a unit")
@_output
def check(config: str, state_dir: str, online: bool, unit: bool, rehearse: str | None, output: str) -> None:
    """Check the file and the hooks it names; show what would be done for each type of event.

    With --unit systemd runs what each handler does before an event and after it, as in a drill, and it
    is said which call the unit refuses.
    """
    from duenotice.agent import check_unit
    from duenotice.agent.check import findings, idle, outlook
    from duenotice.agent.config import load_config
    from duenotice.agent.ledger import read_events
    from duenotice.errors import Misconfigured

    read = load_config(Path(config))
    if rehearse:
        check_unit.main(read, rehearse)
        return
    WRITERS[output](outlook(read), OUTLOOK, _now)
    found = findings(read, read_events(Path(state_dir)) if _may_read(state_dir) else {})
    found += _ask_service(read) if online else []
    if unit and not found:
        words = click.get_current_context().command_path.split()[1:]  # a pyz has `check` alone
        file = str(Path(config).absolute())
        again = [sys.executable, str(Path(sys.argv[0]).absolute()), *words, "--config", file, "--rehearse"]
        found += check_unit.rehearse_all(read, again)
    for each in (*found, *idle(read)):
        print_note(f"{config}: {each}")
    if found:
        raise Misconfigured(f"{config} does not work on this machine.", hint="Fix what is listed above.")
    print_note(f"{config} is good.")


def _ask_service(config: "Config") -> list[str]:
    from duenotice.agent.check import ask_service, online_findings, online_summary
    from duenotice.client.errors import MetadataError
    from duenotice.errors import Unavailable

    try:
        answer = ask_service(config)
    except MetadataError as error:
        raise Unavailable(error.message, hint=error.hint) from None
    print_note(online_summary(answer))
    return online_findings(config, answer)


@agent.command(epilog="Example: duenotice agent status -o json")
@_with_config
@_with_state_dir
@_output
def status(config: str, state_dir: str, output: str) -> None:
    """Show what is coming, how far it is prepared for, and what is wrong.

    The running agent is asked. If you may not ask it, its own port is asked, if the file opens one; and if it does not
    run, its ledger is read. The exit code is 1 when something is wrong, and 3 when no agent is running.
    """
    from duenotice.errors import DuenoticeError, NotFound

    found = _state(Path(config), Path(state_dir))
    problems, rows = found["problems"], found["events"]
    if output in ("json", "yaml", "jsonl"):
        write_one(output, found, CASES, _now)
    elif not rows and (problems or not found.get("heard", True)):
        # no document was read, or it cannot be relied on (S14)
        print_note("It is not known whether an event is coming.")
    else:
        shown = [{**row, "left": row["not_before"] if row["coming"] else "", "done": _done(row)} for row in rows]
        WRITERS[output](shown, CASES, _now)
    for problem in problems:
        print_note(f"{problem['kind']}: {problem['what']}", fg="red")
        print_note(f" hint: {problem['hint']}")
    if not found["running"]:
        raise NotFound(f"No agent is running on {state_dir}.", hint="Start it with 'duenotice agent run'.")
    if problems:
        what = "Something is wrong." if len(problems) == 1 else f"{len(problems)} things are wrong."
        raise DuenoticeError(what, hint="See above, and the agent's log.")


@agent.command(epilog="Example: duenotice agent events -o json")
@_with_config
@_with_state_dir
@_output
def events(config: str, state_dir: str, output: str) -> None:
    """List the events that the agent knows, with what each handler did about them; also some that are over."""
    rows = _state(Path(config), Path(state_dir))["events"]
    if output == "table":
        rows = [line for row in rows for line in _lines_of(row)]
    WRITERS[output](rows, WORKS, _now)


def _lines_of(row: CaseFields) -> Rows:
    """A line for each handler, or one that says that there is none."""
    works: Rows = row["handlers"] or [{"handler": "–", "state": "", "tries": "", "at": None, "reason": ""}]
    event = {key: row[key] for key in ("event_id", "type", "state")}
    return [{**event, **work, "event_state": row["state"]} for work in works]


def _lever(name: str) -> Callable[..., None]:
    @_with_state_dir
    @click.argument("event")
    @click.argument("handler")
    def command(state_dir: str, event: str, handler: str) -> None:
        from duenotice.agent.control import request_action

        _require_running(Path(state_dir))
        print_note(request_action(Path(state_dir), name, event=event, handler=handler))

    return command


retry = agent.command(
    "retry",
    help="Let a handler try again now: to prepare while notice is left, or to put back.",
    epilog="Example: duenotice agent retry 805C2F53 drain",
)(_lever("retry"))
skip = agent.command(
    "skip",
    help="""Go on without a handler.

    Before the event, it counts as done: you have done its work, or it need not be done. After the event, it is not put
    back any more: that is yours to do.""",
    epilog="Example: duenotice agent skip 805C2F53 drain",
)(_lever("skip"))


def _require_running(directory: Path) -> None:
    from duenotice.agent.ledger import is_taken
    from duenotice.errors import NotFound

    may_look = not os.path.lexists(directory) or os.access(directory, os.R_OK)
    if may_look and not is_taken(directory):
        raise NotFound(f"No agent is running on {directory}.", hint="Start it, or name its --state-dir.")


def _state(config: Path, directory: Path) -> CaseFields:
    """What the agent says of itself; or its ledger, if it does not run or does not answer."""
    from duenotice.agent.config import load_config
    from duenotice.agent.control import ask_status
    from duenotice.agent.ledger import is_taken, read_events
    from duenotice.agent.planner import World
    from duenotice.agent.problems import Problem, event_problems
    from duenotice.agent.status import events_json
    from duenotice.clock import wall
    from duenotice.errors import Damaged, Misconfigured, Unavailable

    silent: list[Problem] = []
    is_running = is_taken(directory)
    try:
        return {"running": True, **ask_status(directory)}
    except Unavailable as error:
        if is_running:
            silent = [Problem("silent", error.message, error.hint)]
    try:
        known = read_events(directory)
    except Misconfigured as error:
        listen = load_config(config).status_listen if config.exists() else None
        if listen is None or isinstance(error, Damaged):
            raise
        return {"running": True, **_ask_port(listen)}
    world = World("", "", wall())
    problems = [each._asdict() for each in (*silent, *event_problems(known.values(), world))]
    return {"running": is_running, "problems": problems, "events": events_json(known, world.now)}


def _ask_port(listen: tuple[str, int]) -> CaseFields:
    import asyncio

    from duenotice.http.fetch import fetch
    from duenotice.settings import host_port

    answer = asyncio.run(fetch(f"http://{host_port(listen)}/status"))
    found: CaseFields = json.loads(answer.body)
    return found


def _done(row: CaseFields) -> list[str]:
    works = [f"{work['handler']}:{work['state']}" for work in row["handlers"]]
    return [*works, *(["approved"] if row["approved_at"] else []), *(["(drill)"] if row["drill"] else [])]


class DrillOptions(TypedDict):
    """What is asked of a drill."""

    config: str
    state_dir: str
    event_type: str
    notice: str
    not_before: datetime | None
    lasts: str
    source: str
    duration: int
    no_wait: bool
    cancel: bool


@agent.command(epilog="Example: duenotice agent drill --type Freeze --notice 30s")
@_with_config
@_with_state_dir
@click.option("--type", "event_type", type=EVENT_TYPE, default="Reboot", show_default=True, help="the type of event")
@click.option("--notice", type=SPAN, default="1m", show_default=True, help="how much notice it gives")
@click.option(
    "--not-before",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]),
    metavar="TIME",
    help="or the time when the notice ends, as 2026-11-15T12:00:00Z",
)
@click.option("--lasts", type=SPAN, default="5s", show_default=True, help="how long the event is Started")
@click.option(
    "--source",
    type=click.Choice(["Platform", "User"]),
    default="User",
    show_default=True,
    help="the source of the event",
)
@click.option(
    "--duration", type=int, metavar="SECONDS", default=-1, help="its DurationInSeconds, for rules that use it"
)
@click.option("--no-wait", is_flag=True, help="do not wait for its end")
@click.option("--cancel", is_flag=True, help="end the drill that is played: what it has prepared is put back")
def drill(**asked: Unpack[DrillOptions]) -> None:
    """Rehearse on this machine: handlers prepare and recover for real, nothing is approved.

    Only the agent that runs here sees the event.
    """
    import msgspec

    from duenotice.agent.control import request_action
    from duenotice.agent.drill import LONGEST, Drill, new_id
    from duenotice.clock import wall
    from duenotice.errors import Refused
    from duenotice.wire.spans import parse_duration

    directory, now = Path(asked["state_dir"]), wall()
    lasts = parse_duration(asked["lasts"])
    not_before = asked["not_before"] or now + timedelta(seconds=parse_duration(asked["notice"]))
    if max(not_before - now, timedelta(seconds=lasts)) > LONGEST:
        raise Refused(f"A drill is over in {LONGEST.days} days.", hint="Give it less notice, or let it last shorter.")
    _require_running(directory)
    if asked["cancel"]:
        event_id = request_action(directory, "drill/cancel")
    else:
        played = Drill(new_id(), asked["event_type"], not_before, lasts, asked["source"], asked["duration"])
        _warn_if_idle(Path(asked["config"]), played)
        event_id = request_action(directory, "drill", drill=msgspec.json.encode(played).decode())
    print_text(event_id)
    if event_id and not asked["no_wait"]:
        left = 0.0 if asked["cancel"] else (not_before - wall()).total_seconds() + lasts
        _follow_drill(directory, event_id, left)


def _warn_if_idle(config: Path, played: "Drill") -> None:
    """Warn when no rule matches the drill: such a drill proves nothing."""
    from duenotice.agent.config import load_config
    from duenotice.agent.planner import match_rule

    if config.exists() and match_rule(load_config(config).rules, played.event(started=False, vm="")) is None:
        print_note(f"No rule of {config} matches such an event: nothing will be done.")


def _follow_drill(directory: Path, event_id: str, seconds: float) -> None:
    """Print each step as it is recorded; fail if a prepare or a recover failed."""
    from duenotice.agent.drill import follow
    from duenotice.errors import DuenoticeError

    failed = False
    for line, good in follow(directory, event_id, seconds):
        print_note(line)
        failed = failed or not good
    if failed:
        raise DuenoticeError("The drill did not go well.", hint="Look at what failed above, and at the agent's log.")


def _may_read(folder: str) -> bool:
    """Whether we may read there; also true if the directory does not exist, because then there is no ledger."""
    return not Path(folder).exists() or os.access(folder, os.R_OK | os.X_OK)


def _now() -> datetime:
    from duenotice.clock import wall

    return wall()
