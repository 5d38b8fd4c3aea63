"""What the Debian packages are made of: settings and manual pages that follow the code."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from building import debian, manual
from duenotice.cli.agent import agent
from duenotice.cli.main import COMMANDS, duenotice
from duenotice.settings import resolve, rows

PAGES = dict(manual.pages(duenotice, "duenotice", "2030-01-01"))


def test_the_settings_file_is_valid_and_names_every_setting(tmp_path: Path) -> None:
    text = debian.settings_file()
    file = tmp_path / "duenotice.toml"
    file.write_text(text)
    assert resolve({}, {}, str(file)).settings.metadata_listen == "169.254.169.254:80"
    assert set(re.findall(r"^#? ?(\w+) = ", text, re.MULTILINE)) == {row.name for row in rows()}


def test_what_is_commented_out_is_the_default() -> None:
    lines = [line[2:] for line in debian.settings_file().splitlines() if re.match(r"# \w+ = ", line)]
    assert resolve({}, {}).settings == resolve({}, {}, "").settings
    assert tomllib.loads("\n".join(lines)).keys() == {row.name for row in rows()} - {"metadata_listen"}


@pytest.mark.parametrize("noun", COMMANDS)
def test_every_noun_has_a_manual_page_with_its_verbs(noun: str) -> None:
    page = PAGES[f"duenotice-{noun}.1"]
    assert page.startswith('.TH "DUENOTICE-')
    assert ".SH NAME" in page
    assert not re.search(r"^[.'](?!TH|SH|SS|PP|TP)", page, re.MULTILINE)  # no text is taken for a request of roff


def test_the_agent_has_one_page_with_all_its_verbs() -> None:
    ((name, page),) = manual.pages(agent, "duenotice-agent", "2030-01-01")
    assert (name, page.count(".SS duenotice\\-agent ")) == ("duenotice-agent.1", 7)


@pytest.mark.parametrize("package", debian.SCRIPTS)
@pytest.mark.parametrize("script", ["preinst", "postinst", "prerm", "postrm"])
def test_every_word_in_a_script_is_replaced(tmp_path: Path, package: str, script: str) -> None:
    (tmp_path / "etc").mkdir()
    debian.scripts(package, tmp_path)
    assert "@" not in (tmp_path / "DEBIAN" / script).read_text()


def test_a_package_has_all_libraries_that_the_service_needs() -> None:
    found = debian.closure(["duenotice[server]"])
    assert {"apsw", "starlette", "anyio", "jinja2", "markupsafe", "uvicorn", "h11"} <= found
    assert "psycopg" not in found


@pytest.mark.parametrize(("free", "code"), [("10", 1), ("99999999", 0)])
def test_a_full_disk_is_told_before_anything_is_unpacked(tmp_path: Path, free: str, code: int) -> None:
    (tmp_path / "etc").mkdir()
    debian.scripts("duenotice-agent", tmp_path)
    fake = tmp_path / "df"
    fake.write_text(f"#!/bin/sh\necho Avail; echo {free}\n")
    fake.chmod(0o755)
    done = subprocess.run(
        ["sh", tmp_path / "DEBIAN/preinst", "upgrade", "0.0.1"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stderr.splitlines()
    assert (done.returncode, [line[:6] for line in lines]) == (code, ["error:", " hint:"] if code else [])
