"""A real kube-apiserver with its etcd on 127.0.0.1, in a folder of the tests, and the programs that talk to it.

There is no scheduler, no controller and no kubelet: tests make objects as these would, and `objects.kubelet` ends pods.
"""

import contextlib
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.programs import require_program, skip_unless_ci
from tests.support.certificates import Certificates, certificates
from tests.support.ports import free_port

PROGRAMS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "duenotice" / "kubernetes" / "bin"
ADMIN = "admins-t0ken"
STARTS_WITHIN = 120.0
MERGE = "application/merge-patch+json"

Process = subprocess.Popen[bytes]


class Answer(NamedTuple):
    """The status and the JSON of an answer."""

    status: int
    said: dict[str, Any]


class ControlPlane:
    """What an administrator does with the API: every verb, with `ok` for those that must succeed."""

    def __init__(self, url: str, pem: Certificates, folder: Path) -> None:
        self.url, self.pem, self.folder = url, pem, folder
        self._trust = ssl.create_default_context(cafile=str(pem.ca))

    def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", token: str = ADMIN
    ) -> Answer:
        """Any status is an answer."""
        head = {"Content-Type": kind, "Authorization": f"Bearer {token}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, head, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._trust) as answer:
                return Answer(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            return Answer(error.code, json.load(error))

    def ok(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> dict[str, Any]:
        """What it says, if it has succeeded."""
        status, said = self.ask(method, path, body, kind)
        assert 200 <= status < 300, (method, path, status, said.get("message"))
        return said

    def token_of(self, account: str) -> Path:
        """A file with a token of that account of kube-system, as a pod finds one."""
        path = f"/api/v1/namespaces/kube-system/serviceaccounts/{account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        file = self.folder / f"{account}.token"
        file.write_text(self.ok("POST", path, asked)["status"]["token"])
        return file

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """The real kubectl as an administrator; fails with what it said."""
        flags = ["--server", self.url, "--certificate-authority", str(self.pem.ca), "--token", ADMIN]
        return run("kubectl", *flags, *words, stdin=stdin, home=self.folder)


def program(name: str) -> str:
    """One of those that `make test-kubernetes` gets first."""
    file = PROGRAMS / name
    return str(file) if file.exists() else skip_unless_ci(f"needs {name}: run tools/kubernetes-programs")


def run(name: str, *words: str, home: Path, stdin: str = "") -> str:
    """Run a program with nothing of this user's settings; what it printed."""
    command = [program(name), *words]
    done = subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=120, check=False, env={"HOME": str(home)}
    )
    assert done.returncode == 0, f"{name} {' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextlib.contextmanager
def control_plane(folder: Path) -> Iterator[ControlPlane]:
    """Both servers, until the tests are over."""
    pem = certificates(folder)
    (folder / "tokens.csv").write_text(f'{ADMIN},admin,1,"system:masters"\n')
    with contextlib.ExitStack() as stack:
        etcd = stack.enter_context(_etcd(folder))
        url, server = stack.enter_context(_apiserver(folder, pem, etcd))
        plane = ControlPlane(url, pem, folder)
        _wait_until_ready(plane, server)
        yield plane


@contextlib.contextmanager
def _etcd(folder: Path) -> Iterator[str]:
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    flags = [f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
    flags += [
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]
    flags += ["--unsafe-no-fsync"]  # nobody needs these data after the tests
    with _process([require_program("etcd", "etcd-server"), *flags], folder / "etcd.log"):
        yield client


@contextlib.contextmanager
def _apiserver(folder: Path, pem: Certificates, etcd: str) -> Iterator[tuple[str, Process]]:
    port = free_port()
    flags = {
        "etcd-servers": etcd,
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": port,
        "cert-dir": folder,
        "tls-cert-file": pem.certificate,
        "tls-private-key-file": pem.key,
        "token-auth-file": folder / "tokens.csv",
        "authorization-mode": "RBAC",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": pem.certificate,
        "service-account-signing-key-file": pem.key,
        "service-cluster-ip-range": "10.0.0.0/24",
        "disable-admission-plugins": "ServiceAccount",  # without controllers no namespace has a default account
    }
    command = [program("kube-apiserver"), *(f"--{name}={value}" for name, value in flags.items())]
    with _process(command, folder / "kube-apiserver.log") as process:
        yield f"https://127.0.0.1:{port}", process


@contextlib.contextmanager
def _process(command: list[str], log: Path) -> Iterator[Process]:
    with log.open("w") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_ready(plane: ControlPlane, server: Process) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    log = plane.folder / "kube-apiserver.log"
    while not _is_ready(plane):
        assert server.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.2)


def _is_ready(plane: ControlPlane) -> bool:
    """Also its own objects must be there: classes of priority, and the namespaces."""
    try:
        wanted = ["/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", "/api/v1/namespaces/kube-system"]
        return all(plane.ask("GET", path).status == 200 for path in wanted)
    except OSError:
        return False
