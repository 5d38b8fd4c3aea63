"""Where the operator's API is, and which token is shown."""

from pathlib import Path

import pytest

from duenotice.client.operator.config import chosen_endpoint, chosen_token
from duenotice.client.operator.errors import Denied
from duenotice.errors import Misconfigured


@pytest.mark.parametrize(
    ("endpoint", "url", "address", "secure"),
    [
        ("http://h:1", "http://h:1", ("h", 1), False),
        ("h:1", "http://h:1", ("h", 1), False),
        ("http://h", "http://h", ("h", 80), False),
        ("https://h/", "https://h", ("h", 443), True),
        ("http://[::1]:5", "http://[::1]:5", ("::1", 5), False),
        ("http://anna:secret@h:1", "http://h:1", ("h", 1), False),  # the url is shown in messages
    ],
)
def test_an_endpoint_is_an_address(endpoint: str, url: str, address: tuple[str, int], secure: bool) -> None:
    found = chosen_endpoint(endpoint)
    assert (found.url, tuple(found.address), found.secure) == (url, address, secure)
    assert found.host == url.partition("//")[2]


@pytest.mark.parametrize("endpoint", ["ftp://h", "http://", "http://h:x", "http://h:99999", "http://a b", "http://ä"])
def test_what_is_no_address_is_refused_with_an_example(endpoint: str) -> None:
    with pytest.raises(Misconfigured, match="is not an address") as caught:
        chosen_endpoint(endpoint)
    assert "http://127.0.0.1:16926" in caught.value.hint


def test_the_environment_says_where_unless_the_caller_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUENOTICE_ENDPOINT", "http://there:2")
    assert chosen_endpoint(None).url == "http://there:2"
    assert chosen_endpoint("http://here:1").url == "http://here:1"
    monkeypatch.delenv("DUENOTICE_ENDPOINT")
    assert chosen_endpoint(None).url == "http://127.0.0.1:16926"


def test_a_token_is_the_given_one_or_that_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable before the file before the default data directory."""
    (tmp_path / "t").write_text("from-file\n")
    monkeypatch.setenv("DUENOTICE_TOKEN_FILE", str(tmp_path / "t"))
    assert chosen_token(None) == "from-file"
    monkeypatch.setenv("DUENOTICE_TOKEN", " from-variable ")
    assert chosen_token(None) == "from-variable"
    assert chosen_token("given") == "given"


def test_without_any_token_none_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Then the service says what it needs."""
    for name in ("DUENOTICE_TOKEN", "DUENOTICE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert chosen_token(None) == ""


@pytest.mark.parametrize("token", ["a\nb", "ä", "a\x00"])
def test_a_token_that_cannot_be_one_is_not_sent(token: str) -> None:
    with pytest.raises(Denied, match="cannot have"):
        chosen_token(token)


def test_a_token_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DUENOTICE_TOKEN", raising=False)
    monkeypatch.setenv("DUENOTICE_TOKEN_FILE", str(tmp_path / "nothing"))
    with pytest.raises(Denied, match="nothing: No such file"):
        chosen_token(None)
