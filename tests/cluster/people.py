"""VMs that poll a random node all the time, and operators who schedule, cancel and approve at random nodes."""

import threading
import time
from collections import Counter
from random import Random

from tests.cluster.places import NAMES
from tests.cluster.sightings import Sightings
from tests.cluster.trio import Reply, Trio

EVERY = 0.01
"""Seconds between two polls of a VM."""
POLLERS = 2
"""How many processes of a VM poll."""
_UNSURE = (0, 502, 503)


class People:
    """All of them, each in a thread; `with People(nodes, seed) as people:`."""

    def __init__(self, nodes: Trio, seed: int) -> None:
        self.vms = nodes.place.vms
        self.nodes, self.sightings = nodes, Sightings()
        self.raised: set[str] = set()
        self.done: Counter[str] = Counter()
        self.retries = 0
        self.not_cancelled: list[str] = []
        self.slowest_command = 0.0
        self.problems: list[str] = []
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._guarded, args=(self._poll, Random(f"{seed} {vm} {number}"), vm))
            for vm in self.vms
            for number in range(POLLERS)
        ] + [
            threading.Thread(target=self._guarded, args=(self._operate, Random(f"{seed} operator {vm}"), vm))
            for vm in self.vms
        ]

    def __enter__(self) -> "People":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """Whatever was read or answered so far was right."""
        assert not self.problems, "\n".join(self.problems)
        self.sightings.check()

    def _guarded(self, work: object, random: Random, vm: str) -> None:
        try:
            work(random, vm)  # type: ignore[operator]
        except Exception as error:
            self.problems.append(f"{vm}: {error!r}")

    def _poll(self, random: Random, vm: str) -> None:
        self.nodes.place.enter(vm)
        while not self._ended.wait(EVERY):
            node, floor, begin = random.choice(NAMES), self.sightings.newest(vm), time.monotonic()
            answer = self.nodes.poll(node, self.vms[vm])
            if answer.status == 200:
                self.sightings.saw(vm, node, floor, answer.body)
                self.sightings.slowest = max(self.sightings.slowest, time.monotonic() - begin)
            else:
                self.sightings.missed(answer.status)

    def _operate(self, random: Random, vm: str) -> None:
        self.nodes.place.enter(vm)
        number = 0
        while not self._ended.wait(random.uniform(0.02, 0.2)):
            number += 1
            event = self._schedule(random, vm, f"{vm}-{number}")
            if event:
                self._read_back(random, event)
            if event and random.random() < 0.5:
                self._cancel(random, event, f"{vm}-{number}-cancel")
            elif event:
                self._approve(random, vm, event)

    def _schedule(self, random: Random, vm: str, key: str) -> str:
        """Schedule one event, and ask again with the same key until there is an answer (S6)."""
        body = {"type": random.choice(["Reboot", "Redeploy", "Freeze"]), "resources": [vm]}
        answer = self._until_sure(random, "POST", "/v1/events", body, key)
        if answer is None:
            return ""
        if answer.status != 201:
            self.problems.append(f"{key} was answered with {answer.status}: {answer.body!r}")
            return ""
        if "duenotice-node" not in answer.headers:
            self.problems.append(f"{key}: nobody says which node did it (N09)")
        (event,) = answer.json()["events"]
        self.raised.add(event["id"])
        self.done["scheduled"] += 1
        return str(event["id"])

    def _read_back(self, random: Random, event: str) -> None:
        """At any node: counted only, because a node that cannot reach the others shows operators what it last knew."""
        answer = self.nodes.operate(random.choice(NAMES), "GET", f"/v1/events/{event}")
        self.done[f"read {answer.status}"] += 1

    def _cancel(self, random: Random, event: str, key: str) -> None:
        answer = self._until_sure(random, "POST", f"/v1/events/{event}/cancel", {}, key)
        if answer is not None:
            self.done[f"cancel {answer.status}"] += 1
            if answer.status != 200:  # nobody else cancels it, and it does not start by itself so soon
                self.problems.append(f"{key} was answered with {answer.status}: {answer.body!r}")
                self.not_cancelled.append(event)

    def _approve(self, random: Random, vm: str, event: str) -> None:
        while not self._ended.is_set():
            answer = self.nodes.approve(random.choice(NAMES), self.vms[vm], event)
            if answer.status not in _UNSURE:
                self.done[f"approve {answer.status}"] += 1
                if answer.status not in (200, 400):
                    self.problems.append(f"the approval of {event} was answered with {answer.status}: {answer.body!r}")
                return
            self._ended.wait(0.05)

    def _until_sure(self, random: Random, method: str, target: str, body: object, key: str) -> Reply | None:
        begin = time.monotonic()
        for tries in range(100_000):
            answer = self.nodes.operate(random.choice(NAMES), method, target, body, key)
            if answer.status not in _UNSURE:
                self.retries += tries
                self.slowest_command = max(self.slowest_command, time.monotonic() - begin)
                return answer
            if self._ended.wait(0.05) and tries > 100:
                return None
        return None
