"""`duenotice doctor`: a line for each thing, with what to do where it is not good."""

import contextlib
import io
import json
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from duenotice.cli import doctor
from duenotice.cli.doctor import BAD, NOTE, OK, CheckResult
from duenotice.cli.main import duenotice
from duenotice.errors import BROUGHT_BY
from tests.support.ports import free_port


def states(findings: list[CheckResult]) -> list[str]:
    return [finding.state for finding in findings]


def test_a_free_port_is_ok_and_a_taken_one_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = taken.getsockname()
        (found,) = doctor.check_ports({"operator port": place})
    assert (found.state, found.what) == (NOTE, f"127.0.0.1:{place[1]} cannot be had: Address already in use")
    assert found.do.startswith("Is another duenotice running there?")
    assert states(list(doctor.check_ports({"operator port": place}))) == [OK]


def test_an_address_of_another_machine_cannot_be_had() -> None:
    (found,) = doctor.check_ports({"operator port": ("192.0.2.1", 80)})
    assert (found.state, "ip addr add 192.0.2.1/32 dev lo" in found.do) == (BAD, True)


def test_an_extra_that_is_not_installed_is_a_note_with_the_line_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BROUGHT_BY, "no_such_library", "postgres")
    (found,) = (finding for finding in doctor.check_installation() if finding.subject == "extra postgres")
    assert found == CheckResult(
        "extra postgres",
        NOTE,
        "no_such_library is not installed",
        "If you need it: pip install 'duenotice[postgres]'",
    )


def test_a_metadata_service_that_does_not_answer_is_a_note() -> None:
    (found,) = doctor.check_metadata(f"http://127.0.0.1:{free_port()}")
    assert (found.state, found.what) == (NOTE, "no answer: The metadata service cannot be reached: Connection refused")


class Terminal(io.StringIO):
    """A person who answers."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "answer", "said"),
    [
        ([], None, "169.254.169.254:80 was not asked"),
        ([], "n", "169.254.169.254:80 was not asked"),
        ([], "", "169.254.169.254:80 was not asked"),
        ([], "y", "asked ''"),
        (["--yes"], None, "asked ''"),
        (["--metadata", "http://127.0.0.1:9"], None, "asked 'http://127.0.0.1:9'"),
    ],
)
def test_the_real_metadata_address_is_contacted_only_when_somebody_says_so(
    words: list[str], answer: str | None, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a machine of a cloud it is the cloud's. A script is not asked, and says so with a flag."""
    monkeypatch.setattr(doctor, "check_metadata", lambda url: iter([CheckResult("metadata", OK, f"asked {url!r}")]))
    monkeypatch.setattr(sys, "stdin", io.StringIO() if answer is None else Terminal(f"{answer}\n"))
    where = ["--endpoint", f"http://127.0.0.1:{free_port()}", "--data-dir", str(tmp_path), "-o", "json"]
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as asked:
        duenotice.main(["doctor", *words, *where], standalone_mode=False)
    (found,) = [row for row in json.loads(printed.getvalue()) if row["subject"] == "metadata"]
    assert (found["what"], "169.254.169.254" in asked.getvalue()) == (said, answer is not None)


def test_a_clock_that_differs_is_bad() -> None:
    assert states(list(doctor._difference(-90.0))) == [BAD]
    assert list(doctor._difference(1.0)) == []


def test_the_disk_is_looked_at_where_the_journal_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = doctor.check_disk(tmp_path / "not" / "there" / "yet")
    assert found.state in (OK, NOTE)  # a sync may be slow on a busy machine
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(doctor, "LITTLE_ROOM", 2**80)
    (found,) = doctor.check_disk(tmp_path)
    assert (found.state, found.do) == (BAD, "Make room: a full disk stops all changes.")


def test_a_disk_that_cannot_be_written_is_bad() -> None:
    (found,) = doctor.check_disk(Path("/proc/duenotice"))
    assert (found.subject, found.state) == ("disk", BAD)


def test_what_is_bad_ends_with_1_and_the_findings_as_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "LITTLE_ROOM", 2**80)
    nowhere = f"http://127.0.0.1:{free_port()}"
    asked = ["doctor", "--metadata", nowhere, "--endpoint", nowhere, "--data-dir", str(tmp_path), "-o", "json"]
    done = CliRunner().invoke(duenotice, asked)
    found = {row["subject"]: row["state"] for row in json.loads(done.stdout)}
    assert (found["version"], found["disk"], found["service"], found["metadata"]) == (OK, BAD, NOTE, NOTE)
    assert "is bad" in str(done.exception)
