"""The VMs of the world: each machine has a client that asks for its document, some well-behaved and some not.

They only know what they were answered. What they send and get is seen by the observatory and by `approvals`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from simulator.network import is_whole
from simulator.shape import KEYS

if TYPE_CHECKING:
    from simulator.world import World

VERSIONS = tuple(KEYS)
NEWEST = VERSIONS[-1]
PATH = b"/metadata/scheduledevents"
UNKNOWN = "FFFFFFFF-0000-4000-8000-000000000000"
FAILURES = (OSError, TimeoutError)


@lru_cache(maxsize=1000)
def poll(version: str = NEWEST, query: str = "", known: int = -1) -> bytes:
    """The bytes of a poll; `known` is the incarnation that need not be sent again."""
    target = f"{PATH.decode()}?api-version={version}{query}"
    etag = f'If-None-Match: "{known}"\r\n' if known >= 0 else ""
    return f"GET {target} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n{etag}\r\n".encode()


def approval(*event_ids: str, version: str = NEWEST) -> bytes:
    """The bytes of an approval."""
    body = json.dumps({"StartRequests": [{"EventId": event_id} for event_id in event_ids]})
    head = f"POST {PATH.decode()}?api-version={version} HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata: true\r\n"
    return f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


class Client:
    """One machine: it polls every so often and now and then does something about what it reads."""

    def __init__(self, world: "World", address: str) -> None:
        self.world, self.address = world, address
        self.dice = dice = world.dice(f"client/{address}")
        self.every = dice.choices((1.0, 5.0, 10.0, 30.0), (1, 3, 10, 26))[0] * dice.uniform(0.8, 1.2)
        self.way = dice.choices(list(WAYS), [weight for weight, _ in WAYS.values()])[0]
        self.version = NEWEST
        self.approves = dice.random() * 0.6
        self.events: list[dict[str, Any]] = []
        self.incarnation = -1
        self.document = b""
        self._decided: set[str] = set()
        self._answers_late: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """From now on the machine is there."""
        self._task = self.world.loop.create_task(self._run(), name=self.address)

    async def _run(self) -> None:
        await asyncio.sleep(self.dice.uniform(0, 30))
        act = WAYS[self.way][1]
        while True:
            try:
                await act(self)
            except FAILURES as error:
                self.world.say(self.address, f"no answer: {error}")
            await asyncio.sleep(self.every * self.dice.uniform(0.9, 1.1))

    async def ask(self, data: bytes, timeout: float = 5.0, *, alone: bool = False) -> tuple[int, bytes]:
        """Send some bytes to any node; the status and the body of the answer. 0: it is not an answer."""
        node = self.world.any_door(self.dice)
        answer = await self.world.network.request(self.address, node, data, timeout, alone=alone)
        head, _, body = answer.partition(b"\r\n\r\n")
        if not is_whole(answer) or not head.startswith(b"HTTP/1.1 "):
            return 0, b""
        return int(head[9:12]), body

    async def look(self, wait: int = 0) -> None:
        """Poll, and take note of what is read; `wait`: only when there is news, or after so many seconds."""
        data = poll(self.version, f"&wait={wait}", self.incarnation) if wait else poll(self.version)
        status, body = await self.ask(data, wait + 5.0)
        if status == 200 and body and body != self.document:
            document = json.loads(body)
            self.document, self.events = body, document["Events"]
            self.incarnation = document["DocumentIncarnation"]
            self.world.say(self.address, f"reads {self.incarnation}: {_told(self.events)}")

    def undecided(self) -> list[str]:
        """Events that it has not yet thought about."""
        ids = [event["EventId"] for event in self.events if event["EventStatus"] == "Scheduled"]
        new = [event_id for event_id in ids if event_id not in self._decided]
        self._decided.update(new)
        return [event_id for event_id in new if self.dice.random() < self.approves]

    async def approve(self, *event_ids: str) -> int:
        """Approve, and remember what came of it."""
        # In a version that there is: a refusal of any other says nothing of the event, and looks different (S16).
        data = approval(*event_ids, version=self.version if self.version in VERSIONS else NEWEST)
        try:
            status, body = await self.ask(data)
        except FAILURES:
            status, body = 0, b""
        self.world.say(self.address, f"approves {', '.join(each[:8] for each in event_ids)}: {status or 'no answer'}")
        self.world.judge.approved(self.address, event_ids, status, body)
        return status


async def behave(client: Client) -> None:
    """Poll, and approve some events after a while."""
    await client.look()
    for event_id in client.undecided():
        await asyncio.sleep(client.dice.uniform(0, 60))
        if await client.approve(event_id) == 0:
            await client.approve(event_id)


async def wait_long(client: Client) -> None:
    """Ask to be answered when there is news."""
    await client.look(client.dice.randint(1, 50))
    for event_id in client.undecided():
        await client.approve(event_id)


async def use_every_version(client: Client) -> None:
    """Ask in all api-versions, also in some that there never were."""
    client.version = client.dice.choice((*VERSIONS, "2021-13-01", "1999-01-01", ""))
    await client.look()


async def approve_twice(client: Client) -> None:
    """Approve each event twice at once, and both together."""
    await client.look()
    for event_id in client.undecided():
        both = [client.approve(event_id), client.approve(event_id), client.approve(event_id, event_id)]
        await asyncio.gather(*both)


async def approve_foreign(client: Client) -> None:
    """Approve what others were told, and what never was."""
    await client.look()
    others = sorted(client.world.observatory.live)
    chosen = client.dice.choice(others) if others and client.dice.random() < 0.7 else UNKNOWN
    if client.dice.random() < 0.2:
        await client.approve(chosen)


async def send_garbage(client: Client) -> None:
    """Send what is not HTTP, or nearly, and poll between.

    Garbage has connections of its own. Half a request that is left in a connection would spoil the next request there,
    for example an approval.
    """
    if client.dice.random() < 0.5:
        await client.look()
        return
    data = client.dice.choice(_GARBAGE)
    noise = client.dice.randbytes(client.dice.randrange(1, 200))
    with_noise = data + noise if client.dice.random() < 0.5 else data
    await client.ask(with_noise, timeout=12.0, alone=True)


async def say_nothing(client: Client) -> None:
    """Nobody is there."""


_GARBAGE = (
    b"\x00\xff\r\n\r\n",
    b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /metadata/scheduledevents HTTP/1.1\r\nHost: a\r\nMetadata: true\r\n\r\n",
    b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\nContent-Length: 2\r\n\r\n[}",
    b"GET /metadata/instance?api-version=2020-07-01 HTTP/1.1\r\nHost: a\r\nMetadata: true\r\n\r\n",
    b"DELETE /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: a\r\nMetadata: true\r\n\r\n",
    b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: true\r\nX-Forwarded-For: b\r\n\r\n",
    b"GET /metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nMetadata: tr",
)

Way = Callable[[Client], Awaitable[None]]
WAYS: dict[str, tuple[float, Way]] = {
    "behaves": (6.0, behave),
    "waits": (1.5, wait_long),
    "uses every version": (1.0, use_every_version),
    "approves twice": (1.0, approve_twice),
    "approves foreign": (0.7, approve_foreign),
    "sends garbage": (0.5, send_garbage),
    "says nothing": (0.7, say_nothing),
}
"""How clients behave, and how many of them do."""


def _told(events: list[dict[str, Any]]) -> str:
    return ", ".join(f"{e['EventId'][:8]} {e['EventType']} {e['EventStatus']}" for e in events) or "no events"
