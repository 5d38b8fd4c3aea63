"""Secrets and certificates that handlers read from files at each use, so that renewing one needs no restart."""

import base64
import ssl

from duenotice.agent.handlers.base import HandlerFailed
from duenotice.agent.handlers.trust import read_trusted, require_trusted_files

LONGEST_SECRET = 65_536


def read_secret(path: str) -> str:
    """One line from a file; errors name the file, never what is in it."""
    try:
        secret = read_trusted(path, LONGEST_SECRET).decode().strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise HandlerFailed(
            f"Cannot read the secret in {path}: {reason}.", hint="Check the path and its mode."
        ) from None
    if not secret or not secret.isprintable():
        raise HandlerFailed(f"The secret in {path} must be one line.", hint="Write it again.")
    return secret


def basic_auth(username: str, password_file: str) -> dict[str, str]:
    """The header with a user and a password."""
    proof = base64.b64encode(f"{username}:{read_secret(password_file)}".encode()).decode()
    return {"Authorization": f"Basic {proof}"}


def trusting(ca_file: str, certificate: str = "", key: str = "") -> ssl.SSLContext | None:
    """The authorities that TLS trusts, and our own certificate; None uses the machine's authorities."""
    if not ca_file and not certificate:
        return None
    require_trusted_files(ca_file, certificate, key)
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        if certificate:
            context.load_cert_chain(certificate, key or None)
        return context
    except OSError as error:
        named = ca_file or certificate
        raise HandlerFailed(f"Cannot use the certificate in {named}: {error}.", hint="It must be PEM.") from None
