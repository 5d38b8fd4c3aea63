"""How values look in a table."""

import io

import pytest
from rich.console import Console

from duenotice.cli import pictures, terminal, views
from duenotice.cli.output import TableView, aligned, view
from duenotice.cli.views import AUDIT, EVENTS, WATCHED_EVENTS
from tests.unit.cli.values import NOON, at

SAID = "2026-01-01T12:00:00Z"


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        ("2026-01-01T12:00:00Z", "now"),
        ("2026-01-01T12:14:30Z", "in 14m 30s"),
        ("2026-01-08T12:00:05Z", "in 7d 5s"),
        ("2026-01-01T09:00:00Z", "3h ago"),
        ("", "–"),
        (None, "–"),
        ("soon", "soon"),
    ],
)
def test_times_are_as_seen_from_now(moment: str | None, said: str) -> None:
    assert views.LOOKS["when"](moment, NOON) == said


def test_who_waits_for_very_many_is_shown_how_many_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal, and only there."""
    for is_terminal in (True, False):
        said = io.StringIO()
        out = Console(file=said, force_terminal=is_terminal, width=80)
        monkeypatch.setattr(terminal, "console", lambda stderr, out=out: out)
        assert list(terminal.counted(range(2 * terminal.MANY_ITEMS))) == list(range(2 * terminal.MANY_ITEMS))
        assert ("2,000 so far" in said.getvalue()) == is_terminal


def test_plain_lines_have_their_cells_under_each_other() -> None:
    """And end where their words do."""
    assert list(aligned([["VM", "UD"], ["web-10", "–"]])) == ["VM      UD\n", "web-10  –\n"]


def test_states_have_their_colour() -> None:
    assert terminal.state("started").style == "bold red"
    assert terminal.state("anything").style == ""


def test_what_is_not_there_is_a_dash() -> None:
    made = terminal.table([{"a": None, "l": []}], view("a", "A=a B=b.c WHEN=w:when L=l:list"), NOON)
    assert [str(next(iter(column.cells))) for column in made.columns] == ["–", "–", "–", "–"]


def test_the_gist_of_details_is_short() -> None:
    look = views.LOOKS["gist"]
    assert str(look({"vms": ["a", "b"], "event": {"id": "0123456789"}, "reason": ""}, NOON)) == "vms=2 event=01234567"
    assert len(str(look({"text": "x" * 500}, NOON))) == views.GIST
    assert str(look({}, NOON)) == "–"


def test_a_narrow_terminal_folds_details_and_no_word_of_another_column() -> None:
    record = {"position": 1, "at": SAID, "actor": "token/admin", "action": "maintenance-started", "event_id": "A" * 36}
    out = Console(width=80, file=io.StringIO())
    with out.capture() as captured:
        out.print(terminal.table([record | {"details": {"text": "word " * 20}}], AUDIT, NOON))
    first = captured.get().splitlines()[1]
    assert first.split()[:5] == ["1", "now", "token/admin", "maintenance-started", "AAAAAAAA"]


def test_a_bar_is_as_full_as_the_notice_is_over() -> None:
    assert pictures.passed(NOON, at(12, 10), at(12, 5)) == 0.5
    assert pictures.passed(NOON, NOON, NOON) == 1.0
    half = terminal.share_bar(0.5, "red")
    assert len(half) == terminal.BAR
    assert [(span.start, span.end, span.style) for span in half.spans][-1] == (8, 16, "bright_black")


EVENT = {
    "id": "805C2F53-88EE-4045-95F8-788FD1634F66",
    "type": "Reboot",
    "phase": "scheduled",
    "not_before": "2026-01-01T12:14:30Z",
    "duration": -1,
    "resources": ["web-0", "web-5"],
    "cause": "live-migration",
}


def drawn(view: TableView, width: int, *items: dict[str, object]) -> list[list[str]]:
    """The words of each line of a table on a terminal of that width."""
    out = Console(width=width, file=io.StringIO())
    with out.capture() as captured:
        out.print(terminal.AdaptiveTable(list(items), view, NOON))
    return [line.split() for line in captured.get().splitlines()]


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (100, "EVENT TYPE STATE NOT BEFORE LASTS VMS CAUSE"),
        (70, "EVENT TYPE STATE NOT BEFORE LASTS VMS"),
        (58, "EVENT TYPE STATE NOT BEFORE VMS"),
    ],
)
def test_a_narrow_terminal_loses_what_can_be_spared(width: int, titles: str) -> None:
    """The VMs that are hit are the last to go."""
    head, row = drawn(EVENTS, width, EVENT)
    assert (" ".join(head), "web-5" in row) == (titles, True)


def test_what_is_watched_fits_80_columns_with_its_vms() -> None:
    """With bar and countdown; the cause gives way."""
    head, row = drawn(
        WATCHED_EVENTS, 80, EVENT | {"bar": terminal.share_bar(0.5, ""), "countdown": "starts in 14m 30s "}
    )
    assert head == ["EVENT", "TYPE", "STATE", "VMS"]
    assert row[-2:] == ["web-0", "web-5"]


def test_an_event_that_has_started_shows_no_not_before() -> None:
    """What it said before no longer counts."""
    shown = {phase: drawn(EVENTS, 100, EVENT | {"phase": phase})[1] for phase in ("scheduled", "started")}
    assert (shown["scheduled"][3:6], shown["started"][3]) == (["in", "14m", "30s"], "–")
