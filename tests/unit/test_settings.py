"""Every setting as one row, and where its value came from."""

from pathlib import Path

import pytest

from duenotice.errors import Misconfigured
from duenotice.settings import (
    ENVIRONMENT_PREFIX,
    ServeSettings,
    default_data_dir,
    parse_listen,
    resolve,
    rows,
    without_password,
)

CHOICES = {
    "host_failure_type": "Redeploy",
    "gone_approval": "400",
    "log_format": "json",
    "impact": "command",
    "impact_lost": "retry",
    "workers": "2",
    "document_kib": "256",
}
"""Another value than the default, where that is not just any."""


def file_with(tmp_path: Path, text: str) -> str:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    return str(path)


class TestRows:
    """What a person sees in --help."""

    def test_each_setting_has_a_help_text_and_a_default_of_its_own_type(self) -> None:
        for row in rows():
            assert row.help
            assert row.default == getattr(ServeSettings(), row.name)

    def test_switches_are_told_from_values(self) -> None:
        assert [row.name for row in rows() if row.is_switch] == [
            "share_port",
            "first_answer_empty",
            "newer_versions_400",
            "spot_rebalance",
            "leaf_json",
            "degrade_unhealthy",
            "deletes_together",
            "libvirt_undefine",
            "allow_faults",
        ]

    def test_the_defaults_are_those_of_the_contract(self) -> None:
        usual = ServeSettings()
        assert (usual.metadata_listen, usual.operator_listen) == ("127.0.0.1:16925", "127.0.0.1:16926")
        assert (usual.throttle, usual.clock, usual.user_operations_limit) == (5.0, "real", 0)
        assert usual.first_answer_delay == 0.0

    def test_a_service_that_stands_still_for_ten_seconds_ends(self) -> None:
        assert ServeSettings().watchdog == 10.0
        assert resolve({"watchdog": "0"}, {}).settings.watchdog == 0
        with pytest.raises(Misconfigured, match="watchdog = '-1' \\(from flag\\)"):
            resolve({"watchdog": "-1"}, {})


class TestPrecedence:
    """Flag before environment before file before default."""

    @pytest.mark.parametrize(
        ("flag", "environment", "file", "throttle", "origin"),
        [
            ("1", "2", "throttle = 3", 1.0, "flag"),
            (None, "2", "throttle = 3", 2.0, "environment"),
            (None, None, "throttle = 3", 3.0, "file"),
            (None, None, "", 5.0, "default"),
            ("1", None, "throttle = 3", 1.0, "flag"),
            ("1", "2", "", 1.0, "flag"),
        ],
    )
    def test_the_first_layer_that_speaks_wins_and_is_named(
        self, tmp_path: Path, flag: str | None, environment: str | None, file: str, throttle: float, origin: str
    ) -> None:
        path = file_with(tmp_path, file)
        flags = {} if flag is None else {"throttle": flag}
        variables = {} if environment is None else {"DUENOTICE_THROTTLE": environment}
        resolved = resolve(flags, variables, path)
        assert resolved.settings.throttle == throttle
        assert resolved.origins["throttle"] == (path if origin == "file" else origin)

    def test_each_setting_has_its_own_origin(self, tmp_path: Path) -> None:
        path = file_with(tmp_path, 'clock = "manual"\nfleet = "a.toml"')
        resolved = resolve({"fleet": "b.toml"}, {}, path)
        assert (resolved.origins["clock"], resolved.origins["fleet"]) == (path, "flag")
        assert set(resolved.origins) == {row.name for row in rows()}

    def test_a_flag_at_its_default_still_wins(self, tmp_path: Path) -> None:
        assert resolve({"throttle": "5"}, {}, file_with(tmp_path, "throttle = 9")).settings.throttle == 5.0

    def test_every_setting_can_come_from_every_layer(self, tmp_path: Path) -> None:
        for row in rows():
            other = "0" if row.default is True else "1"
            value = CHOICES.get(row.name, "x" if isinstance(row.default, str) else other)
            written = str(not row.default).lower() if row.is_switch else repr(value).replace(chr(39), chr(34))
            text = f"{row.name} = {written}"
            variable = ENVIRONMENT_PREFIX + row.name.upper()
            from_flag = resolve({row.name: value}, {}).settings
            from_environment = resolve({}, {variable: value}).settings
            from_file = resolve({}, {}, file_with(tmp_path, text)).settings
            assert from_flag == from_environment == from_file != ServeSettings()

    @pytest.mark.parametrize(("text", "value"), [("true", True), ("1", True), ("false", False), ("0", False)])
    def test_a_switch_in_the_environment_is_true_or_false(self, text: str, value: bool) -> None:
        assert resolve({}, {"DUENOTICE_FIRST_ANSWER_EMPTY": text}).settings.first_answer_empty is value

    def test_variables_of_others_are_no_matter(self) -> None:
        assert resolve({}, {"PATH": "/bin", "THROTTLE": "9"}).settings == ServeSettings()


