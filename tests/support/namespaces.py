"""Machines made of network namespaces, and the real server inside one; nothing of them outlives the test process."""

import contextlib
import ctypes
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar, cast

from tests.programs import require_program, skip_unless_ci
from tests.support.node import unwrapped

T = TypeVar("T")
METADATA_ADDRESS = "169.254.169.254"
OPERATOR_ADDRESS = ("127.0.0.1", 16926)
SECONDS = 30
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
_CLONE_NEWNET = 0x40000000


class Machine:
    """`with Machine("alpha") as alpha:` — a network and a host name of its own; programs inside see no other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._ip = require_program("ip", "iproute2")
        self._nsenter = require_program("nsenter", "util-linux")
        self._setpriv = require_program("setpriv", "util-linux")
        unshare = require_program("unshare", "util-linux")
        # `cat` keeps the namespaces alive and ends when our end of the pipe is gone, even if we are killed.
        keep = [unshare, "--net", "--uts", "cat"]
        self._keeper = subprocess.Popen(keep, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._keeper.stdin and self._keeper.stdout

    def __enter__(self) -> "Machine":
        try:
            self._wait_until_made()
            self.run("hostname", self.name)
            self.ip("link set lo up")
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def run(self, *command: str, **environment: str) -> str:
        """Run a program in here that must succeed; what it printed."""
        done = subprocess.run(
            self.command(*command), env=ENVIRONMENT | environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, f"{self.name}: {command} exited with {done.returncode}: {done.stderr}{done.stdout}"
        return done.stdout

    @contextlib.contextmanager
    def running(self, *command: str, log: Path) -> Iterator[subprocess.Popen[str]]:
        """A program that runs in here meanwhile; its standard output is a pipe, its standard error the log."""
        whole = self.command(self._setpriv, "--pdeathsig", "KILL", *command)  # it dies with us, even if we are killed
        with (
            log.open("w") as errors,
            subprocess.Popen(whole, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()
                _end(process)

    def ip(self, arguments: str) -> None:
        """Configure the network of this machine."""
        self.run(self._ip, *arguments.split())

    def call(self, work: Callable[[], T]) -> T:
        """Call a function of ours in here; a socket it returns stays in here."""
        with ThreadPoolExecutor(1, initializer=self.enter_thread) as thread:
            return thread.submit(work).result()

    def connect(self, interface: str, peer: "Machine", peer_interface: str) -> None:
        """Plug a cable between an interface here and one of the peer's, both up."""
        mine, other = str(self._keeper.pid), str(peer._keeper.pid)
        peer_end = ["peer", "name", peer_interface, "netns", other]
        command = [self._ip, "link", "add", "name", interface, "netns", mine, "type", "veth", *peer_end]
        subprocess.run(command, check=True, timeout=SECONDS)
        self.ip(f"link set {interface} up")
        peer.ip(f"link set {peer_interface} up")

    def command(self, *command: str) -> list[str]:
        """What runs a program in here."""
        return [self._nsenter, f"--target={self._keeper.pid}", "--net", "--uts", "--", *command]

    def enter_thread(self) -> None:
        """Only the calling thread moves; sockets it makes from now on belong to this machine."""
        with Path(f"/proc/{self._keeper.pid}/ns/net").open() as namespace:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def _wait_until_made(self) -> None:
        # An echo from `cat` means that unshare has done its work and become `cat`.
        keeper_in, keeper_out = cast(IO[bytes], self._keeper.stdin), cast(IO[bytes], self._keeper.stdout)
        with contextlib.suppress(BrokenPipeError):
            keeper_in.write(b"made\n")
            keeper_in.flush()
        if keeper_out.readline() != b"made\n":
            skip_unless_ci("needs to be root and allowed to make network namespaces")

    def _close(self) -> None:
        # The pipe's buffer may still hold what a failed `unshare` never read.
        with contextlib.suppress(BrokenPipeError):
            self._keeper.communicate(timeout=SECONDS)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


class Server:
    """The real server in a machine, on the address and port that the documents give; its clock is manual."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine = machine
        self._token = (folder / "data" / "admin.token").read_text().strip()

    def operate(self, path: str, body: Any = None, method: str = "POST") -> Any:
        """A call of the operator's API that must succeed; its JSON."""
        return self._machine.call(lambda: self._operate(path, body, method))

    def _operate(self, path: str, body: Any, method: str) -> Any:
        headers = {"Authorization": f"Bearer {self._token}"}
        connection = http.client.HTTPConnection(*OPERATOR_ADDRESS, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
        assert 200 <= answer.status < 300, text
        return unwrapped(json.loads(text)) if text else None


@contextlib.contextmanager
def serving(machine: Machine, fleet: str, folder: Path, *more: str) -> Iterator[Server]:
    """Run `duenotice serve` in a machine until the block ends, which it must do cleanly."""
    (folder / "fleet.toml").write_text(fleet)
    machine.ip(f"address add {METADATA_ADDRESS}/32 dev lo")
    program = str(Path(sys.executable).with_name("duenotice"))
    # Clients here look again at once where they would wait for seconds: do not throttle them for that.
    flags = f"--metadata-listen {METADATA_ADDRESS}:80 --clock manual --throttle 1000"
    places = f"--fleet {folder}/fleet.toml --data-dir {folder}/data"
    with machine.running(
        program, "serve", *flags.split(), *places.split(), *more, log=folder / "server.log"
    ) as process:
        assert process.stdout
        # The first line comes when both doors are open; none comes when the server has died.
        assert process.stdout.readline(), (folder / "server.log").read_text()
        yield Server(machine, folder)
    assert process.returncode == 0, (folder / "server.log").read_text()


def plug_in(vm: Machine, address: str, server: Machine) -> None:
    """A cable from a VM's eth0 to the server, with a route each way and nothing else."""
    vm.connect("eth0", server, vm.name)
    vm.ip(f"address add {address}/32 dev eth0")
    vm.ip(f"route add {METADATA_ADDRESS} dev eth0")
    server.ip(f"route add {address} dev {vm.name}")
