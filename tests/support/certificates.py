"""Certificates for tests: a CA, what it has signed for localhost, and another CA that has signed nothing."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.programs import require_program

SLOW_KEY = ("-newkey", "rsa:4096", "-nodes")
"""A signature takes fifty times as long as with the usual one."""
_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Certificates(NamedTuple):
    """Files in PEM."""

    ca: Path
    other_ca: Path
    certificate: Path
    key: Path


def certificates(folder: Path, key: Sequence[str] = _KEY) -> Certificates:
    """New ones, for localhost and 127.0.0.1; `key` says what kind the key of the node is."""
    made = Certificates(*(folder / name for name in ("ca.pem", "other-ca.pem", "node.pem", "node.key")))
    for file in (made.ca, made.other_ca):
        _openssl("req", "-x509", *_KEY, "-subj", f"/CN={file.stem}", "-keyout", _key_of(file), "-out", file)
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"]
    by = ["-CA", str(made.ca), "-CAkey", str(_key_of(made.ca))]
    _openssl("req", "-x509", *key, "-subj", "/CN=node", *by, *names, "-keyout", made.key, "-out", made.certificate)
    return made


def _key_of(certificate: Path) -> Path:
    return certificate.with_name(f"{certificate.stem}-ca.key")


def _openssl(*words: str | Path) -> None:
    command = [require_program("openssl", "openssl"), *map(str, words)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
