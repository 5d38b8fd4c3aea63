"""How a verdict looks to a person: a line per rule, what was seen of the client, and what to fix."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from duenotice.cli import tables
from duenotice.testkit.verdicts.verdict import FAILED, NOT_TRIED, PASSED, Finding, Verdict

_LOOKS = {PASSED: ("✓", "green"), FAILED: ("✗", "bold red")}


def show(verdict: Verdict) -> None:
    """Print it."""
    rules = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("", "RULE", "SEVERITY", "OUTCOME", "WHAT"):
        rules.add_column(title, no_wrap=title != "WHAT", overflow="fold")
    for finding in verdict.findings:
        rules.add_row(*_row(finding, bool(verdict.seen["polls"])))
    parts: list[RenderableType] = [rules, "", _seen(verdict)]
    if verdict.failed:
        parts += ["", *(_fix(finding) for finding in verdict.failed)]
    tables.write(Group(*parts))


def _row(finding: Finding, has_asked: bool) -> tuple[Text, ...]:
    """One line of the table; if nothing asked, that is said once, not for every rule."""
    mark, style = _LOOKS.get(finding.outcome, ("·", "dim"))
    rule, what = finding.rule, Text(finding.rule.sentence)
    if finding.outcome == NOT_TRIED and has_asked:
        what.append(f"\n{finding.why or 'the tour did not get to it'}", "dim")
    for word in finding.said[:3]:
        what.append(f"\n{word}", "red")
    if len(finding.said) > 3:
        what.append(f"\nand {len(finding.said) - 3} more", "red")
    return Text(mark, style), Text(rule.id, "bold"), Text(rule.severity), Text(finding.outcome, style), what


def _seen(verdict: Verdict) -> Text:
    seen = verdict.seen
    between = seen["seconds_between_polls"]
    pace = f", {between} s between two" if between is not None else ""
    refused = f", {seen['approvals_not_taken']} not taken" if seen["approvals_not_taken"] else ""
    return Text(
        f"{seen['polls']} polls in {seen['seconds']} s{pace}; "
        f"{seen['events']} events shown, {seen['approvals']} approvals{refused}.",
        "dim",
    )


def _fix(finding: Finding) -> Text:
    return Text.assemble((f"FIX {finding.rule.id}: ", "bold"), finding.rule.fix)
