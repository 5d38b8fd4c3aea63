"""Everybody who talks to an emulator over real HTTP: VMs by their source addresses, and an operator."""

import http.client
import json
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from duenotice.client import OperatorClient
from duenotice.testkit.emulator import Emulator

T = TypeVar("T")
ENDING_AT_ONCE = 8
_ENDER = ThreadPoolExecutor(ENDING_AT_ONCE, thread_name_prefix="node-ender")
_ENDING: list["Future[None]"] = []
NEWEST = "2020-07-01"
HEADER = {"Metadata": "true"}
SECONDS = 30


def end_all() -> None:
    """Wait until all nodes that are being stopped have stopped."""
    while _ENDING:
        _ENDING.pop(0).result(SECONDS)


def events_at(version: str = NEWEST) -> str:
    """The target of a request for the document of an api-version."""
    return f"/metadata/scheduledevents?api-version={version}"


def start_requests(*event_ids: str) -> bytes:
    """The body of an approval."""
    return json.dumps({"StartRequests": [{"EventId": event_id} for event_id in event_ids]}).encode()


def unwrapped(answer: Any) -> Any:
    """The list in `{"events": […]}` or in a page that is the only one; anything else as it is."""
    if isinstance(answer, dict) and set(answer) == {"events"}:
        return answer["events"]
    if isinstance(answer, dict) and set(answer) == {"items", "next"} and answer["next"] is None:
        return answer["items"]
    return answer


def wire(*lines: str, body: bytes = b"") -> bytes:
    """The bytes of a request with exactly these lines: nothing is added but line ends and the body."""
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode() + body


def signed_in(address: tuple[str, int], token: str) -> str:
    """The cookie of a browser that has signed in at a console: `name=secret`."""
    connection = http.client.HTTPConnection(*address, timeout=SECONDS)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = _exchange(connection, "POST", "/sign-in", form, urlencode({"token": token}).encode())
    assert answer.status == 303, answer
    return answer.headers["set-cookie"].partition(";")[0]


class Answer(NamedTuple):
    """What came back over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Line:
    """One open connection of a VM: bytes go out as they are, answers come in one after another."""

    def __init__(self, server: tuple[str, int], source: str) -> None:
        self._socket = socket.create_connection(server, SECONDS, (source, 0))
        self._incoming = self._socket.makefile("rb")

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self._incoming.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def answer(self) -> Answer:
        """The next answer; one without Content-Length has no body."""
        status = int(self._incoming.readline().split()[1])
        headers = {name.lower(): value for name, value in http.client.parse_headers(self._incoming).items()}
        return Answer(status, headers, self._incoming.read(int(headers.get("content-length", 0))))

    def fileno(self) -> int:
        """For `select`; only true while no answer is read in part."""
        return self._socket.fileno()

    def is_over(self) -> bool:
        """Whether the server closed the connection with nothing more to say; waits until it does either."""
        return self._incoming.read(1) == b""


class Outside:
    """Everybody who talks to a node: its VMs, which are their source addresses, and its operator."""

    metadata_address: tuple[str, int]
    operator_address: tuple[str, int]
    token: str

    # The VM's side

    def address(self, vm: str) -> str:
        """The source address of a VM; an address stands for itself."""
        return vm

    def ask(
        self, vm: str, method: str, target: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """One request as a VM, on a connection of its own."""
        host, port = self.metadata_address
        source = (self.address(vm), 0)
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS, source_address=source)
        return _exchange(connection, method, target, HEADER if headers is None else headers, body)

    def get(self, vm: str, version: str = NEWEST, headers: dict[str, str] | None = None) -> Answer:
        """GET the document as a VM."""
        return self.ask(vm, "GET", events_at(version), headers)

    def post(self, vm: str, body: bytes, version: str = NEWEST, headers: dict[str, str] | None = None) -> Answer:
        """POST a body as a VM."""
        return self.ask(vm, "POST", events_at(version), headers, body)

    def document(self, vm: str, version: str = NEWEST) -> Any:
        """The document as a VM reads it."""
        answer = self.get(vm, version)
        assert answer.status == 200, answer
        return answer.json()

    def events(self, vm: str, version: str = NEWEST) -> list[Any]:
        """The events a VM is told of."""
        return list(self.document(vm, version)["Events"])

    def event(self, vm: str, version: str = NEWEST) -> Any:
        """The one event a VM is told of."""
        (event,) = self.events(vm, version)
        return event

    def statuses(self, vm: str) -> list[str]:
        """The status of each event a VM is told of."""
        return [event["EventStatus"] for event in self.events(vm)]

    def incarnation(self, vm: str) -> int:
        """The incarnation of the document a VM reads."""
        return int(self.document(vm)["DocumentIncarnation"])

    def enable(self, *vms: str) -> None:
        """Make the first request of these VMs' scopes: from now on somebody listens (F01)."""
        for vm in vms:
            self.document(vm)

    def approve(self, vm: str, *event_ids: str, version: str = NEWEST) -> Answer:
        """POST StartRequests as a VM."""
        return self.post(vm, start_requests(*event_ids), version)

    def connect(self, vm: str) -> Line:
        """An open connection as a VM, for bytes."""
        return Line(self.metadata_address, self.address(vm))

    def raw(self, vm: str, data: bytes) -> Answer:
        """The answer to some bytes, as a VM."""
        with self.connect(vm) as line:
            line.send(data)
            return line.answer()

    # The operator's side: the client that users get, and below it plain HTTP, for tests of the API itself

    def client(self) -> OperatorClient:
        """The operator, who asks once and takes what comes."""
        return OperatorClient("http://{}:{}".format(*self.operator_address), self.token, timeout=SECONDS, budget=0)

    def operator(self, method: str, path: str, body: Any = None) -> Answer:
        """One call of the operator's API; the body is JSON, or bytes as they are."""
        host, port = self.operator_address
        connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
        payload = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        return _exchange(connection, method, path, {"Authorization": f"Bearer {self.token}"}, payload)

    def operate(self, path: str, body: Any = None, method: str = "POST") -> Any:
        """A call that must succeed; its JSON, or the list in it if it is only the wrapping of one."""
        answer = self.operator(method, path, body)
        assert 200 <= answer.status < 300, answer
        return unwrapped(answer.json()) if answer.body else None

    def steps(self, plan_id: str) -> list[Any]:
        """The steps of a maintenance."""
        return list(self.operate(f"/v1/maintenances/{plan_id}/steps?limit=1000", method="GET"))

    def schedule(self, event_type: str, *vms: str, **more: Any) -> str:
        """Schedule an event; its id."""
        return str(self.operate("/v1/events", {"type": event_type, "resources": vms, **more})[0]["id"])

    def cookie(self, token: str = "") -> str:
        """What a browser sends that has signed in at the console."""
        return signed_in(self.operator_address, token or self.token)

    def refusal(self, path: str, body: Any = None, method: str = "POST") -> tuple[int, str]:
        """A call that must be refused: its status and the reason given."""
        answer = self.operator(method, path, body)
        assert answer.status >= 400, answer
        return answer.status, answer.json()["title"]

    def now(self) -> datetime:
        """What time it is on the node's clock."""
        with self.client() as client:
            return client.clock().now

    def apply(self, fleet: str) -> None:
        """Apply this fleet."""
        with self.client() as client:
            client.apply_fleet(fleet)

    def advance(self, by: str) -> None:
        """Let time pass."""
        with self.client() as client:
            client.advance_clock(by)


