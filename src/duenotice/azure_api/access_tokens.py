"""Access tokens: signed references to a token of ours, so that a revoked token takes its access tokens with it (M02).

It is a JWT, signed with a key of our own, see `signing_keys`, and bound to the digest of our token. Who has only the
journal lacks the key, and who has only the key lacks the digests. Each node has both, also after a restart, and nothing
more is stored. Pure.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from duenotice.azure_api.signing_keys import LASTS, SLACK, KeyRing, SigningKey
from duenotice.domain.token import Token

LONGEST = 8192
"""Letters of an access token; a longer one is not ours, and not looked at."""


class AccessClaims(Struct, frozen=True):
    """What an access token says; times in seconds since 1970."""

    aud: str
    iss: str
    tid: str
    sub: str
    appid: str
    oid: str
    roles: tuple[str, ...]
    iat: int
    nbf: int
    exp: int
    ver: str = "2.0"


class _Head(Struct, frozen=True):
    kid: str
    alg: str = "HS256"
    typ: str = "JWT"


def issued(key: SigningKey, token: Token, tenant: str, issuer: str, audience: str, now: int) -> str:
    """An access token for a client that has shown the secret of `token`."""
    claims = AccessClaims(
        audience, issuer, tenant, token.id, token.id, token.id, (token.role.value,), now, now, now + LASTS
    )
    said = f"{_packed(_Head(key.id))}.{_packed(claims)}"
    return f"{said}.{_signature(key, token, said)}"


def token_behind(text: str, ring: KeyRing, tokens: Mapping[str, Token], now: int) -> Token | None:
    """The token that an access token stands for; None if it is not ours, or it, its key or the token has ended.

    One from the future was made while our clock was wrong: it would last longer than it should.
    """
    if len(text) > LONGEST:
        return None
    said, _, signature = text.rpartition(".")
    head, _, body = said.partition(".")
    try:
        key = ring.find(msgspec.json.decode(_unpacked(head), type=_Head).kid)
        claims = msgspec.json.decode(_unpacked(body), type=AccessClaims)
        token = tokens.get(claims.sub)
        if key is None or token is None or not hmac.compare_digest(_signature(key, token, said), signature):
            return None
        return token if claims.nbf - SLACK <= now < claims.exp else None
    except (msgspec.MsgspecError, ValueError, TypeError):
        return None


def _packed(value: Struct) -> str:
    return _text(msgspec.json.encode(value))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unpacked(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _signature(key: SigningKey, token: Token, said: str) -> str:
    return _text(hmac.digest(key.secret, f"{token.digest}.{said}".encode(), hashlib.sha256))
