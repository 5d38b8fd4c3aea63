"""Signing in: the calls of `az` and the identity libraries, and access tokens signed for tokens of ours (M02, M03)."""

import base64
import hashlib
import hmac
from collections.abc import Mapping

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from duenotice.azure_api.resource import SUBSCRIPTION, AzureCall, AzureResource
from duenotice.azure_api.shape import AzureProblem, Listed, base_of, body_bytes, json_response
from duenotice.azure_api.signing_keys import LASTS, SLACK, KeyRing, SigningKey, SigningKeys
from duenotice.bounds import SIGNING_IN, form_fields
from duenotice.clock import wall
from duenotice.domain.token import Role, Token, token_with
from duenotice.engine.engine import Engine
from duenotice.errors import Malformed
from duenotice.wire.azure import id_of_resource_group

LONGEST_TOKEN = 8192
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


def issue(key: SigningKey, token: Token, tenant: str, issuer: str, audience: str, now: int) -> str:
    """An access token for a client that has shown the secret of `token`."""
    claims = AccessClaims(
        audience, issuer, tenant, token.id, token.id, token.id, (token.role.value,), now, now, now + LASTS
    )
    said = f"{_encoded(_Head(key.id))}.{_encoded(claims)}"
    return f"{said}.{_signature(key, token, said)}"


def token_behind(text: str, ring: KeyRing, tokens: Mapping[str, Token], now: int) -> Token | None:
    """The token that an access token stands for; None if it is not ours, or it, its key or the token has ended.

    One from the future was made while our clock was wrong: it would last longer than it should.
    """
    if len(text) > LONGEST_TOKEN:
        return None
    said, _, signature = text.rpartition(".")
    head, _, body = said.partition(".")
    try:
        key = ring.find(msgspec.json.decode(_decoded(head), type=_Head).kid)
        claims = msgspec.json.decode(_decoded(body), type=AccessClaims)
        token = tokens.get(claims.sub)
        if key is None or token is None or not hmac.compare_digest(_signature(key, token, said), signature):
            return None
        return token if claims.nbf - SLACK <= now < claims.exp else None
    except (msgspec.MsgspecError, ValueError, TypeError):
        return None


def _encoded(value: Struct) -> str:
    return _base64(msgspec.json.encode(value))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _signature(key: SigningKey, token: Token, said: str) -> str:
    return _base64(hmac.digest(key.secret, f"{token.digest}.{said}".encode(), hashlib.sha256))


TENANT = "d0e07a00-0000-4000-8000-000000000000"
"""The tenant of every fleet. Signing in works with any other too: there is only one."""
LONGEST_AUDIENCE = 400
"""Letters of a tenant or a scope."""


def seconds_since_1970() -> int:
    """The real time: access tokens end on the clock of their owners, not on the service's."""
    return int(wall().timestamp())


class AzureGate:
    """Lets a request through if its access token stands for a token of ours with a sufficient role."""

    def __init__(self, engine: Engine, keys: SigningKeys) -> None:
        self._engine, self._keys = engine, keys

    def admit(self, request: Request, needed: Role) -> None:
        """Refuse the request, or store who asks in its state."""
        token = self._bearer(request)
        if token is None:
            raise AzureProblem.of(
                401,
                "AuthenticationFailed",
                "Authentication failed. There is no access token, or it is not valid here, has expired or was revoked.",
                hint="Sign in again.",
            )
        if not token.role.covers(needed):
            raise AzureProblem.of(
                403,
                "AuthorizationFailed",
                f"The token {token.name!r} has the role {token.role.value}; this needs {needed.value}.",
                hint="Use a token with that role; an admin can create one.",
            )
        request.state.actor, request.state.token = f"token/{token.name}", token

    def _bearer(self, request: Request) -> Token | None:
        given = request.headers.getlist("authorization")
        scheme, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer":
            return None
        return token_behind(text.strip(), self._keys.ring, self._engine.state.tokens, seconds_since_1970())


