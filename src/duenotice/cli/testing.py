"""`duenotice run` and `duenotice check`: lead a client through maintenance, and say how it behaved."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from duenotice.cli.errors import Failed
from duenotice.cli.output import print_note, print_text
from duenotice.cli.serve import option_of
from duenotice.errors import Misconfigured
from duenotice.settings import QUIRKS, resolve, rows

if TYPE_CHECKING:
    from duenotice.scenarios.scenario import Scenario
    from duenotice.testkit.judging import Plan
    from duenotice.testkit.verdicts.evidence import Tempo
    from duenotice.testkit.verdicts.verdict import Verdict

FORMS = ("table", "json", "junit", "github", "markdown")


Quirks = Mapping[str, float | bool | str]
"""Settings of `serve` that make the service behave oddly."""


class TestOptions(TypedDict):
    """What was asked of both commands; `quirks` are the settings of `serve` that were given."""

    names: Sequence[str]
    vm: str
    patience: str
    notice: str
    speed: str
    peers_ready: str
    work_done: str
    strict: bool
    allow_untried: bool
    quirks: Quirks


def _judges(judge: Callable[..., None]) -> Callable[..., None]:
    """The options of both commands; the last ones are the quirks of `serve`."""

    @functools.wraps(judge)
    def judge_with_quirks(**given: object) -> None:
        quirks = _quirks({name: given.pop(name) for name in QUIRKS})
        judge(**given, quirks=quirks)

    command: Callable[..., None] = judge_with_quirks
    for row in reversed(rows()):
        if row.name in QUIRKS:
            text, _, _ = row.help.partition("; needs")  # here nothing has to be allowed first
            command = option_of(row, f"As in serve: {text}.")(command)
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


_OPTIONS = (
    click.option(
        "--scenario", "names", multiple=True, metavar="NAME|FILE", help="Trials of the tour, or one scenario."
    ),
    click.option("--vm", metavar="NAME", default="", help="The name of the client's VM."),
    click.option("--patience", metavar="SPAN", default="30s", help="How long a client may be silent.  [default: 30s]"),
    click.option("--notice", metavar="SPAN", default="15s", help="How long a notice is, in real time.  [default: 15s]"),
    click.option("--speed", metavar="60x", default="", help="How fast time passes in a scenario."),
    click.option(
        "--peers-ready",
        metavar="FILE",
        default="",
        help="The service writes an EventId there when the other VMs are ready for it.",
    ),
    click.option(
        "--work-done",
        metavar="FILE",
        default="",
        help="The client writes an EventId there when its work for it is done.",
    ),
    click.option("-o", "--output", type=click.Choice(FORMS), default="table", help="How to print.  [default: table]"),
    click.option(
        "--report",
        "reports",
        multiple=True,
        metavar="FILE",
        help="Also write the verdict to this file; .xml gives JUnit, .md a table in Markdown, other names JSON.",
    ),
    click.option("--strict", is_flag=True, help="Count warnings as errors."),
    click.option("--allow-untried", is_flag=True, help="Pass also when the tour ended before all rules were tried."),
)


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: duenotice run --report junit.xml -- ./my-agent",
)
@_judges
@click.option("--network", is_flag=True, help="Let the program reach other networks (needs slirp4netns).")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    program: Sequence[str], network: bool, output: str, reports: Sequence[str], **options: Unpack[TestOptions]
) -> None:
    """Run a program where 169.254.169.254 is ours, lead it through maintenance, and say how it behaved.

    The program is unchanged and needs no privileges: duenotice run -- ./my-agent --its-flags. It can reach
    what listens on this machine's loopback, on the same ports. What it prints goes to standard error. When it ends or
    is silent for too long, it is started again for the next trial.

    Exit code 0: every rule that applies was tried, and no error was found. 1: a rule was broken, or the tour ended
    early, or nothing asked. 2: the program cannot be run like this.
    """
    from duenotice.testkit.judging import run as run_it

    _end(run_it(program, _plan(options), network, print_note), output, reports)


@click.command(epilog="Example: duenotice check --metadata-listen 127.0.0.1:16925")
@_judges
@click.option(
    "--metadata-listen",
    "listen",
    metavar="HOST:PORT",
    default="127.0.0.1:16925",
    help="The address that the client asks.",
)
@click.option("--for", "span", metavar="SPAN", default="5m", help="The longest time for everything.  [default: 5m]")
def check(listen: str, span: str, output: str, reports: Sequence[str], **options: Unpack[TestOptions]) -> None:
    """Wait for a client that you start yourself, lead it through maintenance, and say how it behaved.

    Exit codes are those of `duenotice run`.
    """
    from duenotice.testkit.judging import check as check_it
    from duenotice.wire.spans import parse_duration

    _end(check_it(listen, _plan(options), parse_duration(span), print_note), output, reports)


def _plan(asked: TestOptions) -> "Plan":
    from duenotice.clock import parse_speed
    from duenotice.testkit.judging import Plan
    from duenotice.testkit.suite import BY_NAME, chosen
    from duenotice.wire.spans import parse_duration

    speed = parse_speed(asked["speed"])
    if asked["speed"] and speed is None:
        raise Misconfigured(f"{asked['speed']!r} is not a speed.", hint="Use a number such as 60x.")
    told = [name for name in asked["names"] if name not in BY_NAME]
    if told and len(asked["names"]) > 1:
        raise click.UsageError("Name trials of the tour, or one scenario alone.")
    return Plan(
        vm=asked["vm"],
        trials=chosen([] if told else asked["names"]),
        scenario=_scenario(told[0]) if told else None,
        tempo=_tempo(parse_duration(asked["patience"]), parse_duration(asked["notice"]), asked["quirks"]),
        speed=speed,
        peers_ready=_fresh(asked["peers_ready"]),
        work_done=_fresh(asked["work_done"]),
        quirks=asked["quirks"],
        strict=asked["strict"],
        allow_untried=asked["allow_untried"],
    )


def _quirks(flags: dict[str, object]) -> Quirks:
    """The settings that were given, checked as `serve` checks them."""
    given = {name: value for name, value in flags.items() if value is not None}
    settings = resolve(given, {}).settings
    return {name: getattr(settings, name) for name in given}


def _tempo(patience: float, notice: float, quirks: Quirks) -> "Tempo":
    """A short patience also shortens the other waits."""
    from duenotice.testkit.verdicts.evidence import Tempo

    usual = Tempo()
    return Tempo(
        patience,
        notice,
        linger=min(usual.linger, patience / 4),
        late=float(quirks.get("first_answer_delay", min(usual.late, patience / 3))),
        slow=float(quirks.get("fault_seconds", min(usual.slow, patience / 2))),
        unaware=min(usual.unaware, patience / 4),
        most_a_second=float(quirks.get("throttle", usual.most_a_second)),
    )


def _scenario(name: str) -> "Scenario":
    from duenotice.cli.scenarios import find

    return find(name)


def _fresh(name: str) -> Path | None:
    """A file that both sides write to, empty at the beginning."""
    if not name:
        return None
    try:
        Path(name).write_text("")
    except OSError as error:
        raise Misconfigured(
            f"Cannot write {name}: {error.strerror}.", hint="Name a file that can be written."
        ) from None
    return Path(name)


def _end(verdict: "Verdict", output: str, reports: Sequence[str]) -> None:
    from duenotice.testkit.verdicts.report import BY_SUFFIX, REPORTS

    if output == "table":
        from duenotice.cli.verdicts import show_verdict

        show_verdict(verdict)
    else:
        print_text(REPORTS[output](verdict), nl=False)
    for report in map(Path, reports):
        _write(report, REPORTS[BY_SUFFIX.get(report.suffix, "json")](verdict))
    if not verdict.passes:
        raise _failure(verdict)


def _failure(verdict: "Verdict") -> Failed:
    from duenotice.testkit.verdicts.checks import counted

    failed = {finding.rule.id: finding for finding in verdict.failed}
    if "asks" in failed:
        said = failed["asks"].said[0]
        return Failed(f"{said[0].upper()}{said[1:]}.", hint=failed["asks"].rule.fix)
    if list(failed) == ["tour"]:
        return Failed(f"No rule was broken, but {'; '.join(failed['tour'].said)}.", hint=failed["tour"].rule.fix)
    return Failed(
        f"The client broke {counted(len(failed), 'rule')}: {', '.join(failed)}.", hint="See FIX for what to do."
    )


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise Misconfigured(
            f"Cannot write {file}: {error.strerror}.", hint="Name a file that can be written."
        ) from None
