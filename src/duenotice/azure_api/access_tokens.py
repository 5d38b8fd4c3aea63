"""Access tokens: signed references to a token of ours, so that a revoked token takes its access tokens with it (M02).

It is a JWT, signed with the digest of our token. The journal has that digest, so each node can check an access token,
also after a restart, and nothing more is stored. Pure.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from duenotice.domain.token import Token

LASTS = 3600
"""Seconds; clients ask for a new one by themselves."""


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


def issued(token: Token, tenant: str, issuer: str, audience: str, now: int) -> str:
    """An access token for a client that has shown the secret of `token`."""
    claims = AccessClaims(
        audience, issuer, tenant, token.id, token.id, token.id, (token.role.value,), now, now, now + LASTS
    )
    said = f"{_packed(_Head(token.id))}.{_packed(claims)}"
    return f"{said}.{_signature(token, said)}"


def token_behind(text: str, tokens: Mapping[str, Token], now: int) -> Token | None:
    """The token that an access token stands for; None if it is not ours, or it or the token has ended."""
    said, _, signature = text.rpartition(".")
    head, _, body = said.partition(".")
    try:
        token = tokens.get(msgspec.json.decode(_unpacked(head), type=_Head).kid)
        if token is None or not hmac.compare_digest(_signature(token, said), signature):
            return None
        return token if msgspec.json.decode(_unpacked(body), type=AccessClaims).exp > now else None
    except (msgspec.MsgspecError, ValueError, TypeError):
        return None


def _packed(value: Struct) -> str:
    return _text(msgspec.json.encode(value))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unpacked(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _signature(token: Token, said: str) -> str:
    return _text(hmac.digest(token.digest.encode(), said.encode(), hashlib.sha256))
