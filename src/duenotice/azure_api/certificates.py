"""The certificates of the Azure door: a CA of its own in the data directory, and a leaf that it renews (M01)."""

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from duenotice.clock import wall
from duenotice.errors import Misconfigured, reason
from duenotice.system import sync_directory

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_FILE, CA_KEY_FILE = "azure-ca.pem", "azure-ca.key"
LEAF_FILE, LEAF_KEY_FILE = "azure.pem", "azure.key"
CA_LASTS = timedelta(days=3650)
LEAF_LASTS = timedelta(days=365)
RENEWED_BEFORE = timedelta(days=30)
_BACK = timedelta(minutes=5)
"""The clock of a client may be a little behind ours."""


class KeyPair(NamedTuple):
    """The files of a certificate and of its key; `ca` is what clients must trust, if it is ours."""

    certificate: Path
    key: Path
    ca: Path | None = None


def given(certificate: str, key: str) -> KeyPair:
    """A certificate that an operator brings."""
    pair = KeyPair(Path(certificate), Path(key))
    try:
        context_of(pair)
    except (OSError, ssl.SSLError) as error:
        raise Misconfigured(
            f"The files of azure_cert_file and azure_key_file are not valid: {reason(error)}.",
            hint="Name a PEM file with the certificate (and those between it and its CA), and one with its key.",
        ) from None
    return pair


def own(directory: Path, names: Iterable[str]) -> KeyPair:
    """Our own certificate for these names and addresses; made, or made again, if that is needed."""
    _require_cryptography()
    pair = KeyPair(directory / LEAF_FILE, directory / LEAF_KEY_FILE, directory / CA_FILE)
    try:
        _refresh(directory, sorted(set(names)))
    except (OSError, ValueError) as error:
        raise Misconfigured(
            f"The service cannot use the certificates in {directory}: {reason(error)}.",
            hint=f"Fix the disk; or remove {CA_FILE} and {CA_KEY_FILE}, and the next start makes new ones.",
        ) from None
    return pair


def context_of(pair: KeyPair) -> ssl.SSLContext:
    """What a server needs of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(pair.certificate, pair.key, password=lambda: "")  # else it would ask on the terminal
    return context


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise Misconfigured(
            "azure_listen needs the package cryptography.",
            hint="Install duenotice[azure], or bring a certificate with --azure-cert-file and --azure-key-file.",
        ) from None


def _refresh(directory: Path, names: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    now = wall()
    ca = _read(directory / CA_FILE, directory / CA_KEY_FILE)
    if ca is None or _ends(ca[0]) - LEAF_LASTS - RENEWED_BEFORE < now:
        ca = _made_ca(now)
        _write(directory, CA_KEY_FILE, CA_FILE, ca)
    leaf = _read(directory / LEAF_FILE, directory / LEAF_KEY_FILE)
    if leaf is None or not _is_good(leaf[0], ca[0], names, now):
        _write(directory, LEAF_KEY_FILE, LEAF_FILE, _made_leaf(ca, names, now))


Made = tuple["x509.Certificate", "EllipticCurvePrivateKey"]


def _read(certificate: Path, key: Path) -> Made | None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not (certificate.exists() and key.exists()):
        return None
    private = load_pem_private_key(key.read_bytes(), None)
    if not isinstance(private, EllipticCurvePrivateKey):
        raise ValueError(f"{key.name} is not one of ours")
    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    # They are two files: a crash may have come between them.
    return (found, private) if found.public_key() == private.public_key() else None


def _ends(certificate: "x509.Certificate") -> datetime:
    return certificate.not_valid_after_utc


def _is_good(leaf: "x509.Certificate", ca: "x509.Certificate", names: list[str], now: datetime) -> bool:
    """Whether it is of this CA, lasts a while, and is for all names that are served."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        leaf.verify_directly_issued_by(ca)
    except (InvalidSignature, ValueError, TypeError):
        return False
    known = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return _ends(leaf) - RENEWED_BEFORE > now and {_general(name) for name in names} <= set(known)


def _general(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _made_ca(now: datetime) -> Made:
    from cryptography import x509

    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    return _made("duenotice CA", now, CA_LASTS, None, x509.BasicConstraints(True, 0), usage, [])


def _made_leaf(ca: Made, names: list[str], now: datetime) -> Made:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    more: list[x509.ExtensionType] = [
        x509.SubjectAlternativeName([_general(name) for name in names]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
    ]
    return _made("duenotice", now, LEAF_LASTS, ca, x509.BasicConstraints(False, None), usage, more)


def _made(
    name: str,
    now: datetime,
    lasts: timedelta,
    ca: Made | None,
    basic: "x509.BasicConstraints",
    usage: "x509.KeyUsage",
    more: "list[x509.ExtensionType]",
) -> Made:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, signing = (subject, key) if ca is None else (ca[0].subject, ca[1])
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - _BACK).not_valid_after(now + lasts)
    builder = builder.add_extension(basic, critical=True).add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    builder = builder.add_extension(authority, critical=False)
    for extension in more:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signing, SHA256()), key


def _write(directory: Path, key_name: str, name: str, made: Made) -> None:
    """The key first: a certificate is used only with its key."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    certificate, key = made
    _put(directory / key_name, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    _put(directory / name, certificate.public_bytes(Encoding.PEM), 0o644)
    sync_directory(directory)


def _put(path: Path, data: bytes, mode: int) -> None:
    """Complete or not at all, and never readable by others in between."""
    number, unfinished = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(number, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(unfinished).chmod(mode)
    Path(unfinished).rename(path)
