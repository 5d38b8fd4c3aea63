"""Access tokens stand for a token of ours, for an hour, and as long as that token is there (M02)."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from duenotice.azure_api.sign_in import issue, token_behind
from duenotice.azure_api.signing_keys import LASTS, SLACK, KeyRing, SigningKey
from duenotice.domain.token import Role, Token

NOW = 1_800_000_000
ANN = Token("A1B2", "ann", Role.OPERATOR, "a" * 64, datetime(2026, 1, 1, tzinfo=UTC))
BOB = structs.replace(ANN, id="C3D4", name="bob", digest="b" * 64)
KEY, OTHER = SigningKey("k1", b"k" * 32, NOW), SigningKey("k2", b"l" * 32, NOW)
RING = KeyRing((KEY,))
GIVEN = issue(KEY, ANN, "tenant", "issuer", "audience", NOW)


def test_it_stands_for_the_token_that_was_shown() -> None:
    assert token_behind(GIVEN, RING, {ANN.id: ANN, BOB.id: BOB}, NOW + LASTS - 1) == ANN


def test_it_ends_after_an_hour() -> None:
    assert token_behind(GIVEN, RING, {ANN.id: ANN}, NOW + LASTS) is None


def test_it_ends_with_its_token() -> None:
    """Revoked, or replaced by another of the same name."""
    assert token_behind(GIVEN, RING, {BOB.id: BOB}, NOW) is None
    assert token_behind(GIVEN, RING, {ANN.id: structs.replace(ANN, digest="c" * 64)}, NOW) is None


def test_it_ends_with_its_key() -> None:
    """One that was dropped, or has another secret under the same id; another key that counts does not help."""
    for ring in (KeyRing(), KeyRing((OTHER,)), KeyRing((structs.replace(KEY, secret=OTHER.secret),))):
        assert token_behind(GIVEN, ring, {ANN.id: ANN}, NOW) is None
    assert token_behind(GIVEN, KeyRing((OTHER, KEY)), {ANN.id: ANN}, NOW) == ANN


def test_one_from_the_future_does_not_count_yet() -> None:
    """It was made while a clock was wrong, and would last too long; some minutes are how clocks differ."""
    assert token_behind(GIVEN, RING, {ANN.id: ANN}, NOW - SLACK) == ANN
    assert token_behind(GIVEN, RING, {ANN.id: ANN}, NOW - SLACK - 1) is None


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
        _parts(0, issue(OTHER, BOB, "tenant", "issuer", "audience", NOW).split(".")[0]),
        _parts(1, issue(KEY, ANN, "tenant", "issuer", "audience", NOW + 9).split(".")[1]),
        _parts(0, "eyJhbGciOiJub25lIn0"),
        _parts(2, ""),
        "a" * 1_000_000,
        GIVEN + "a" * 8192,
    ],
)
def test_what_we_have_not_signed_stands_for_nobody(text: str) -> None:
    """Foreign, cut short, changed, without a signature, or not a token at all."""
    assert token_behind(text, RING, {ANN.id: ANN, BOB.id: BOB}, NOW) is None
