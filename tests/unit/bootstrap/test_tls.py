"""TLS of the operator's port: files that cannot be used are refused at start, and new ones are taken while it runs."""

import shutil
import ssl
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from duenotice.bootstrap.ports import operator_tls, trust_of
from duenotice.client import OperatorClient
from duenotice.errors import Misconfigured
from duenotice.settings import ServeSettings
from tests.support.certificates import Certificates, certificates
from tests.support.node import Node


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """One set for all tests of this file."""
    return certificates(tmp_path_factory.mktemp("certificates"))


def refused(**settings: Any) -> str:
    with pytest.raises(Misconfigured) as caught:
        operator_tls(ServeSettings(**settings))
    assert caught.value.hint
    return caught.value.message


def test_a_certificate_and_its_key_come_together(made: Certificates) -> None:
    assert refused(operator_cert_file=str(made.certificate)).startswith("operator_key_file is not set")
    assert refused(operator_key_file=str(made.key)).startswith("operator_cert_file is not set")
    assert operator_tls(ServeSettings()) is None


def test_files_that_cannot_be_used_are_named(made: Certificates, tmp_path: Path) -> None:
    """And why: not there, not PEM, a key of another certificate."""
    (tmp_path / "empty").touch()
    given = {"operator_cert_file": str(made.certificate), "operator_key_file": str(made.key)}
    for key, file, why in (
        ("operator_cert_file", "/nowhere", "No such file or directory"),
        ("operator_key_file", str(tmp_path / "empty"), "a file is not PEM"),
        (
            "operator_key_file",
            str(made.other_ca.with_name("other-ca-ca.key")),
            "the key does not belong to the certificate",
        ),
    ):
        message = refused(**{**given, key: file})
        assert (file in message, message.endswith(f"{why}.")) == (True, True), message


def test_other_nodes_must_be_told_the_right_scheme(made: Certificates) -> None:
    given: Any = {"operator_cert_file": str(made.certificate), "operator_key_file": str(made.key)}
    assert "speaks TLS" in refused(**given, node_url="http://a.example")
    assert operator_tls(ServeSettings(**given, node_url="https://a.example")) is not None


def test_a_file_without_a_ca_is_refused(made: Certificates, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for file, why in (("/nowhere", "No such file or directory"), (str(tmp_path / "empty"), "it has no certificate")):
        with pytest.raises(Misconfigured, match=why):
            trust_of(ServeSettings(node_ca_file=file))


def test_the_operators_port_speaks_tls_and_takes_a_new_certificate(made: Certificates, tmp_path: Path) -> None:
    """A client that trusts another CA does not get in; a bad file changes nothing, a good one counts at once."""
    mine = certificates(tmp_path)
    given: Any = {"operator_cert_file": str(mine.certificate), "operator_key_file": str(mine.key)}
    with Node(**given) as node:
        url = "https://{}:{}".format(*node.operator_address)

        def is_trusted(ca: Path) -> bool:
            context = ssl.create_default_context(cafile=str(ca))
            with OperatorClient(url, node.token, budget=0, tls=context) as client:
                try:
                    return client.me().role == "admin"
                except Exception as error:
                    assert "certificate" in str(error), error
                    return False

        assert [is_trusted(ca) for ca in (mine.ca, mine.other_ca, made.ca)] == [True, False, False]
        shutil.copy(made.certificate, mine.certificate)
        with capture_logs() as lines:
            node.run(node.service.reread())
        assert [line["action"] for line in lines if line["log_level"] == "error"] == ["certificate-refused"]
        assert [is_trusted(ca) for ca in (mine.ca, made.ca)] == [True, False]
        shutil.copy(made.key, mine.key)
        node.run(node.service.reread())
        assert [is_trusted(ca) for ca in (mine.ca, made.ca)] == [False, True]
