"""Clients that never rest: VMs poll and approve, operators schedule, restart, approve and cancel."""

import itertools
import random
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from tests.crash.ledger import Ledger
from tests.crash.server import Caller, Gone, Response, Server

FLEET = """
[[vms]]
policy = { all_instances_down = false }
name = "solo"
address = "127.0.1.1"
[[vms]]
policy = { all_instances_down = false }
name = "zonal"
address = "127.0.1.2"
zone = "1"
[[availability_sets]]
policy = { all_instances_down = false }
name = "web"
update_domains = 2
vms = [
  { name = "web-0", address = "127.0.2.1", update_domain = 0 },
  { name = "web-1", address = "127.0.2.2", update_domain = 0 },
  { name = "web-2", address = "127.0.2.3", update_domain = 1 },
]
[[cloud_services]]
name = "shop"
vms = [{ name = "Shop_IN_0", address = "127.0.3.1", update_domain = 0, policy = { all_instances_down = false } }]
[[scale_sets]]
policy = { all_instances_down = false }
name = "batch"
capacity = 2
addresses = "127.0.4.0/24"
update_domains = 1
"""
"""Every owner wants every notice, also while all of its VMs are down (M14)."""
VMS = {
    "solo": ("127.0.1.1", "vm/solo"),
    "zonal": ("127.0.1.2", "vm/zonal"),
    "web-0": ("127.0.2.1", "set/web"),
    "web-1": ("127.0.2.2", "set/web"),
    "web-2": ("127.0.2.3", "set/web"),
    "Shop_IN_0": ("127.0.3.1", "service/shop"),
    "batch_0": ("127.0.4.1", "scale-set/batch/0"),
    "batch_1": ("127.0.4.2", "scale-set/batch/0"),
}
TARGETS = (["solo"], ["zonal"], ["web-0"], ["web-0", "web-1"], ["web-2"], ["Shop_IN_0"], ["batch_0", "batch_1"])
VERSIONS = ("2020-07-01", "2020-07-01", "2017-03-01")
PATH = "/metadata/scheduledevents?api-version="
MOST_WAITING = 40
_HEADER = {"Metadata": "true"}


class Vm:
    """One VM at its own address; used by one thread at a time, so that its polls have an order."""

    def __init__(self, name: str, server: Server, ledger: Ledger) -> None:
        self.name = name
        address, self.scope = VMS[name]
        self._caller = Caller(server.metadata, _HEADER, source=address)
        self._ledger = ledger

    def poll(self, version: str = VERSIONS[0]) -> dict[str, Any] | None:
        answer = self._caller.ask("GET", PATH + version)
        if answer is None or not _fine(answer, self._ledger, 200):
            return None
        document: dict[str, Any] = answer.json()
        self._ledger.read(self.name, self.scope, version, document["DocumentIncarnation"], answer.body)
        return document

    def approve(self, event_id: str) -> None:
        sent = self._ledger.approving(event_id)
        answer = self._caller.ask("POST", PATH + VERSIONS[0], {"StartRequests": [{"EventId": event_id}]})
        if answer is not None and _fine(answer, self._ledger, 200, 400):
            self._ledger.approved(event_id, sent, accepted=answer.status == 200)

    def close(self) -> None:
        self._caller.close()