class TestMistakes:
    """A mistake is named with its key, value and origin, and with what to do."""

    @pytest.mark.parametrize(
        ("text", "what", "hint"),
        [
            ("throtle = 1", "line 3: unknown key 'throtle'", "Did you mean 'throttle'?"),
            ("fleets = 1", "line 3: unknown key 'fleets'", "Did you mean 'fleet'?"),
            ("banana = 1", "line 3: unknown key 'banana'", "Known keys: fleet, data_dir"),
            ("throttle = ", "not TOML: Invalid value (at ", "Fix the line and try again."),
            ("x = " + "[" * 5000, "not TOML: ", "Fix the line and try again."),
            ('throttle = "fast"', "line 3) is not valid", "--help"),
            ("throttle = [1]", "line 3) is not valid", "--help"),
            ("fleet = 1", "line 3) is not valid", "--help"),
            ("[throttle]", "line 3) is not valid", "--help"),
        ],
    )
    def test_in_a_file(self, tmp_path: Path, text: str, what: str, hint: str) -> None:
        """With its line."""
        path = file_with(tmp_path, f"# first\n\n{text}")
        with pytest.raises(Misconfigured) as mistake:
            resolve({}, {}, path)
        assert what in mistake.value.message
        assert path in mistake.value.message
        assert hint in mistake.value.hint

    def test_a_file_that_is_not_there_or_no_text(self, tmp_path: Path) -> None:
        noise = tmp_path / "noise"
        noise.write_bytes(b"\xff\xfe\x00")
        for path in (tmp_path / "missing.toml", tmp_path, noise):
            with pytest.raises(Misconfigured, match="Cannot read the settings file"):
                resolve({}, {}, str(path))

    @pytest.mark.parametrize(
        ("name", "value", "problem"),
        [
            ("throttle", "0", "Expected `float` > 0.0"),
            ("throttle", "-1", "Expected `float` > 0.0"),
            ("throttle", "nan", "Expected `float` > 0.0"),
            ("throttle", "inf", "Expected `float` <= "),
            ("maintenance_lasts", "inf", "Expected `float` <= "),
            ("throttle", "fast", "Expected `float`"),
            ("max_connections", "0", "Expected `int` >= 1"),
            ("max_connections", "1.5", "Expected `int`"),
            ("first_answer_delay", "121", "Expected `float` <= 120.0"),
            ("first_answer_delay", "-1", "Expected `float` >= 0.0"),
            ("first_answer_empty", "perhaps", "Expected `bool`"),
            ("user_operations_limit", "-1", "Expected `int` >= 0"),
            ("impact", "magic", "Invalid enum value 'magic'"),
            ("impact_timeout", "0", "Expected `float` > 0.0"),
            ("impact_attempts", "0", "Expected `int` >= 1"),
            ("impact_retry_after", "-1", "Expected `float` > 0.0"),
            ("impact_at_once", "0", "Expected `int` >= 1"),
            ("impact_report_within", "nan", "Expected `float` > 0.0"),
            ("impact_lost", "ignore", "Invalid enum value 'ignore'"),
        ],
    )
    def test_a_value_out_of_bounds_names_key_value_and_origin(self, name: str, value: str, problem: str) -> None:
        for flags, environment, origin in (
            ({name: value}, {}, "flag"),
            ({}, {ENVIRONMENT_PREFIX + name.upper(): value}, "environment"),
        ):
            with pytest.raises(Misconfigured) as mistake:
                resolve(flags, environment)
            assert mistake.value.message.startswith(f"{name} = {value!r} (from {origin}) is not valid: {problem}")


class TestListen:
    """HOST:PORT."""

    @pytest.mark.parametrize(
        ("text", "address"),
        [
            ("127.0.0.1:80", ("127.0.0.1", 80)),
            ("0.0.0.0:0", ("0.0.0.0", 0)),
            ("localhost:65535", ("localhost", 65535)),
            ("[::1]:16925", ("::1", 16925)),
            ("[fe80::1%eth0]:80", ("fe80::1%eth0", 80)),
        ],
    )
    def test_these_are_addresses(self, text: str, address: tuple[str, int]) -> None:
        assert parse_listen("metadata_listen", text) == address

    @pytest.mark.parametrize(
        "text",
        [
            *("", "80", ":80", "[]:80", "host", "host:", "host:http", "host:-1", "host:65536", "host: 80", "host:٨٠"),
            "host:" + "9" * 5000,
        ],
    )
    def test_these_are_not(self, text: str) -> None:
        with pytest.raises(Misconfigured, match=r"metadata_listen = .* is not HOST:PORT") as mistake:
            parse_listen("metadata_listen", text)
        assert "127.0.0.1:16925" in mistake.value.hint


def test_the_journal_is_kept_with_the_state_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_data_dir() == tmp_path / "duenotice"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_data_dir() == tmp_path / ".local" / "state" / "duenotice"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://app:secret@db/x (flag)", "postgresql://app:***@db/x (flag)"),
        ("postgresql://app:p@ss:word@db:1,db:2/x", "postgresql://app:***@db:1,db:2/x"),
        ("postgresql:///x?password=secret&sslpassword=secret", "postgresql:///x?password=***&sslpassword=***"),
        ("postgresql://app@db/x?user=a:b@c", "postgresql://app@db/x?user=a:b@c"),
        ("127.0.0.1:16925 (environment)", "127.0.0.1:16925 (environment)"),
    ],
)
def test_a_password_is_not_logged(text: str, shown: str) -> None:
    assert without_password(text) == shown
