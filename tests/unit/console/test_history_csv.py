"""What is written into files for spreadsheets."""

import pytest

from duenotice.console.formats import csv_cell


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, ""), (1.5, 1.5), ("web-0", "web-0"), ("=1+1", "'=1+1"), ("@x", "'@x"), ("a\nb", r"a\nb")],
)
def test_a_text_is_shown_by_a_spreadsheet_and_not_run(value: object, written: object) -> None:
    assert csv_cell(value) == written