class Operator:
    """Somebody with the token."""

    _numbers = itertools.count(1)

    def __init__(self, server: Server, ledger: Ledger) -> None:
        self._caller = Caller(server.operator, {"Authorization": f"Bearer {server.token}"})
        self._ledger = ledger

    def schedule(self, kind: str, vms: list[str]) -> None:
        key = f"ask {next(self._numbers)}"
        self._raise(key, "/v1/events", {"type": kind, "resources": vms, "description": key}, 201)

    def restart(self, vm: str) -> None:
        self._raise(f"restart {vm}", f"/v1/vms/{vm}/restart", None, 201, 409)

    def _raise(self, key: str, path: str, body: object, *statuses: int) -> None:
        answer = self._caller.ask("POST", path, body)
        if answer is None:
            self._ledger.raised(key, None)
        elif _fine(answer, self._ledger, *statuses):
            self._ledger.raised(key, answer.json()["events"] if answer.status == 201 else [])

    def approve(self, event_id: str) -> None:
        sent = self._ledger.approving(event_id)
        answer = self._caller.ask("POST", f"/v1/events/{event_id}/approve")
        if answer is not None and _fine(answer, self._ledger, 200, 404):
            self._ledger.approved(event_id, sent, accepted=answer.status == 200)

    def cancel(self, event_id: str) -> None:
        self._ledger.cancelling(event_id)
        answer = self._caller.ask("POST", f"/v1/events/{event_id}/cancel")
        if answer is not None and _fine(answer, self._ledger, 200, 404, 409):
            self._ledger.cancelled(event_id, accepted=answer.status == 200)

    def events(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        cursor: str | None = ""
        while cursor is not None:
            answer = self._caller.ask("GET", f"/v1/events?limit=1000&cursor={cursor}")
            assert answer is not None and answer.status == 200, f"the list of events cannot be read: {answer}"
            page = answer.json()
            listed += page["items"]
            cursor = page["next"]
        return listed

    def close(self) -> None:
        self._caller.close()


class Load:
    """Threads at work until `join`; start it, kill the server, join it."""

    def __init__(self, server: Server, ledger: Ledger, seed: int) -> None:
        self._server, self._ledger = server, ledger
        self._over = threading.Event()
        names = list(VMS)
        work: list[Callable[[random.Random], None]] = [
            lambda chance: self._be_vms(names[::2], chance),
            lambda chance: self._be_vms(names[1::2], chance),
            self._be_operator,
            self._be_operator,
            self._be_operator,
        ]
        chances = [random.Random(seed + number) for number in range(len(work))]
        self._threads = [
            threading.Thread(target=self._guarded, args=(each, chance), daemon=True)
            for each, chance in zip(work, chances, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a client hangs"

    def _guarded(self, work: Callable[[random.Random], None], chance: random.Random) -> None:
        try:
            work(chance)
        except Gone:
            return
        except Exception as error:
            self._ledger.unexpected(f"a client failed: {error!r}")

    def _be_vms(self, names: list[str], chance: random.Random) -> None:
        with ExitStack() as afterwards:
            vms = [afterwards.enter_context(closing(Vm(name, self._server, self._ledger))) for name in names]
            while not self._over.is_set():
                for vm in vms:
                    vm.poll(chance.choice(VERSIONS))
                self._approve_something(chance.choice(vms), chance)

    def _approve_something(self, vm: Vm, chance: random.Random) -> None:
        """Now and then; mostly what is the VM's to approve."""
        live = self._ledger.live("" if chance.random() < 0.1 else vm.scope)
        if live and chance.random() < 0.3:
            vm.approve(chance.choice(live))

    def _be_operator(self, chance: random.Random) -> None:
        operator = Operator(self._server, self._ledger)
        with closing(operator):
            while not self._over.is_set():
                waiting, act = self._ledger.waiting(), chance.random()
                if not waiting or (len(waiting) < MOST_WAITING and act < 0.6):
                    self._raise_something(operator, chance)
                elif act < 0.9:
                    operator.cancel(chance.choice(waiting))
                else:
                    operator.approve(chance.choice(waiting))

    def _raise_something(self, operator: Operator, chance: random.Random) -> None:
        if chance.random() < 0.2:
            operator.restart(chance.choice(list(VMS)))
        else:
            operator.schedule(chance.choice(["Freeze", "Reboot", "Redeploy"]), chance.choice(TARGETS))


def _fine(answer: Response, ledger: Ledger, *statuses: int) -> bool:
    if answer.status not in statuses:
        ledger.unexpected(f"an answer nobody expects: {answer}")
    return answer.status in statuses
