"""Settings of impacts that fit each other are taken, others are refused by name before anything begins."""

import stat
from pathlib import Path
from typing import Any

import pytest

from duenotice.bootstrap.drivers import check_impact, command_of
from duenotice.errors import Misconfigured
from duenotice.settings import ServeSettings

HERE = Path(__file__).parent
URL = "https://receiver.example/impact"


def refusal(data_dir: Path | None = HERE, **settings: Any) -> str:
    with pytest.raises(Misconfigured) as mistake:
        check_impact(ServeSettings(**settings), data_dir)
    assert mistake.value.hint
    return mistake.value.message


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"impact": "command", "impact_command": "/bin/true"},
        {"impact": "command", "impact_command": ("true", "a b")},
        {"impact": "webhook", "impact_url": URL},
        {"impact": "webhook", "impact_url": "http://127.0.0.1:8080"},
        {"impact": "webhook", "impact_url": "http://[::1]:8080/x?y=z"},
    ],
)
def test_these_fit(settings: dict[str, Any]) -> None:
    """The default needs nothing; a driver needs what it drives."""
    check_impact(ServeSettings(**settings), HERE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"impact": "command"}, "impact is command, but impact_command is not set."),
        ({"impact": "webhook"}, "impact is webhook, but impact_url is not set."),
        ({"impact_command": "true"}, "impact_command is set, but impact is simulated."),
        ({"impact_url": URL}, "impact_url is set, but impact is simulated."),
        ({"impact": "webhook", "impact_url": URL, "impact_command": "true"}, "impact_command is set, but impact is we"),
        ({"impact_bearer_file": "x"}, "impact_bearer_file is set, but impact is simulated."),
        ({"impact_signing_key_file": "x"}, "impact_signing_key_file is set"),
        ({"impact_ca_file": "x"}, "impact_ca_file is set"),
        ({"impact": "command", "impact_command": "'true"}, "impact_command cannot be split into words: No closing"),
        ({"impact": "command", "impact_command": "  "}, "impact_command: '' is not a program."),
        ({"impact": "command", "impact_command": "/no/such --x"}, "impact_command: '/no/such' is not a program."),
        ({"impact": "command", "impact_command": str(HERE)}, "is not a program."),
        ({"impact": "command", "impact_command": ("true", "a\0b")}, "impact_command has a NUL character in it."),
    ],
)
def test_these_do_not(settings: dict[str, Any], message: str) -> None:
    """The refusal names the setting that is wrong or missing."""
    assert message in refusal(**settings)


@pytest.mark.parametrize(
    "url", ["x", "ftp://a/b", "http://", "http://a:b/", "http://a b/", "http://a:99999/", "http://é/"]
)
def test_these_are_no_urls(url: str) -> None:
    """Only http and https, with a host."""
    assert "is not a URL" in refusal(impact="webhook", impact_url=url)


def test_a_url_holds_no_secret() -> None:
    """Settings are printed at the start, so a password does not belong there."""
    assert "password" in refusal(impact="webhook", impact_url="https://me:secret@receiver.example/")


def test_commands_need_a_place_for_their_notes() -> None:
    """Without a data directory nobody would know after a crash what has run."""
    assert ":memory:" in refusal(None, impact="command", impact_command="true")


def test_secrets_and_certificates_are_read_at_the_start(tmp_path: Path) -> None:
    """A file that is missing, empty, of several lines or no certificate is refused by name."""
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "good").write_text("s3cret\n")
    for name in ("impact_bearer_file", "impact_signing_key_file"):
        for file, message in (("missing", "cannot read"), ("empty", "holds no secret"), ("two", "holds no secret")):
            bad: dict[str, Any] = {name: str(tmp_path / file)}
            told = refusal(impact="webhook", impact_url=URL, **bad)
            assert message in told
            assert told.startswith(name)
        good: dict[str, Any] = {name: str(tmp_path / "good")}
        check_impact(ServeSettings(impact="webhook", impact_url=URL, **good), HERE)
    for file in ("missing", "good"):
        assert "impact_ca_file" in refusal(impact="webhook", impact_url=URL, impact_ca_file=str(tmp_path / file))


def test_a_text_is_cut_into_words_without_a_shell(tmp_path: Path) -> None:
    """Quotes hold words together; nothing is expanded. A list is taken as it is."""
    assert command_of(ServeSettings(impact_command="ssh 'my host' $HOME ; *")) == ["ssh", "my host", "$HOME", ";", "*"]
    assert command_of(ServeSettings(impact_command=("a b", "$c"))) == ["a b", "$c"]


def test_a_file_must_be_executable(tmp_path: Path) -> None:
    """A script without its x bit is found at the start, not when the first VM is to be hit."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert "is not a program" in refusal(impact="command", impact_command=str(script))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    check_impact(ServeSettings(impact="command", impact_command=str(script)), HERE)
