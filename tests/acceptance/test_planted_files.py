"""What somebody else may have put into the data directory is not believed: the start is refused, with what to do."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from duenotice.operator_api.tokens import FILE
from duenotice.system import check_ours
from tests.acceptance.conftest import DEMO
from tests.crash.server import Server
from tests.support.cli import Done, duenotice

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory, of somebody who trusts it."""
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    return made


def start(data: Path) -> Done:
    """Of a service that is expected to refuse it."""
    where = ("--metadata-listen=127.0.0.1:0", "--operator-listen=127.0.0.1:0", "--log-format=none", f"--fleet={DEMO}")
    return duenotice(None, "serve", f"--data-dir={data}", *where)


def token(data: Path, mode: int = 0o600) -> Path:
    """One that somebody knows."""
    file = data / FILE
    file.write_text("dn_this-one-is-known-to-somebody-else")
    file.chmod(mode)
    return file


def _journal(data: Path) -> Path:
    file = data / "journal.db"
    file.touch()
    file.chmod(0o666)
    return file


def _given(file: Path) -> Path:
    os.chown(file, NOBODY, NOBODY)
    return file


def _opened(data: Path, mode: int) -> Path:
    os.chown(data, -1, NOBODY)
    data.chmod(mode)
    return data


PLANTED: dict[str, Callable[[Path], Path]] = {
    "a token that others may write": lambda data: token(data, 0o666),
    "a token that others may read": lambda data: token(data, 0o644),
    "a journal that others may write": _journal,
    "a directory that others may write": lambda data: _opened(data, 0o777),
    "a directory as /tmp": lambda data: _opened(data, 0o1777),
    "a directory that another group may write": lambda data: _opened(data, 0o770),
    "a token of somebody else": lambda data: _given(token(data)),
    "a link of somebody else": lambda data: _link(data),
    "a directory of somebody else": _given,
}


def _link(data: Path) -> Path:
    link = data / FILE
    link.symlink_to(token(data.parent))
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    return link


@needs_root
@pytest.mark.parametrize("what", PLANTED)
def test_the_start_is_refused_and_nothing_is_changed(data: Path, what: str) -> None:
    """One line says what is wrong, and one what to do."""
    planted = PLANTED[what](data)
    before = sorted((path, path.lstat().st_mtime_ns) for path in data.iterdir())
    done = start(data)
    said, hint = done.err.splitlines()
    assert (done.code, said.startswith(f"error: {planted} could be ")) == (2, True), done.err
    assert hint.startswith(" hint: If nobody else has changed anything there: chown it to user 0, chmod ")
    assert sorted((path, path.lstat().st_mtime_ns) for path in data.iterdir()) == before


def test_what_the_service_makes_by_itself_is_not_refused_at_the_next_start(tmp_path: Path) -> None:
    """Whatever mask the user has who starts it."""
    before = os.umask(0)
    try:
        for _ in range(2):
            server = Server(tmp_path / "new", DEMO)
            server.wait_until_serving()
            server.stop()
    finally:
        os.umask(before)


@needs_root
def test_a_volume_as_kubernetes_mounts_it_is_ours(data: Path) -> None:
    """It belongs to root and to our group, which may write to it and to all files in it."""
    token(data, 0o660)
    child = os.fork()
    if not child:
        ended = 1
        try:
            for path in (data, data / FILE):
                os.chown(path, 0, NOBODY)
            data.chmod(0o2770)
            data.parent.chmod(0o755)
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            check_ours(data, FILE)
            ended = 0
        finally:
            os._exit(ended)
    assert os.waitpid(child, 0)[1] == 0
