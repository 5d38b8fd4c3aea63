"""`duenotice run` and `duenotice check`: put a client through maintenance, and say how it behaved."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from duenotice.cli.errors import Failed
from duenotice.cli.saying import say, tell
from duenotice.errors import Misconfigured

if TYPE_CHECKING:
    from duenotice.testkit.judging import Plan
    from duenotice.testkit.verdicts.evidence import Tempo
    from duenotice.testkit.verdicts.verdict import Verdict

FORMS = ("table", "json", "junit", "github")


def _judges(command: Callable[..., None]) -> Callable[..., None]:
    """The options that both commands have."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


_OPTIONS = (
    click.option(
        "--scenario", "names", multiple=True, metavar="NAME|FILE", help="Trials of the tour, or one scenario."
    ),
    click.option("--vm", metavar="NAME", default="", help="What the client's VM is called."),
    click.option("--patience", metavar="SPAN", default="30s", help="How long a client may be silent.  [default: 30s]"),
    click.option("--notice", metavar="SPAN", default="15s", help="What a notice lasts, in real time.  [default: 15s]"),
    click.option("--speed", metavar="60x", default="", help="How fast the clock of a scenario goes."),
    click.option(
        "--peers-ready", metavar="FILE", default="", help="Gets an EventId when the other VMs are ready for it."
    ),
    click.option(
        "--work-done", metavar="FILE", default="", help="Where the client's work writes each EventId it is done for."
    ),
    click.option("-o", "--output", type=click.Choice(FORMS), default="table", help="How to print.  [default: table]"),
    click.option(
        "--report", metavar="FILE", default="", help="Write the verdict there too; .xml is JUnit, others JSON."
    ),
    click.option("--strict", is_flag=True, help="Let warnings count as errors."),
)


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: duenotice run --report junit.xml -- ./my-agent",
)
@_judges
@click.option("--network", is_flag=True, help="Let the program reach the world outside (needs slirp4netns).")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def run(program: Sequence[str], network: bool, output: str, report: str, strict: bool, **options: Any) -> None:
    """Run a program where 169.254.169.254 is ours, put it through maintenance, and say how it behaved.

    The program is unchanged and needs no privileges: duenotice run -- ./my-agent --its-flags. What listens on this
    machine's loopback can be reached by it on the same ports. What it prints goes to standard error.
    """
    from duenotice.testkit.judging import run as run_it

    _end(run_it(program, _plan(**options), network, tell), output, report, strict)


@click.command(epilog="Example: duenotice check --metadata-listen 127.0.0.1:16925")
@_judges
@click.option(
    "--metadata-listen", "listen", metavar="HOST:PORT", default="127.0.0.1:16925", help="Where the client asks."
)
@click.option("--for", "span", metavar="SPAN", default="5m", help="How long at the most.  [default: 5m]")
def check(listen: str, span: str, output: str, report: str, strict: bool, **options: Any) -> None:
    """Wait for a client that you start yourself, put it through maintenance, and say how it behaved."""
    from duenotice.testkit.judging import check as check_it
    from duenotice.wire.duration import parse_duration

    _end(check_it(listen, _plan(**options), parse_duration(span), tell), output, report, strict)


def _plan(
    names: Sequence[str], vm: str, patience: str, notice: str, speed: str, peers_ready: str, work_done: str
) -> "Plan":
    from duenotice.clock import parse_speed
    from duenotice.testkit.judging import Plan
    from duenotice.testkit.trials import BY_NAME, chosen
    from duenotice.wire.duration import parse_duration

    if speed and parse_speed(speed) is None:
        raise Misconfigured(f"{speed!r} is no speed.", hint="Use a number such as 60x.")
    told = [name for name in names if name not in BY_NAME]
    if told and len(names) > 1:
        raise click.UsageError("Name trials of the tour, or one scenario alone.")
    return Plan(
        vm=vm,
        trials=chosen([] if told else names),
        scenario=_scenario(told[0]) if told else None,
        tempo=_tempo(parse_duration(patience), parse_duration(notice)),
        speed=parse_speed(speed) if speed else None,
        peers_ready=_fresh(peers_ready),
        work_done=_fresh(work_done),
    )


def _tempo(patience: float, notice: float) -> "Tempo":
    """Who has little patience is not kept waiting either."""
    from duenotice.testkit.verdicts.evidence import Tempo

    usual = Tempo()
    return Tempo(patience, notice, min(usual.linger, patience / 4), min(usual.late, patience / 3))


def _scenario(name: str) -> Any:
    from duenotice.cli.scenario import find

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


def _end(verdict: "Verdict", output: str, report: str, strict: bool) -> None:
    from duenotice.testkit.verdicts.report import REPORTS

    if output == "table":
        from duenotice.cli.verdict_view import show

        show(verdict)
    else:
        say(REPORTS[output](verdict), nl=False)
    if report:
        _write(Path(report), REPORTS["junit" if report.endswith(".xml") else "json"](verdict))
    if not verdict.passes(strict):
        broken = ", ".join(finding.rule.id for finding in verdict.failed)
        raise Failed(f"The client broke {len(verdict.failed)} of the rules: {broken}.", hint="See MEND for what to do.")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text)
    except OSError as error:
        raise Misconfigured(
            f"Cannot write {file}: {error.strerror}.", hint="Name a file that can be written."
        ) from None
