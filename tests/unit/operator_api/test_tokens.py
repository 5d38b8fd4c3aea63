"""The admin token of a data directory."""

import stat
from pathlib import Path

import pytest

from duenotice.errors import Misconfigured
from duenotice.operator_api.tokens import FILE, new_token, token_of


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("dn_") and len(token) > 40 for token in tokens)


def test_the_first_start_writes_a_token_that_only_its_owner_can_read(tmp_path: Path) -> None:
    token = token_of(tmp_path)
    file = tmp_path / FILE
    assert file.read_text().strip() == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_later_starts_find_the_same_token(tmp_path: Path) -> None:
    assert token_of(tmp_path) == token_of(tmp_path)


def test_an_empty_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """A new token would not be the one that the journal knows."""
    (tmp_path / FILE).touch(0o600)
    with pytest.raises(Misconfigured, match="holds no token"):
        token_of(tmp_path)
    assert (tmp_path / FILE).read_bytes() == b""