class SignIn(AzureResource):
    """What is asked before the first call: where things are, an access token, which subscriptions there are."""

    def __init__(self, engine: Engine, keys: SigningKeys) -> None:
        super().__init__(engine)
        self._keys = keys

    def calls(self) -> list[AzureCall]:
        """The rows of the table."""
        get, post, viewer = "GET", "POST", Role.VIEWER
        return [
            AzureCall(get, "/metadata/endpoints", None, self.endpoints),
            AzureCall(get, "/common/discovery/instance", None, self.discovery),
            AzureCall(get, "/{tenant}/v2.0/.well-known/openid-configuration", None, self.openid),
            AzureCall(post, "/{tenant}/oauth2/v2.0/token", None, self.token, SIGNING_IN),
            AzureCall(post, "/{tenant}/oauth2/token", None, self.token, SIGNING_IN),
            AzureCall(get, "/subscriptions", viewer, self.subscriptions),
            AzureCall(get, SUBSCRIPTION, viewer, self.subscription),
            AzureCall(get, "/tenants", viewer, self.tenants),
            AzureCall(get, f"{SUBSCRIPTION}/resourceGroups", viewer, self.groups),
            AzureCall(get, f"{SUBSCRIPTION}/resourceGroups/{{group}}", viewer, self.group),
            AzureCall(get, f"{SUBSCRIPTION}/locations", viewer, self.locations),
            AzureCall(get, f"{SUBSCRIPTION}/providers/{{provider}}", viewer, self.provider),
        ]

    async def endpoints(self, request: Request) -> Response:
        """What `az cloud register` asks for."""
        base = base_of(request)
        cloud = {
            "name": "duenotice",
            "portal": base,
            "authentication": {
                "loginEndpoint": base,
                "audiences": [base],
                "tenant": TENANT,
                "identityProvider": "AAD",
            },
            "graph": base,
            "graphAudience": base,
            "resourceManager": base,
            "activeDirectoryDataLake": base,
            "batch": base,
            "media": base,
            "sqlManagement": base,
            "vmImageAliasDoc": f"{base}/",
            "gallery": base,
            "suffixes": {},
        }
        return json_response(cloud)

    async def discovery(self, request: Request) -> Response:
        """That this is where to sign in."""
        host = request.url.netloc
        return json_response(
            {
                "tenant_discovery_endpoint": f"{base_of(request)}/{TENANT}/v2.0/.well-known/openid-configuration",
                "api-version": "1.1",
                "metadata": [{"preferred_network": host, "preferred_cache": host, "aliases": [host]}],
            }
        )

    async def openid(self, request: Request) -> Response:
        """Where the identity library gets tokens."""
        tenant, base = request.path_params["tenant"], base_of(request)
        return json_response(
            {
                "issuer": f"{base}/{tenant}/v2.0",
                "authorization_endpoint": f"{base}/{tenant}/oauth2/v2.0/authorize",
                "token_endpoint": f"{base}/{tenant}/oauth2/v2.0/token",
                "token_endpoint_auth_methods_supported": ["client_secret_post"],
                "response_types_supported": ["code"],
                "subject_types_supported": ["pairwise"],
                "id_token_signing_alg_values_supported": ["HS256"],
            }
        )

    async def token(self, request: Request) -> Response:
        """An access token for a client secret, which is one of our tokens."""
        form = await body_bytes(request)
        try:
            # Of two values the first counts, as at most servers.
            asked = dict(reversed(form_fields(form, request.state.bounds.fields)))
        except Malformed as error:
            return _refused(400, "invalid_request", f"{error.message} {error.hint}")
        if asked.get("grant_type") != "client_credentials":
            return _refused(400, "unsupported_grant_type", "Use client_credentials, with a token as client_secret.")
        token = token_with(asked.get("client_secret", ""), self._engine.state.tokens.values())
        if token is None or not token.role.covers(Role.VIEWER):
            return _refused(401, "invalid_client", "The client secret is not a token of a viewer, operator or admin.")
        tenant, base = request.path_params["tenant"], base_of(request)
        audience = asked.get("scope", base).removesuffix("/.default")
        if max(len(tenant), len(audience)) > LONGEST_AUDIENCE:  # both stand in the token, which each request brings
            return _refused(400, "invalid_scope", f"The tenant or the scope has more than {LONGEST_AUDIENCE} letters.")
        now = seconds_since_1970()
        access = issue(self._keys.ring.signing(now), token, tenant, f"{base}/{tenant}/v2.0", audience, now)
        body = {"token_type": "Bearer", "expires_in": LASTS, "ext_expires_in": LASTS, "access_token": access}
        return json_response(body, headers={"Cache-Control": "no-store"})

    async def subscriptions(self, _: Request) -> Response:
        """All subscriptions, which is one."""
        return json_response(Listed((self._subscription(),)))

    async def subscription(self, _: Request) -> Response:
        """The one that there is."""
        return json_response(self._subscription())

    async def tenants(self, _: Request) -> Response:
        """All tenants, which is one."""
        tenant = {"id": f"/tenants/{TENANT}", "tenantId": TENANT, "displayName": "duenotice", "tenantCategory": "Home"}
        return json_response(Listed((tenant,)))

    async def groups(self, _: Request) -> Response:
        """All resource groups, which is one."""
        return json_response(Listed((self._resource_group(),)))

    async def group(self, _: Request) -> Response:
        """The one that there is."""
        return json_response(self._resource_group())

    async def locations(self, _: Request) -> Response:
        """All locations, which is one."""
        location = self._site.location
        place = {"id": f"/subscriptions/{self._site.subscription_id}/locations/{location}", "name": location}
        return json_response(Listed(({**place, "displayName": location, "regionalDisplayName": location},)))

    async def provider(self, request: Request) -> Response:
        """Clients that register providers by themselves find all of them registered."""
        name = request.path_params["provider"]
        place = f"/subscriptions/{self._site.subscription_id}/providers/{name}"
        return json_response({"id": place, "namespace": name, "registrationState": "Registered", "resourceTypes": []})

    def _subscription(self) -> dict[str, object]:
        subscription = self._site.subscription_id
        return {
            "id": f"/subscriptions/{subscription}",
            "subscriptionId": subscription,
            "tenantId": TENANT,
            "displayName": "duenotice",
            "state": "Enabled",
            "authorizationSource": "RoleBased",
            "subscriptionPolicies": {"spendingLimit": "Off"},
        }

    def _resource_group(self) -> dict[str, object]:
        site = self._site
        return {
            "id": id_of_resource_group(site),
            "name": site.resource_group,
            "type": "Microsoft.Resources/resourceGroups",
            "location": site.location,
            "properties": {"provisioningState": "Succeeded"},
        }


def _refused(status: int, error: str, said: str) -> Response:
    """A refusal as OAuth has it."""
    return json_response({"error": error, "error_description": said, "error_codes": [], "timestamp": ""}, status)
