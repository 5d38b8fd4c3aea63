"""How scenarios look, step by step and while they are played, and how a person reads the verdict on a client."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from duenotice.cli import terminal
from duenotice.cli.session import Session
from duenotice.cli.views import VERDICTS
from duenotice.escape import one_line
from duenotice.scenarios import player as p
from duenotice.scenarios.kinds import needs_of
from duenotice.scenarios.scenario import Scenario
from duenotice.testkit.verdicts import verdict as v
from duenotice.testkit.verdicts.report import worth_a_line
from duenotice.wire.spans import span

_LINE = "%H:%M:%S"
Show = Callable[[p.Progress], None]
_LOOKS = {v.PASSED: ("✓", "green"), v.WARNED: ("!", "yellow"), v.FAILED: ("✗", "bold red")}


def scenario_json(scenario: Scenario) -> dict[str, object]:
    """A scenario as programs see it."""
    return {
        "name": scenario.name,
        "title": scenario.title,
        "about": scenario.about,
        "trap": scenario.trap or None,
        "cast": {role.name: needs_of(role) for role in scenario.cast},
        "steps": [{"text": step.tell(), "note": step.note} for step in scenario.steps],
    }


def show_scenario(scenario: Scenario) -> None:
    """Print what it will do, step by step."""
    cast, steps = _grid(), _grid()
    for role in scenario.cast:
        cast.add_row(Text(role.name, "bold"), needs_of(role))
    for number, step in enumerate(scenario.steps, start=1):
        steps.add_row(Text(f"{number}", "dim"), _step(step.tell(), step.note))
    trap = [Text(f"trap: {scenario.trap}", "yellow")] * bool(scenario.trap)
    parts: list[RenderableType] = [_title(scenario), *trap, "", scenario.about, "", cast, "", steps]
    terminal.write(Group(*parts))


@contextlib.contextmanager
def shown(scenario: Scenario, output: str) -> Iterator[Show]:
    """What shows the progress; if the verdict is printed as data, only a terminal shows progress."""
    console = terminal.console(stderr=output != "table")
    if console.is_terminal:
        with Live(console=console, transient=True, refresh_per_second=10) as live:
            yield _Picture(scenario, console, live.update)
    elif output == "table":
        yield _Picture(scenario, console, lambda what: None)
    else:
        yield lambda progress: None


class _Picture:
    """A line for each step that is over, and below them the running step."""

    def __init__(self, scenario: Scenario, console: Console, live: Callable[[RenderableType], None]) -> None:
        self._scenario, self._console, self._live = scenario, console, live
        self._step: p.Begun | None = None
        self._spinner = Spinner("dots")  # one for all, or it would begin again each time it is drawn

    def __call__(self, progress: p.Progress) -> None:
        match progress:
            case p.Cast(names=names):
                who = " · ".join(f"{role} is {name}" for role, name in names.items())
                self._print(_title(self._scenario), Text(one_line(who), "dim"))
            case p.Begun():
                self._step = progress
                self._live(self._under_way(progress.at, None))
            case p.Waiting(at=at, until=until):
                self._live(self._under_way(at, until))
            case p.Ended():
                self._live("")
                self._print(self._over(progress))
            case p.PlayVerdict(outcome=p.PASSED):
                self._print(Text.assemble(("passed", "green"), f"  {_took(progress)}"))

    def _print(self, *what: RenderableType) -> None:
        for one in what:
            if self._console.is_terminal:
                self._console.print(one)
            else:
                terminal.write(one)
        self._console.file.flush()  # the reader of a pipe wants to see progress

    def _under_way(self, at: datetime, until: datetime | None) -> RenderableType:
        assert self._step is not None
        row = _grid()
        left = Text(f"{span((until - at).total_seconds())} left", "cyan") if until and until > at else Text()
        row.add_row(self._spinner, f"{at:{_LINE}}", _step(self._step.text, self._step.note), left)
        return row

    def _over(self, ended: p.Ended) -> RenderableType:
        mark, style = ("✓", "green") if ended.ok else ("✗", "bold red")
        note = self._step.note if self._step else ""
        row = _grid()
        row.add_row(Text(mark, style), f"{ended.at:{_LINE}}", _step(ended.text, note, ended.seen * ended.ok))
        return row


def show_verdicts(session: Session, verdicts: Sequence[p.PlayVerdict]) -> None:
    """All verdicts as data; a table of only one would say nothing new."""
    if session.output != "table":
        session.show([msgspec.to_builtins(verdict) for verdict in verdicts], VERDICTS)
    elif len(verdicts) > 1:
        session.show([_verdict_row(verdict) for verdict in verdicts], VERDICTS)


def _verdict_row(verdict: p.PlayVerdict) -> dict[str, object]:
    ok = sum(step.ok for step in verdict.steps)
    return {**msgspec.to_builtins(verdict), "passed": ok, "took": _seconds(verdict)}


def _took(verdict: p.PlayVerdict) -> str:
    return f"{len(verdict.steps)} steps, {span(_seconds(verdict))} on the service's clock ({verdict.clock})"


def _seconds(verdict: p.PlayVerdict) -> float:
    return (verdict.ended - verdict.began).total_seconds()


def _title(scenario: Scenario) -> Text:
    return Text.assemble((one_line(scenario.name), "bold"), f"  {one_line(scenario.title)}")


def _step(text: str, note: str, seen: str = "") -> Text:
    text, note, seen = map(one_line, (text, note, seen))
    parts = [Text(text), *[Text(f"({note})", "italic")] * bool(note), *[Text(f"· {seen}", "dim")] * bool(seen)]
    return Text(" ").join(parts)


def _grid() -> Table:
    return Table.grid(padding=(0, 2, 0, 0))


def show_verdict(verdict: v.Verdict) -> None:
    """Print it."""
    rules = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("", "RULE", "SEVERITY", "OUTCOME", "WHAT"):
        rules.add_column(title, no_wrap=title != "WHAT", overflow="fold")
    for finding in worth_a_line(verdict):
        rules.add_row(*_finding_row(finding))
    parts: list[RenderableType] = [rules, "", _seen(verdict), *(Text(remark, "yellow") for remark in verdict.remarks)]
    if verdict.broken:
        parts += ["", *(_fix(finding) for finding in verdict.broken)]
    terminal.write(Group(*parts))


def _finding_row(finding: v.Finding) -> tuple[Text, ...]:
    mark, style = _LOOKS.get(finding.outcome, ("·", "dim"))
    rule, what = finding.rule, Text(finding.rule.sentence)
    if finding.why or finding.outcome == v.NOT_TRIED:
        what.append(f"\n{finding.why or v.NOT_REACHED}", "dim")
    for word in finding.said[:3]:
        what.append(f"\n{word}", style)
    if len(finding.said) > 3:
        what.append(f"\nand {len(finding.said) - 3} more", style)
    return Text(mark, style), Text(rule.id, "bold"), Text(rule.severity), Text(finding.outcome, style), what


def _seen(verdict: v.Verdict) -> Text:
    seen = verdict.seen
    between = seen["seconds_between_polls"]
    pace = f", {between} s between two" if between is not None else ""
    refused = f", {seen['approvals_not_taken']} not taken" if seen["approvals_not_taken"] else ""
    return Text(
        f"{seen['polls']} polls in {seen['seconds']} s{pace}; "
        f"{seen['events']} events shown, {seen['own_events']} of them its own; {seen['approvals']} approvals{refused}.",
        "dim",
    )


def _fix(finding: v.Finding) -> Text:
    return Text.assemble((f"FIX {finding.rule.id}: ", "bold"), finding.rule.fix)
