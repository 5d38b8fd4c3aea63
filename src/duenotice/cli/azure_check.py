"""Tries what `duenotice azure profile` says, as a client would: finds the service, signs in, reads."""

import http.client
import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

from duenotice.client.operator.errors import Denied
from duenotice.errors import Misconfigured, NotFound, Unavailable, reason

SECONDS = 30.0
_VERSION = "api-version=2024-07-01"


def check(url: str, tenant: str, client: str, secret: str, ca_file: str) -> Iterator[str]:
    """A line for each thing that works; the first that does not is an error."""
    tls = _trusting(ca_file)
    found = _asked(tls, url, "GET", f"/metadata/endpoints?{_VERSION}")
    yield f"ok  {found['resourceManager']} is trusted"
    form = urlencode({"grant_type": "client_credentials", "client_id": client, "client_secret": secret, "scope": url})
    token = _asked(tls, url, "POST", f"/{tenant}/oauth2/v2.0/token", {}, form)["access_token"]
    yield "ok  signed in"
    bearer = {"Authorization": f"Bearer {token}"}
    (subscription,) = _asked(tls, url, "GET", f"/subscriptions?{_VERSION}", bearer)["value"]
    place = f"{subscription['id']}/providers/Microsoft.Compute/virtualMachines?{_VERSION}"
    page = _asked(tls, url, "GET", place, bearer)
    yield f"ok  {len(page['value'])}{' and more' if 'nextLink' in page else ''} VMs"


def _trusting(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(f"{ca_file} is not a CA: {reason(error)}.", hint="Ask for the profile again.") from None


def _asked(
    tls: ssl.SSLContext, url: str, method: str, target: str, headers: dict[str, str] | None = None, body: str = ""
) -> Any:
    parts = urlsplit(url)
    line = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=SECONDS, context=tls)
    try:
        line.request(method, target, body or None, headers or {})
        answer = line.getresponse()
        said = answer.read()
    except (OSError, http.client.HTTPException) as error:
        hint = "Does the service listen there, and is its certificate for that name? See --azure-names."
        raise Unavailable(f"{url} does not answer: {reason(error)}.", hint=hint) from None
    finally:
        line.close()
    if answer.status != 200:
        kind = Denied if answer.status in (401, 403) else NotFound
        raise kind(f"{method} {target.partition('?')[0]}: {answer.status} {said[:200].decode(errors='replace')}")
    return json.loads(said)
