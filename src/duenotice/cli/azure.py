"""`duenotice azure`: what points `az` and the Azure SDKs to the service, and the keys that it signs with (M01-M03)."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import click

from duenotice.cli.options import Group
from duenotice.cli.output import print_note, print_text
from duenotice.cli.session import Session, with_client
from duenotice.cli.views import AZURE
from duenotice.client.operator.config import found_token
from duenotice.client.operator.errors import Denied
from duenotice.errors import Misconfigured, NotFound, Unavailable, reason
from duenotice.settings import default_data_dir

if TYPE_CHECKING:
    import ssl

    from duenotice.azure_api.signing_keys import SecretStore

BASH = """\
export AZURE_CONFIG_DIR="$HOME/.azure-duenotice"  # your own sign-in of az stays as it is
export REQUESTS_CA_BUNDLE='{ca_file}' NODE_EXTRA_CA_CERTS='{ca_file}' SSL_CERT_FILE='{ca_file}'
export AZURE_CORE_INSTANCE_DISCOVERY=false AZURE_AUTHORITY_HOST='{authority}'
export AZURE_TENANT_ID='{tenant_id}' AZURE_SUBSCRIPTION_ID='{subscription_id}'
export AZURE_CLIENT_ID='{client_id}'
export AZURE_CLIENT_SECRET="${{DUENOTICE_TOKEN:-$(cat '{token_file}')}}"
if command -v az >/dev/null; then
  az cloud register --name duenotice --endpoint-resource-manager '{resource_manager}' 2>/dev/null ||
    az cloud update --name duenotice --endpoint-resource-manager '{resource_manager}'
  az cloud set --name duenotice --only-show-errors
  az login --service-principal --username "$AZURE_CLIENT_ID" --password "$AZURE_CLIENT_SECRET" \\
    --tenant "$AZURE_TENANT_ID" --output none
  az config set defaults.group='{resource_group}' --only-show-errors
