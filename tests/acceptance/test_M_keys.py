"""Access tokens are signed with keys that are nowhere but in a file of their own; they rotate (M02)."""

import base64
import hashlib
import hmac
import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from os import kill
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duenotice.azure_api.sign_in import TENANT, AccessClaims, issue, seconds_since_1970
from duenotice.azure_api.signing_keys import FILE, KeyRing, SigningKey
from duenotice.domain.token import Token
from duenotice.engine.engine import load
from duenotice.store.sqlite import SqliteJournal
from tests.acceptance.conftest import DEMO
from tests.support.azure import SUBSCRIPTION, Azure
from tests.support.cli import duenotice
from tests.support.ports import free_port
from tests.support.served import Served, wait_until

PLACE = f"/subscriptions/{SUBSCRIPTION}"


@contextmanager
def served(folder: Path, **more: Any) -> Iterator[tuple[Served, Azure]]:
    """A real process with this data directory, and its admin at the Azure door."""
    listen = f"127.0.0.1:{free_port()}"
    with (
        Served(folder, DEMO, azure_listen=listen, **more) as node,
        Azure.at(f"https://{listen}", str(folder / "azure-ca.pem"), node.token) as azure,
    ):
        yield node, azure


def status(azure: Azure, access: str) -> int:
    """What somebody with this access token gets."""
    return azure.ask("GET", PLACE, signed_in=False, Authorization=f"Bearer {access}").status


def ring_of(folder: Path) -> KeyRing:
    """The keys of a data directory."""
    return msgspec.json.decode((folder / FILE).read_bytes(), type=KeyRing)


def tokens_in(folder: Path) -> list[Token]:
    """What a copy of the journal says of tokens: all but the secrets themselves."""
    journal = SqliteJournal(folder)
    try:
        return list(load(journal).tokens.values())
    finally:
        journal.close()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_M02_a_copy_of_the_journal_is_not_enough_to_make_an_access_token(tmp_path: Path) -> None:
    """Not by the digests in it, not by a service that is started with the copy; with the keys it would be."""
    stolen, elsewhere = tmp_path / "stolen", tmp_path / "elsewhere"
    with served(tmp_path / "data") as (_, azure):
        assert status(azure, azure.access()) == 200
    for folder in (stolen, elsewhere):
        folder.mkdir()
        shutil.copy(tmp_path / "data" / "journal.db", folder)
    (admin,) = tokens_in(stolen)
    now = seconds_since_1970()
    claims = AccessClaims("", "", TENANT, admin.id, admin.id, admin.id, ("admin",), now, now, now + 3600)
    (key,) = ring_of(tmp_path / "data").keys
    heads = [json.dumps({"kid": kid}).encode() for kid in (key.id, admin.id, "")]
    said = [f"{_text(head)}.{_text(msgspec.json.encode(claims))}" for head in heads]
    secrets = (admin.digest.encode(), bytes.fromhex(admin.digest), b"", key.id.encode())
    forged = [
        f"{text}.{_text(hmac.digest(secret, (before + text).encode(), hashlib.sha256))}"
        for text in said
        for secret in secrets
        for before in ("", f"{admin.digest}.")
    ]
    forged.append(issue(SigningKey(key.id, bytes(32), now), admin, TENANT, "", "", now))
    with served(elsewhere):
        (own,) = ring_of(elsewhere).keys
    forged.append(issue(own, admin, TENANT, "", "", now))
    with served(tmp_path / "data") as (_, azure):
        assert {status(azure, access) for access in forged} == {401}
        assert status(azure, issue(key, admin, TENANT, "", "", now)) == 200
    assert own.secret != key.secret


def test_M02_the_keys_are_in_their_file_and_nowhere_else(tmp_path: Path) -> None:
    """Not in the journal, its snapshot, its notes or the log, in no spelling; and only its owner reads that file."""
    folder = tmp_path / "data"
    with served(folder) as (node, azure):
        azure.get(PLACE)
        node.enable("me")
        log = node.server.log().encode()
        during = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != FILE}
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != FILE}
    (key,) = ring_of(folder).keys
    spellings = [key.secret, base64.b64encode(key.secret).rstrip(b"="), _text(key.secret).encode()]
    spellings += [key.secret.hex().encode(), key.secret.hex().upper().encode()]
    assert "journal.db" in during
    assert not any(it in found for found in (log, *during.values(), *after.values()) for it in spellings)
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600


def test_M02_an_access_token_survives_a_restart_and_a_rotation_but_not_one_at_once(tmp_path: Path) -> None:
    """SIGHUP makes the service look at once; by itself it looks each minute."""
    folder = tmp_path / "data"
    with served(folder) as (_, azure):
        first = azure.access()
    with served(folder) as (node, azure):
        assert status(azure, first) == 200
        assert duenotice(None, "azure", "rotate-key", "--data-dir", str(folder)).code == 0
        kill(node.server.pid, signal.SIGHUP)
        assert len(ring_of(folder).keys) == 2
        assert status(azure, first) == 200
        done = duenotice(None, "azure", "rotate-key", "--at-once", DUENOTICE_DATA_DIR=str(folder))
        assert (done.code, "no other does" in done.err) == (0, True)
        kill(node.server.pid, signal.SIGHUP)
        wait_until(lambda: status(azure, first) == 401)
        assert status(azure, azure.access()) == 200


@pytest.mark.parametrize(
    ("where", "code", "saying"), [("nowhere", 3, "There is no azure-tokens.key"), ("data", 2, "mode 0644")]
)
def test_M02_keys_that_are_not_there_or_not_ours_alone_are_told(
    tmp_path: Path, where: str, code: int, saying: str
) -> None:
    """One line of what happened and one of what to do; nothing is made and nothing changed."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / FILE).touch(0o644)
    done = duenotice(None, "azure", "rotate-key", "--data-dir", str(tmp_path / where))
    assert (done.code, saying in done.err, "hint: " in done.err) == (code, True, True), done
    assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "data" / FILE).read_bytes() == b""


def test_M02_a_service_does_not_start_with_keys_that_others_can_read(tmp_path: Path) -> None:
    """Somebody may have put them there, or has read them."""
    folder = tmp_path / "data"
    with served(folder):
        pass
    (folder / FILE).chmod(0o604)
    ports = [f"--{port}-listen=127.0.0.1:0" for port in ("metadata", "operator", "azure")]
    done = duenotice(None, "serve", "--fleet", str(DEMO), "--data-dir", str(folder), *ports)
    said = "error: " in done.err and f"{FILE}" in done.err and "mode 0604" in done.err
    assert (done.code, said, "hint: " in done.err) == (2, True, True), done
