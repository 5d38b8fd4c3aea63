"""The comparison itself: a difference is shown as a diff, nothing is written unless asked, no file is left over."""

import re
from pathlib import Path

import pytest

from tests.golden import compare
from tests.golden.compare import FILES, RENEW, assert_golden, golden


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Golden files of another folder, read and not written."""
    monkeypatch.setattr(compare, "FILES", tmp_path)
    monkeypatch.delenv(RENEW, raising=False)
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "x.txt").write_text("one\ntwo\n")
    return tmp_path


def test_a_difference_is_shown_with_the_command_that_renews_the_file(folder: Path) -> None:
    """Line by line; and the file stays as it is."""
    with pytest.raises(AssertionError) as caught:
        assert_golden("x.txt", "one\n2")
    assert "\n-two\n+2" in str(caught.value)
    assert "python -m tests.golden" in str(caught.value)
    assert (folder / "x.txt").read_text() == "one\ntwo\n"
    assert_golden("x.txt", "one\ntwo")


def test_a_file_that_is_not_there_is_a_difference(folder: Path) -> None:
    """Of all its lines."""
    with pytest.raises(AssertionError, match=r"\+new"):
        assert_golden("y.txt", "new")
    assert not (folder / "y.txt").exists()


def test_a_file_is_written_when_that_is_asked_for_but_never_in_ci(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m tests.golden` asks for it."""
    monkeypatch.setenv(RENEW, "write")
    assert_golden("x.txt", "three")
    assert golden("x.txt") == "three\n"
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match="not renewed in CI"):
        assert_golden("x.txt", "four")
    assert (folder / "x.txt").read_text() == "three\n"


def test_no_golden_file_is_left_over() -> None:
    """A file that no test names would be compared with nothing."""
    named = {name for test in Path(__file__).parent.glob("test_*.py") for name in _NAMES.findall(test.read_text())}
    assert {path.name for path in FILES.iterdir()} == named - {"x.txt", "y.txt"}


_NAMES = re.compile(r'"(\w+\.txt)"')
