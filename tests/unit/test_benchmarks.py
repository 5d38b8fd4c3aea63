"""What a run of the benchmarks says of itself: when it may be quoted, what it missed, and that it was quick."""

from pathlib import Path

import pytest

from benchmarks.support.quotable import LOAD_BEFORE, OTHERS, Used, cores_of_others, objections, used
from benchmarks.support.report import left_out, marked, missed, summary
from benchmarks.support.results import NOT_MEASURED, Row

MET = Row("polls", "7 µs", "8 µs", 1.14, "≥ 1×", ok=True)
MISSED = Row("memory", "120 MB", target="≤ 110 MB", ok=False)
SLOW = Row("p99", "9 ms", "3 ms", 3.0, "≤ 2.5×", ok=False)
SHOWN = Row("the same, median", "3 ms")


def test_a_whole_run_on_a_quiet_machine_may_be_quoted() -> None:
    """Right at the limits too."""
    assert objections(LOAD_BEFORE, {"idle": OTHERS, "scale": 0.0}, []) == []


def test_a_machine_that_was_busy_before_spoils_a_run() -> None:
    """Whoever was there may still be."""
    assert objections(2.25, {"idle": 0.0}, []) == ["the load before it was 2.2, more than 0.5"]


def test_others_who_come_during_the_run_spoil_it_although_the_load_was_low_before() -> None:
    """The sections that they met are named."""
    found = objections(0.0, {"idle": 0.02, "scale": 0.5, "stalls": 1.25}, [])
    assert found == ["others used more than 0.15 cores during scale (0.50), stalls (1.25)"]


def test_a_run_with_sections_left_out_is_not_quoted() -> None:
    """Nor one that was quick."""
    assert objections(0.0, {}, ["idle", "scale"]) == ["not measured, or only quickly: idle, scale"]


def test_a_run_has_left_out_what_was_not_asked_for_or_failed_or_was_quick() -> None:
    """Only rows that were measured in full count."""
    results = {"idle": [MET], "scale": [Row(NOT_MEASURED, "see above", ok=False)], "stalls": marked([MET], quick=True)}
    assert left_out(results, ["idle", "scale", "stalls", "agent"]) == ["scale", "stalls", "agent"]


def test_the_rows_of_a_quick_run_say_so() -> None:
    """They are the same rows otherwise."""
    assert marked([MET], quick=False) == [MET]
    assert marked([MET], quick=True) == [MET._replace(what="quick: polls")]


def test_what_missed_is_told_with_its_figure_and_its_target() -> None:
    """In one list over all sections."""
    results = {"newconn": [MET, SHOWN], "scale": [MISSED], "durable": [SLOW]}
    assert missed(results) == ["scale: memory: 120 MB, target ≤ 110 MB", "durable: p99: 3.00×, target ≤ 2.5×"]
    assert summary(results) == "1 of 3 targets are met"


@pytest.mark.parametrize(
    ("everybody", "ours", "cores"),
    [(20.0, 20.0, 0.0), (20.0, 15.0, 0.5), (20.0, 0.0, 2.0), (19.9, 20.0, 0.0)],
)
def test_others_had_what_everybody_used_and_we_did_not(everybody: float, ours: float, cores: float) -> None:
    """Two clocks of the kernel may differ a little: that is nobody."""
    assert cores_of_others(Used(100.0, 50.0, 5.0), Used(110.0, 50.0 + everybody, 5.0 + ours)) == pytest.approx(cores)


def test_no_time_is_nobodys() -> None:
    """Not even a division by nothing."""
    now = Used(1.0, 1.0, 1.0)
    assert cores_of_others(now, now) == 0.0


def test_everybody_is_who_keeps_a_core_busy_but_for_the_kernels_own_threads(tmp_path: Path) -> None:
    """What the host took from us counts; what disks and networks need does not, it is needed for us."""
    (tmp_path / "stat").write_text("cpu  1000 200 300 9999 9999 20 30 50 0 0\ncpu0 1 2 3\n")
    for pid, parent, spent in ((7, 2, 60), (8, 1, 500)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (b) c) S {parent} 0 0 0 -1 0 0 0 0 0 {spent} 40 0 0 20\n")
    assert used(tmp_path).everybody == pytest.approx(15.0)
