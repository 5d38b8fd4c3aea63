"""The certificates of the Azure door: made once, renewed in time, and never half (M01)."""

import ssl
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from duenotice.azure_api import certificates
from duenotice.azure_api.certificates import CA_FILE, CA_KEY_FILE, LEAF_FILE, LEAF_KEY_FILE, context_of, given, own
from duenotice.clock import wall
from duenotice.errors import Misconfigured


def leaf(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / LEAF_FILE).read_bytes())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_they_are_made_once_and_only_the_owner_reads_the_keys(tmp_path: Path) -> None:
    """The next start uses the same ones."""
    context_of(own(tmp_path, ["localhost", "127.0.0.1"]))
    made = contents(tmp_path)
    own(tmp_path, ["localhost", "127.0.0.1"])
    assert contents(tmp_path) == made
    assert set(made) == {CA_FILE, CA_KEY_FILE, LEAF_FILE, LEAF_KEY_FILE}
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in (CA_KEY_FILE, LEAF_KEY_FILE)} == {0o600}


def test_the_leaf_is_for_all_names_and_addresses(tmp_path: Path) -> None:
    """A name that is added later gets a new leaf of the same CA."""
    own(tmp_path, ["localhost"])
    before = contents(tmp_path)
    own(tmp_path, ["localhost", "fleet.example", "192.0.2.1", "::1"])
    names = leaf(tmp_path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fleet.example", "localhost"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["192.0.2.1", "::1"]
    assert (tmp_path / CA_FILE).read_bytes() == before[CA_FILE]


@pytest.mark.parametrize(("later", "changes"), [(334, {LEAF_FILE, LEAF_KEY_FILE}), (3400, None)])
def test_they_are_renewed_before_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int, changes: set[str] | None
) -> None:
    """The leaf in its last month; the CA before a leaf would outlive it."""
    own(tmp_path, ["localhost"])
    before = contents(tmp_path)
    real = wall()
    monkeypatch.setattr(certificates, "wall", lambda: real + timedelta(days=later - 2))
    own(tmp_path, ["localhost"])
    assert (contents(tmp_path) == before) == (later == 334)
    monkeypatch.setattr(certificates, "wall", lambda: real + timedelta(days=later + 2))
    own(tmp_path, ["localhost"])
    after = contents(tmp_path)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == (changes or set(after))


def test_a_crash_between_the_two_files_leaves_nothing_that_does_not_fit(tmp_path: Path) -> None:
    """A key without its certificate is made again."""
    own(tmp_path, ["localhost"])
    other = tmp_path / "other"
    own(other, ["localhost"])
    (tmp_path / LEAF_KEY_FILE).write_bytes((other / LEAF_KEY_FILE).read_bytes())
    assert isinstance(context_of(own(tmp_path, ["localhost"])), ssl.SSLContext)


def test_what_is_damaged_is_told(tmp_path: Path) -> None:
    """With the file to remove."""
    own(tmp_path, ["localhost"])
    (tmp_path / CA_KEY_FILE).write_text("no key")
    with pytest.raises(Misconfigured, match="cannot use the certificates") as refused:
        own(tmp_path, ["localhost"])
    assert CA_FILE in refused.value.hint


def test_a_certificate_can_be_brought(tmp_path: Path) -> None:
    """A pair that does not fit, or is not there, is refused at the start."""
    made = own(tmp_path, ["localhost"])
    assert isinstance(context_of(given(str(made.certificate), str(made.key))), ssl.SSLContext)
    for certificate, key in [(made.certificate, tmp_path / CA_KEY_FILE), (tmp_path / "none", made.key)]:
        with pytest.raises(Misconfigured, match="azure_cert_file and azure_key_file are not valid"):
            given(str(certificate), str(key))


def test_without_the_package_it_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, with another way out."""
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(Misconfigured, match="needs the package cryptography") as refused:
        own(tmp_path, ["localhost"])
    assert "duenotice[azure]" in refused.value.hint
