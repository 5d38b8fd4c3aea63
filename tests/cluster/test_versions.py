"""The versions of duenotice that the rounds upgrade to can be made of the sources as they are."""

import subprocess
from pathlib import Path

import pytest

from duenotice.store.codec import RECORDS
from tests.cluster.versions import NEXT, next_version

TELL = "import duenotice, duenotice.store.codec as c; print(duenotice.__version__, c.RECORDS.format)"


@pytest.mark.parametrize(("newer_records", "more"), [(False, 0), (True, 1)])
def test_the_next_version_is_made_of_the_sources(tmp_path: Path, newer_records: bool, more: int) -> None:
    """It says another version, and may write records in a format that this one does not know."""
    *python, _, _ = next_version(tmp_path, newer_records=newer_records)
    told = subprocess.run([*python, "-c", TELL], capture_output=True, text=True, timeout=60, check=True).stdout
    assert told.split() == [NEXT, str(RECORDS.format + more)]