def one_emulator(**settings: Any) -> Sequence[Emulator]:
    """A service of one node."""
    return (Emulator(**settings),)


class Node(Outside):
    """`with Node(fleet_toml) as node:` — the `Emulator` that users get, with an operator and with VMs.

    `tests.support.three_nodes` makes it a service of several nodes; then each request goes to a random one.
    """

    make_emulators: Callable[..., Sequence[Emulator]] = staticmethod(one_emulator)
    chance = Random()

    def __init__(self, fleet: str | Path = "", *, data_dir: str = ":memory:", **settings: Any) -> None:
        """`fleet` is the text of a fleet file, or the path of one; other settings as in ServeSettings."""
        self._fleet_text = fleet if isinstance(fleet, str) else ""
        self._stays = data_dir != ":memory:"
        values: dict[str, Any] = {"operator_listen": "127.0.0.1:0", "allow_faults": False, "data_dir": data_dir}
        values["fleet"] = str(fleet) if isinstance(fleet, Path) else ""
        self.emulators = self.make_emulators(**(values | settings))
        self.emulator = self.emulators[0]

    def __enter__(self) -> "Node":
        while _ENDING and (_ENDING[0].done() or len(_ENDING) > ENDING_AT_ONCE):
            _ENDING.pop(0).result(SECONDS)
        with ExitStack() as started:
            for emulator in self.emulators:
                started.enter_context(emulator)
            self._running = started.pop_all()
        self.service = self.emulator.service
        self.token = self.emulators[-1].service.token
        if self._fleet_text:
            self.apply(self._fleet_text)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ending = _ENDER.submit(self._running.close)
        if self._stays:
            ending.result(SECONDS)
        else:
            _ENDING.append(ending)  # nobody comes after it, so the next test need not wait for its sockets to close

    @property
    def metadata_address(self) -> tuple[str, int]:  # type: ignore[override]
        """Where VMs ask: of several nodes, any one."""
        return self.chance.choice(self.emulators).service.metadata_address

    @property
    def operator_address(self) -> tuple[str, int]:  # type: ignore[override]
        """Where the operator asks: of several nodes, any one."""
        return self.chance.choice(self.emulators).service.operator_address

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the node's own loop."""
        return self.emulator.run(work)

    def address(self, vm: str) -> str:
        """The source address of a VM by its name; an address stands for itself."""
        known = self.service.publisher.state.fleet.vms.get(vm)
        return vm if known is None else known.address


def _exchange(
    connection: http.client.HTTPConnection, method: str, target: str, headers: dict[str, str], body: bytes | None
) -> Answer:
    try:
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()
