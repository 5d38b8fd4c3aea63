"""The conformance document is current and leaves no row of the contract without a test."""

from pathlib import Path

import pytest

from tools import conformance

A_TEST = '''"""Things."""
def test_B03_a_thing():
    """A thing | is so."""
'''


def test_the_document_is_current(capsys: pytest.CaptureFixture[str]):
    """docs/conformance.md is what the tests say now."""
    assert conformance.main(["--check"]) == 0, capsys.readouterr().err


AWAITED = {"M09", "M12"}
"""Rows of the Azure door that are being built."""


def test_every_row_has_a_test():
    """No row from A01 to M17 is without proof."""
    proven = {proof.row for proof in conformance.proofs(conformance.TESTS)}
    assert set(conformance.ROWS) - proven - AWAITED == set()


def test_the_rows_are_those_of_the_contract():
    """Fourteen rows in A, eleven in B, and so on."""
    lasts = ("A14", "B11", "C07", "D07", "E06", "F03", "G06", "H08", "M17")
    assert list(conformance.ROWS) == [f"{last[0]}{n:02}" for last in lasts for n in range(1, int(last[1:]) + 1)]


def test_a_row_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A test becomes one line: its row, its sentence, where it stands, where the row comes from."""
    monkeypatch.setattr(conformance, "ROOT", tmp_path)
    (tmp_path / "test_x.py").write_text(A_TEST)
    assert r"| B03 | A thing \| is so. | `test_x.py::test_B03_a_thing` | S/R |" in conformance.render(tmp_path)


def test_tests_beyond_the_rows_come_last(tmp_path: Path):
    """A test of no row stands at the end, under the first line of its file."""
    (tmp_path / "test_x.py").write_text(A_TEST.replace("B03_", ""))
    last = conformance.render(tmp_path).split("## ")[-1]
    assert last.startswith("Things\n\n| row |")
    assert "| – | A thing" in last


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [('"""A thing | is so."""', "pass", "has no docstring"), ("B03", "B12", "names a row that there is not")],
)
def test_a_test_that_says_nothing_is_refused(tmp_path: Path, old: str, new: str, complaint: str):
    """A test without a sentence, or for a row that does not exist, cannot be put into the document."""
    (tmp_path / "test_x.py").write_text(A_TEST.replace(old, new))
    with pytest.raises(conformance.Untold, match=complaint):
        conformance.render(tmp_path)


def test_a_stale_document_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """--check names what differs and the command that mends it, and writes nothing."""
    monkeypatch.setattr(conformance, "DOCUMENT", tmp_path / "conformance.md")
    assert conformance.main(["--check"]) == 1
    assert "run `python tools/conformance.py`" in capsys.readouterr().err
    assert not conformance.DOCUMENT.exists()
    assert (conformance.main([]), conformance.main(["--check"])) == (0, 0)
