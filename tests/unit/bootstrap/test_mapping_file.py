"""The fleet file of a hypervisor: the last good one counts."""

from pathlib import Path

import pytest

from duenotice.bootstrap.host_watch import MappingFile
from duenotice.errors import Misconfigured


def test_a_file_that_cannot_be_read_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured):
        MappingFile(str(tmp_path / "absent.toml"))


def test_without_a_file_nothing_is_said() -> None:
    file = MappingFile()
    assert (file.reread(), file.says) == ("", None)


def test_the_last_good_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text("[[vms]]\nname = 'web-0'\naddress = '10.0.0.1'\n")
    file = MappingFile(str(path))
    before = file.says
    path.write_text("[[vms]]\nname = 'web-0'\naddress = '10.0.0.256'\n")
    assert file.reread().endswith("What it said before counts.")
    assert file.says is before is not None
