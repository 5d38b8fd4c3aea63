"""Each error of SQLite becomes one of ours, which names the file and what to do."""

from pathlib import Path

import apsw
import pytest

from duenotice.errors import Damaged, DuenoticeError, Misconfigured, Unavailable
from duenotice.store.sqlite_file import translated_errors

FILE = Path("/var/lib/duenotice/journal.db")


@pytest.mark.parametrize(
    ("raised", "kind", "hint"),
    [
        (apsw.CorruptError("malformed"), Damaged, "restore a backup"),
        (apsw.SQLError("no such table: records"), Damaged, "restore a backup"),
        (Damaged("a record is missing", hint="Look."), Damaged, "Look."),
        (Misconfigured("from a newer version", hint="Upgrade."), Misconfigured, "Upgrade."),
        (apsw.FullError("full"), Unavailable, "Free some space"),
        (apsw.BusyError("locked"), Unavailable, "nothing was lost"),
        (OSError(5, "Input/output error"), Unavailable, "nothing was lost"),
    ],
)
def test_what_is_told(raised: Exception, kind: type[DuenoticeError], hint: str) -> None:
    """Data that cannot be trusted is damaged; a disk that fails for now is unavailable."""
    with pytest.raises(DuenoticeError) as told, translated_errors(FILE):
        raise raised
    assert type(told.value) is kind
    assert str(FILE) in told.value.message
    assert hint in told.value.hint


def test_mistakes_of_ours_stay_as_they_are() -> None:
    """They are not about the file."""
    with pytest.raises(ZeroDivisionError), translated_errors(FILE):
        raise ZeroDivisionError
