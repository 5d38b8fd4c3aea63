"""Everything that decides what runs as root is root's (S33): programs, scripts, files with addresses and secrets."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from duenotice.agent.config import load_config
from duenotice.agent.handlers.base import HandlerFailed
from duenotice.agent.handlers.loading import load, problems
from duenotice.agent.handlers.trust import Distrusted, distrust, read_trusted
from duenotice.errors import Misconfigured
from tests.handlers.contexts import prepare, recover, script
from tests.support.receiver import Receiver

NOBODY = 65534
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root obeys others by mistake")
Spoil = Callable[[Path], object]
WAYS: dict[str, Spoil] = {
    "written by others": lambda path: path.chmod(0o666),
    "belongs to user 65534": lambda path: os.chown(path, NOBODY, 0),
    "conf can be written by others": lambda path: path.parent.chmod(0o777),
}


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A folder for files that decide something."""
    (tmp_path / "conf").mkdir(mode=0o755)
    return tmp_path / "conf"


@pytest.mark.parametrize("why", WAYS)
@pytest.mark.parametrize("form", ["{}", "--file={}"])
def test_a_script_that_an_interpreter_is_given_must_be_roots(conf: Path, why: str, form: str):
    """`/bin/sh` is root's, and so is what it runs: else nothing runs, and `agent check` says so before."""
    said = conf / "said"
    given = conf / "drain.sh"
    given.write_text(f"touch {said}\n")
    argv = ["/usr/bin/env", "-S", "sh", form.format(given)]
    assert problems(load("it", "command", {"prepare": argv})) == []
    WAYS[why](given)
    assert why in problems(load("it", "command", {"prepare": argv}))[0]
    with pytest.raises(HandlerFailed, match=why) as caught:
        prepare("command", {}, prepare=argv)
    assert "chown root" in caught.value.hint and not said.exists()


def test_an_interpreter_that_a_script_names_must_be_roots(conf: Path):
    """Root's script with somebody's Python is somebody's script."""
    python = conf / "python"
    python.symlink_to(sys.executable)
    hook = script(conf / "hook", f"#!{python}\n")
    prepare("command", {}, prepare=[hook])
    os.lchown(python, NOBODY, 0)
    with pytest.raises(HandlerFailed, match=r"conf/python belongs to user 65534"):
        prepare("command", {}, prepare=[hook])
    assert "conf/python belongs" in (distrust(["/bin/sh", hook]) or "")


@pytest.mark.parametrize("why", WAYS)
def test_an_address_in_a_file_must_be_roots(conf: Path, why: str):
    """Who may write it could have root tell them all; nothing is sent."""
    address = conf / "url"
    with Receiver(200) as chat:
        address.write_text(f"{chat.url}\n")
        notes: dict[str, object] = {}
        prepare("webhook", notes, url_file=str(address))
        assert len(chat.received) == 1
        WAYS[why](address)
        assert why in problems(load("it", "webhook", {"url_file": str(address)}))[0]
        with pytest.raises(HandlerFailed, match=why):
            recover("webhook", notes, url_file=str(address))
        assert len(chat.received) == 1


@pytest.mark.parametrize("why", WAYS)
@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("webhook", {"url": "https://chat/", "ca_file": "{}"}),
        ("webhook", {"url": "https://chat/", "secret_headers": {"X-Key": "{}"}}),
        ("patroni", {"username": "agent", "password_file": "{}"}),
        ("patroni", {"ca_file": "{}"}),
        ("kubernetes", {"token_file": "{}"}),
        ("kubernetes", {"ca_file": "{}"}),
        ("kubernetes", {"certificate_file": "{}", "key_file": "{}"}),
    ],
)
def test_secrets_and_certificates_must_be_roots(conf: Path, why: str, kind: str, keys: dict[str, object]):
    """`agent check` and the start of the agent find them."""
    file = conf / "secret"
    file.write_text("secret\n")
    named = {key: str(file) if value == "{}" else value for key, value in keys.items()}
    named = {key: {"X-Key": str(file)} if key == "secret_headers" else value for key, value in named.items()}
    assert problems(load("it", kind, named)) == []
    WAYS[why](file)
    assert why in problems(load("it", kind, named))[0]


@pytest.mark.parametrize("why", WAYS)
def test_the_configuration_must_be_roots(conf: Path, why: str):
    """It names what runs; one that others could have written is not read, and the error says what to do."""
    file = conf / "agent.toml"
    file.write_text("[[rules]]\nhandlers = []\n")
    assert load_config(file).rules
    WAYS[why](file)
    with pytest.raises(Misconfigured, match=why) as caught:
        load_config(file)
    assert "chown root" in caught.value.hint


SWAP = """
import os
while True:
    for name in ("good", "evil"):
        os.rename(name, "here")
        os.rename("here", name)
"""


def test_what_was_checked_is_what_is_read(tmp_path: Path):
    """While somebody renames folders, a read gives root's text or an error, and never the other one."""
    for name, mode in (("good", 0o755), ("evil", 0o777)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        (tmp_path / name).chmod(mode)
    read = set()
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", SWAP], cwd=tmp_path) as swapping:
        try:
            for _ in range(5000):
                try:
                    read.add(read_trusted(tmp_path / "here" / "file"))
                except Distrusted:
                    read.add(b"distrusted")
                except FileNotFoundError:
                    continue
        finally:
            swapping.kill()
    assert read == {b"good", b"distrusted"}
