"""Access tokens stand for a token of ours, for an hour, and as long as that token is there (M02)."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from duenotice.azure_api.access_tokens import LASTS, issued, token_behind
from duenotice.domain.token import Role, Token

NOW = 1_800_000_000
ANN = Token("A1B2", "ann", Role.OPERATOR, "a" * 64, datetime(2026, 1, 1, tzinfo=UTC))
BOB = structs.replace(ANN, id="C3D4", name="bob", digest="b" * 64)
GIVEN = issued(ANN, "tenant", "issuer", "audience", NOW)


def test_it_stands_for_the_token_that_was_shown() -> None:
    assert token_behind(GIVEN, {ANN.id: ANN, BOB.id: BOB}, NOW + LASTS - 1) == ANN


def test_it_ends_after_an_hour() -> None:
    assert token_behind(GIVEN, {ANN.id: ANN}, NOW + LASTS) is None


def test_it_ends_with_its_token() -> None:
    """Revoked, or replaced by another of the same name."""
    assert token_behind(GIVEN, {BOB.id: BOB}, NOW) is None
    assert token_behind(GIVEN, {ANN.id: structs.replace(ANN, digest="c" * 64)}, NOW) is None


def _parts(changed: int, text: str) -> str:
    parts = GIVEN.split(".")
    parts[changed] = text
    return ".".join(parts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "dn_token",
        "a.b.c",
        "é.é.é",
        GIVEN[:-2],
        _parts(0, issued(BOB, "tenant", "issuer", "audience", NOW).split(".")[0]),
        _parts(1, issued(ANN, "tenant", "issuer", "audience", NOW + 9).split(".")[1]),
        _parts(0, "eyJhbGciOiJub25lIn0"),
        _parts(2, ""),
    ],
)
def test_what_we_have_not_signed_stands_for_nobody(text: str) -> None:
    """Foreign, cut short, changed, without a signature, or not a token at all."""
    assert token_behind(text, {ANN.id: ANN, BOB.id: BOB}, NOW) is None