fi"""

POWERSHELL = """\
$env:AZURE_CONFIG_DIR = "$HOME/.azure-duenotice"  # your own sign-in of az stays as it is
$env:REQUESTS_CA_BUNDLE = $env:NODE_EXTRA_CA_CERTS = $env:SSL_CERT_FILE = '{ca_file}'
$env:AZURE_CORE_INSTANCE_DISCOVERY = 'false'
$env:AZURE_AUTHORITY_HOST = '{authority}'
$env:AZURE_TENANT_ID = '{tenant_id}'
$env:AZURE_SUBSCRIPTION_ID = '{subscription_id}'
$env:AZURE_CLIENT_ID = '{client_id}'
$env:AZURE_CLIENT_SECRET = if ($env:DUENOTICE_TOKEN) {{ $env:DUENOTICE_TOKEN }} else {{ Get-Content '{token_file}' }}
if (Get-Command az -ErrorAction SilentlyContinue) {{
  az cloud register --name duenotice --endpoint-resource-manager '{resource_manager}'
  az cloud set --name duenotice --only-show-errors
  az login --service-principal --username $env:AZURE_CLIENT_ID --password $env:AZURE_CLIENT_SECRET `
    --tenant $env:AZURE_TENANT_ID --output none
  az config set defaults.group='{resource_group}' --only-show-errors
}}"""

PYTHON = """\
import os
from pathlib import Path

from azure.identity import ClientSecretCredential
from azure.mgmt.compute import ComputeManagementClient

ca = {ca_file!r}
secret = os.environ.get("DUENOTICE_TOKEN") or Path({token_file!r}).read_text().strip()
credential = ClientSecretCredential(
    {tenant_id!r},
    {client_id!r},
    secret,
    authority={authority!r},
    disable_instance_discovery=True,
    connection_verify=ca,
)
compute = ComputeManagementClient(
    credential,
    {subscription_id!r},
    base_url={resource_manager!r},
    credential_scopes=[{resource_manager!r} + "/.default"],
    connection_verify=ca,
)"""

LINES = {"bash": BASH, "powershell": POWERSHELL, "python": PYTHON}


class AzureProfile(NamedTuple):
    """What every client needs; the client secret is the caller's own token."""

    resource_manager: str
    authority: str
    tenant_id: str
    subscription_id: str
    resource_group: str
    client_id: str
    ca_file: str


@click.group(cls=Group)
def azure() -> None:
    """Point az and the Azure SDKs to the service."""


@azure.command("profile", epilog='Example: eval "$(duenotice azure profile)"')
@click.argument("shell", type=click.Choice(list(LINES)), default="bash", metavar="[bash|powershell|python]")
@click.option("--check", "checks", is_flag=True, help="Also try them: sign in, and list VMs.")
@with_client
def profile(session: Session, shell: str, checks: bool) -> None:
    """Print the lines that point az and the SDKs here.

    The client secret is your own token: the lines say where it is, and not what it is.
    """
    found = _profile(session)
    if session.output == "table":
        print_text(LINES[shell].format(**found._asdict(), token_file=_token_file()))
    else:
        session.show_one(found._asdict(), AZURE)
    if checks:
        for line in _try_profile(
            found.resource_manager, found.tenant_id, found.client_id, found_token(), found.ca_file
        ):
            print_note(line)


@azure.command("rotate-key", epilog="Example: duenotice azure rotate-key --at-once --data-dir /var/lib/duenotice")
@click.option("--data-dir", metavar="DIR", envvar="DUENOTICE_DATA_DIR", help="Of the service; also DUENOTICE_DATA_DIR.")
@click.option(
    "--journal",
    "url",
    metavar="URL",
    envvar="DUENOTICE_JOURNAL",
    help="postgresql:// URL of the journal of several nodes; also DUENOTICE_JOURNAL.",
)
@click.option("--at-once", is_flag=True, help="End all access tokens now: somebody may have read the keys.")
def rotate_key(data_dir: str | None, url: str | None, at_once: bool) -> None:
    """Sign access tokens with a new key. Without this a service makes a new key each day.

    Run it where the data directory is, as the user of the service. Access tokens stay good until they end by
    themselves. With --at-once all of them are refused within a minute, and clients sign in again.
    """
    from duenotice.azure_api.signing_keys import SigningKeys

    with closing(_store(Path(data_dir) if data_dir else default_data_dir(), url)) as store:
        SigningKeys(store).rotate(at_once)
    when = "counts within a minute, and no other does" if at_once else "is used in five minutes"
    print_note(f"The new key {when}.")


def _store(directory: Path, url: str | None) -> "SecretStore":
    from duenotice.azure_api.signing_keys import FILE
    from duenotice.bootstrap import journals
    from duenotice.system import SecretFile

    if url and journals.is_postgres(url):
        journals.require_driver()
        from duenotice.store.postgres_members import PostgresSecrets

        return PostgresSecrets(url)
    if not (directory / FILE).exists():
        raise NotFound(
            f"There is no {FILE} in {directory}.",
            hint="Name the data directory of a service that was started with --azure-listen.",
        )
    return SecretFile(directory / FILE)


def _profile(session: Session) -> AzureProfile:
    told, me = session.client.azure(), session.client.me()
    ca_file = "" if told.ca is None else _ca_file(told.ca_file or "", told.ca, told.resource_manager)
    return AzureProfile(
        told.resource_manager,
        told.authority,
        told.tenant_id,
        told.subscription_id,
        told.resource_group,
        me.id.lower(),
        ca_file,
    )


def _ca_file(theirs: str, ca: str, url: str) -> str:
    """The service's own file, if it is on this machine; else a copy."""
    try:
        if Path(theirs).read_text() == ca:
            return theirs
    except OSError:
        pass
    parts = urlsplit(url)
    copy = default_data_dir() / f"azure-ca-{parts.hostname}-{parts.port}.pem".replace(":", "-")
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(ca)
    return str(copy)


def _token_file() -> str:
    return os.environ.get("DUENOTICE_TOKEN_FILE") or str(default_data_dir() / "admin.token")


SECONDS = 30.0
_VERSION = "api-version=2024-07-01"


def _try_profile(url: str, tenant: str, client: str, secret: str, ca_file: str) -> Iterator[str]:
    """Do as a client would: a line for each thing that works; the first that does not is an error."""
    import ssl

    try:
        tls = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(f"{ca_file} is not a CA: {reason(error)}.", hint="Ask for the profile again.") from None
    found = _ask(tls, url, "GET", f"/metadata/endpoints?{_VERSION}")
    yield f"ok  {found['resourceManager']} is trusted"
    form = urlencode({"grant_type": "client_credentials", "client_id": client, "client_secret": secret, "scope": url})
    token = _ask(tls, url, "POST", f"/{tenant}/oauth2/v2.0/token", {}, form)["access_token"]
    yield "ok  signed in"
    bearer = {"Authorization": f"Bearer {token}"}
    (subscription,) = _ask(tls, url, "GET", f"/subscriptions?{_VERSION}", bearer)["value"]
    place = f"{subscription['id']}/providers/Microsoft.Compute/virtualMachines?{_VERSION}"
    page = _ask(tls, url, "GET", place, bearer)
    yield f"ok  {len(page['value'])}{' and more' if 'nextLink' in page else ''} VMs"


def _ask(
    tls: "ssl.SSLContext", url: str, method: str, target: str, headers: dict[str, str] | None = None, body: str = ""
) -> Any:
    import http.client  # slow to import, and needed only to check
    import json

    parts = urlsplit(url)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=SECONDS, context=tls)
    try:
        connection.request(method, target, body or None, headers or {})
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        hint = "Does the service listen there, and is its certificate for that name? See --azure-names."
        raise Unavailable(f"{url} does not answer: {reason(error)}.", hint=hint) from None
    finally:
        connection.close()
    if answer.status != 200:
        kind = Denied if answer.status in (401, 403) else NotFound
        raise kind(f"{method} {target.partition('?')[0]}: {answer.status} {content[:200].decode(errors='replace')}")
    return json.loads(content)
