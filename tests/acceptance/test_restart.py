"""Restarts, new fleet files and signals.

What they may change, and what they may not.
"""

import json
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from duenotice.clock import MICROS
from duenotice.errors import Conflict, Misconfigured
from duenotice.store.sqlite import SqliteJournal
from tests.acceptance.conftest import DEMO
from tests.acceptance.test_C_approval import ON_H1, SHARED, approve_own, shared_maintenance
from tests.support.node import Node, Outside

TWO = """
[[hosts]]
name = "host-1"

[[hosts]]
name = "host-2"

[[vms]]
name = "a"
address = "127.0.1.1"
host = "host-1"

[[vms]]
name = "b"
address = "127.0.1.2"
host = "host-2"
"""
ANOTHER = """
[[vms]]
name = "c"
address = "127.0.1.3"
host = "host-2"
"""
WITHOUT_B, WITH_C = TWO[: TWO.rindex("[[vms]]")], TWO + ANOTHER


def restarted(data_dir: Path, fleet: Path = DEMO) -> Node:
    """The next process on the same data directory."""
    return Node(fleet, data_dir=str(data_dir))


def hit_by_failure_of(node: Node, host: str) -> set[str]:
    """The VMs that run on a host, as its failure shows."""
    return {vm for event in node.operate(f"/v1/hosts/{host}/fail") for vm in event["resources"]}


# Stop and start


def test_every_document_is_the_same_after_a_restart(tmp_path: Path):
    """Scheduled, Started and gone: after a restart each VM reads the same bytes as before."""
    vms = ("web-0", "db-0", "db-1", "me")
    with restarted(tmp_path) as node:
        node.enable(*vms)
        node.schedule("Reboot", "web-0")
        node.approve("db-0", node.schedule("Redeploy", "db-0"))
        node.operate(f"/v1/events/{node.schedule('Freeze', 'db-1')}/cancel")
        before = [node.get(vm).body for vm in vms]
    with restarted(tmp_path) as node:
        assert [node.get(vm).body for vm in vms] == before
        assert [node.incarnation(vm) for vm in vms] == [1, 2, 2, 0]


def test_events_go_on_in_their_time_after_a_restart(tmp_path: Path):
    """An event waits out the rest of its notice, starts and ends as if nothing had happened, and counts on."""
    with restarted(tmp_path) as node:
        node.enable("me")
        event_id = node.schedule("Reboot", "me")
        node.advance("10m")
    with restarted(tmp_path) as node:
        node.advance("4m59s")
        assert node.statuses("me") == ["Scheduled"]
        node.advance("1s")
        assert (node.event("me")["EventId"], node.statuses("me")) == (event_id, ["Started"])
    with restarted(tmp_path) as node:
        node.advance("9m59s")
        assert node.statuses("me") == ["Started"]
        node.advance("1s")
        assert node.document("me") == {"DocumentIncarnation": 3, "Events": []}


def test_the_manual_clock_goes_on_from_where_it_was(tmp_path: Path):
    """A manual clock stands still while the service is down."""
    with restarted(tmp_path) as node:
        node.advance("3d")
        before = node.now()
    with restarted(tmp_path) as node:
        assert node.now() == before
        node.advance("1h")
        assert node.now() == before + timedelta(hours=1)


def test_a_speed_that_was_set_is_kept_until_another_is_asked_for(tmp_path: Path):
    """The flag of every start is the same; one that differs means what it says."""
    data_dir = str(tmp_path)
    with Node(data_dir=data_dir, clock="60x") as node:
        node.operate("/v1/clock/speed", {"speed": "600x"})
    with Node(data_dir=data_dir, clock="60x") as node:
        assert node.operate("/v1/clock", method="GET")["clock"] == "600x"
        assert node.service.engine.policy.commit_allowance == 600 * MICROS
    with Node(data_dir=data_dir, clock="30x") as node:
        assert node.operate("/v1/clock", method="GET")["clock"] == "30x"


def test_an_approval_survives(tmp_path: Path):
    """An approved event that is held back starts in its turn after a restart."""
    with restarted(tmp_path) as node:
        node.enable("web-0")
        node.approve("web-0", node.schedule("Reboot", "web-0"))
        node.approve("web-0", node.schedule("Reboot", "web-1"))
        assert node.statuses("web-0") == ["Started", "Scheduled"]
    with restarted(tmp_path) as node:
        node.advance("10m")
        assert [(event["Resources"], event["EventStatus"]) for event in node.events("web-0")] == [
            (["web-1"], "Started")
        ]


def test_who_listens_is_remembered(tmp_path: Path):
    """Scopes that were on stay on, those that were off stay off, and the 24 hours begin again."""
    with restarted(tmp_path) as node:
        node.enable("me")
        node.advance("23h")
    with restarted(tmp_path) as node:
        node.advance("23h")
        assert node.operate("/v1/vms/db-0/restart") == []
        assert len(node.operate("/v1/vms/me/restart")) == 1


def test_an_evicted_vm_does_not_come_back(tmp_path: Path):
    """A VM that is gone stays gone as long as the fleet file is the same."""
    with restarted(tmp_path) as node:
        node.operate("/v1/vms/render-0/evict")
        node.advance("30s")
        assert node.get("127.0.1.20").status == 404
    with restarted(tmp_path) as node:
        assert node.get("127.0.1.20").status == 404
        assert node.get("127.0.1.10").status == 200


def test_a_vm_that_moved_stays_on_its_new_host(tmp_path: Path):
    """A redeployed VM is where it went, after a restart and after a new fleet file that says nothing else of it."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(TWO)
    with restarted(tmp_path / "data", fleet) as node:
        node.operate("/v1/vms/a/redeploy")
    fleet.write_text(WITH_C)
    with restarted(tmp_path / "data", fleet) as node:
        assert hit_by_failure_of(node, "host-1") == set()
        assert hit_by_failure_of(node, "host-2") == {"a", "b", "c"}


def test_a_second_node_on_the_same_data_is_refused(tmp_path: Path):
    """A data directory belongs to one process at a time; the refusal says so, and the first goes on."""
    with restarted(tmp_path) as first:
        with pytest.raises(Conflict, match=f"the data directory {tmp_path} is in use by process "), restarted(tmp_path):
            pass
        assert first.get("me").status == 200


# Another fleet


@pytest.mark.parametrize("restarts", [False, True], ids=["running", "restarted"])
def test_a_changed_fleet_adds_and_removes_vms_and_keeps_events(tmp_path: Path, restarts: bool):
    """Whether applied to a running node or at a restart: VMs come and go, and what the others read stays."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(TWO)
    node = restarted(tmp_path / "data", fleet)
    with node:
        node.enable("a")
        node.schedule("Reboot", "a")
        before = node.get("127.0.1.1").body
        if not restarts:
            node.apply(WITHOUT_B + ANOTHER)
            assert fleet_now(node) == [before, 404, 200]
            return
    fleet.write_text(WITHOUT_B + ANOTHER)
    with restarted(tmp_path / "data", fleet) as node:
        assert fleet_now(node) == [before, 404, 200]


def fleet_now(node: Node) -> list[Any]:
    """What a reads, and whether b and c are there."""
    return [node.get("127.0.1.1").body, *(node.get(address).status for address in ("127.0.1.2", "127.0.1.3"))]


def test_a_changed_fleet_keeps_every_event_of_a_group(node: Node):
    """A set that grows keeps its document, and the newcomer reads it too."""
    grown = DEMO.read_text().replace(
        '  { name = "web-4",', '  { name = "web-5", address = "127.0.2.6", update_domain = 0 },\n  { name = "web-4",'
    )
    node.enable("web-0")
    node.schedule("Reboot", "web-0")
    before = node.get("web-0").body
    node.apply(grown)
    assert [node.get(vm).body for vm in ("web-0", "web-5")] == [before, before]


def test_an_address_may_pass_to_another_vm(node: Node):
    """The new VM behind an address does not read the document of the old one."""
    node.apply(TWO)
    node.enable("a")
    node.schedule("Reboot", "a")
    node.apply(TWO.replace('name = "a"', 'name = "z"'))
    assert node.document("127.0.1.1") == {"DocumentIncarnation": 0, "Events": []}


# The real process


def serve(data_dir: Path, fleet: Path) -> list[str]:
    """The command line of a server on free ports and a manual clock."""
    command = [sys.executable, "-m", "duenotice", "serve", "--clock", "manual", "--log-format", "json"]
    options = ["--fleet", str(fleet), "--data-dir", str(data_dir)]
    return [*command, *options, "--metadata-listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0"]


class Served(Outside):
    """`duenotice serve` as a process of its own."""

    def __init__(self, data_dir: Path, fleet: Path) -> None:
        self.process = subprocess.Popen(
            serve(data_dir, fleet), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        self._data_dir = data_dir

    def __enter__(self) -> "Served":
        line = self.logged("serving")
        self.metadata_address, self.operator_address = _address(line["metadata"]), _address(line["operator"])
        self.token = (self._data_dir / "admin.token").read_text().strip()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def logged(self, action: str) -> Any:
        """The next log line with this action; waits for it."""
        assert self.process.stderr is not None
        for text in self.process.stderr:
            line = json.loads(text)
            if line.get("action") == action:
                return line
        raise AssertionError(f"ended without logging {action}")

    def stop(self) -> int:
        """End it with SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


def _address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def test_sigterm_leaves_a_snapshot_and_the_next_process_goes_on(tmp_path: Path):
    """SIGTERM ends the process with 0, everything is in its snapshot, and the next one shows the same bytes."""
    data_dir = tmp_path / "data"
    with Served(data_dir, DEMO) as served:
        served.enable("127.0.0.1")
        served.schedule("Reboot", "me")
        served.advance("5m")
        before, then = served.get("127.0.0.1").body, served.now()
        assert served.stop() == 0
    journal = SqliteJournal(data_dir)
    try:
        snapshot = journal.snapshot()
        assert snapshot is not None
        assert list(journal.read(after=snapshot.position)) == []
        assert [event.resources for event in snapshot.events] == [("me",)]
    finally:
        journal.close()
    with Served(data_dir, DEMO) as served:
        assert (served.get("127.0.0.1").body, served.now()) == (before, then)


def test_sighup_rereads_the_fleet(tmp_path: Path):
    """SIGHUP applies the changed fleet file; one that is wrong is refused and changes nothing."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(TWO)
    with Served(tmp_path / "data", fleet) as served:
        assert served.get("127.0.1.3").status == 404
        fleet.write_text(WITH_C)
        served.process.send_signal(signal.SIGHUP)
        assert served.logged("fleet-reread")["vms"] == 3
        assert served.get("127.0.1.3").status == 200
        fleet.write_text("nonsense")
        served.process.send_signal(signal.SIGHUP)
        assert "not TOML" in served.logged("fleet-refused")["error"]
        assert served.get("127.0.1.3").status == 200


def test_no_file_brings_back_what_operators_have_removed(tmp_path: Path):
    """Neither a restart with an old file, nor SIGHUP; the log says which stay away, and what brings them back (S31)."""
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(WITH_C)
    with Served(tmp_path / "data", fleet) as served:
        with served.client() as client:
            client.delete_vm("b")
        for text in (f"# a remark\n{WITH_C}", TWO, WITH_C):
            fleet.write_text(text)
            served.process.send_signal(signal.SIGHUP)
            served.logged("fleet-reread")
            assert [served.get(f"127.0.1.{number}").status for number in (1, 2)] == [200, 404]
        fleet.write_text(WITHOUT_B + ANOTHER)
        served.process.send_signal(signal.SIGHUP)
        served.logged("fleet-reread")
        fleet.write_text(WITH_C)
        served.process.send_signal(signal.SIGHUP)
        told = served.logged("fleet-file-not-followed")
        assert told["message"].endswith("it stays so: vm/b")
        assert "duenotice fleet apply" in told["hint"]
    fleet.write_text(f"# older\n{WITH_C}")
    with Served(tmp_path / "data", fleet) as served:
        assert [served.get(f"127.0.1.{number}").status for number in (1, 2, 3)] == [200, 404, 200]
        served.apply(WITH_C)
        assert served.get("127.0.1.2").status == 200


def test_a_second_process_on_the_same_data_says_why_it_ends(tmp_path: Path):
    """The second `duenotice serve` ends with one line of what is wrong and one of what to do."""
    with Served(tmp_path, DEMO) as first:
        second = subprocess.run(serve(tmp_path, DEMO), capture_output=True, text=True, timeout=30)
        assert (second.returncode, second.stderr) == (
            4,
            f"error: the data directory {tmp_path} is in use by process {first.process.pid}\n"
            " hint: Stop that process, or give this one a data directory of its own.\n",
        )
        assert first.get("127.0.0.1").status == 200


def test_an_older_journal_put_in_place_shows_no_number_twice(tmp_path: Path) -> None:
    """S3: after a restore by the book, a VM never meets an incarnation it has seen with other content."""
    data_dir, copy = tmp_path / "data", tmp_path / "copy.db"
    with Node(DEMO, data_dir=str(data_dir)) as node:
        node.events("me")
        node.schedule("Freeze", "me")
    copy.write_bytes((data_dir / "journal.db").read_bytes())
    with Node(DEMO, data_dir=str(data_dir)) as node:
        node.schedule("Reboot", "me")
        seen = node.document("me")["DocumentIncarnation"]
        nobody_before = node.document("db-0")["DocumentIncarnation"]
    (data_dir / "journal.db").write_bytes(copy.read_bytes())
    (data_dir / "journal.lock").unlink()
    with Node(DEMO, data_dir=str(data_dir)) as node:
        assert node.document("me")["DocumentIncarnation"] > seen
        assert node.document("db-0")["DocumentIncarnation"] > nobody_before
        assert [event["EventType"] for event in node.events("me")] == ["Freeze"]


def put_in_place(copy: bytes, data_dir: Path) -> None:
    """Restore by the book."""
    (data_dir / "journal.db").write_bytes(copy)
    (data_dir / "journal.lock").unlink(missing_ok=True)


def test_a_start_that_fails_after_a_restore_is_made_good_by_the_next(tmp_path: Path) -> None:
    """S3: the process that first opens a restored journal may end before it has done anything about it."""
    data_dir = tmp_path / "data"
    with Node(DEMO, data_dir=str(data_dir)) as node:
        node.events("me")
    copy = (data_dir / "journal.db").read_bytes()
    with Node(DEMO, data_dir=str(data_dir)) as node:
        node.schedule("Reboot", "me")
        seen = node.document("me")["DocumentIncarnation"]
    put_in_place(copy, data_dir)
    SqliteJournal(data_dir).close()
    with Node(DEMO, data_dir=str(data_dir)) as node:
        assert node.document("me")["DocumentIncarnation"] > seen


def test_the_same_copy_can_be_put_in_place_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4: what the first life after a restore has shown is not shown again with other content by the second."""
    data_dir = tmp_path / "data"
    with Node(DEMO, data_dir=str(data_dir)) as node:
        node.events("me")
    copy, seen = (data_dir / "journal.db").read_bytes(), []
    for seconds in (200_000_000, 200_000_060):
        monkeypatch.setattr("duenotice.engine.engine.seconds_since_2020", lambda now=seconds: now)
        put_in_place(copy, data_dir)
        with Node(DEMO, data_dir=str(data_dir)) as node:
            for _ in range(3):
                node.schedule("Reboot", "me")
                seen.append(node.document("me")["DocumentIncarnation"])
    assert seen == sorted(set(seen))


def test_an_empty_token_file_opens_no_door(tmp_path: Path) -> None:
    """A token file that was cut short is refused instead of letting everybody in."""
    data_dir = tmp_path / "data"
    with Node(DEMO, data_dir=str(data_dir)):
        pass
    (data_dir / "admin.token").write_text("")
    with pytest.raises(Misconfigured, match="holds no token"), Node(DEMO, data_dir=str(data_dir)):
        pass


def test_an_empty_fleet_file_does_not_take_every_vm_away(node: Node) -> None:
    """A file that was cut short is refused, and nothing changes."""
    answer = node.operator("PUT", "/v1/fleet", b"# nothing here\n")
    assert answer.status == 422
    assert node.events("me") == []


# C07


def test_C07_it_is_the_same_after_a_kill(tmp_path: Path) -> None:
    """Who has approved and who is awaited is in the journal: a process that finds what a kill left goes on with it."""
    left = tmp_path / "left"
    with Node(SHARED, data_dir=str(tmp_path / "data")) as node:
        plan = shared_maintenance(node)
        approve_own(node, "a")
        shutil.copytree(tmp_path / "data", left)  # all that was answered is on the disk (S5)
    with Node(data_dir=str(left)) as node:
        assert node.operate(f"/v1/maintenances/{plan['id']}", method="GET")["awaited"] == ["set/web", "vm/b"]
        assert node.statuses("a") == ["Scheduled"]
        for vm in ("b", "web-0"):
            approve_own(node, vm)
        assert [node.statuses(each) for each in ON_H1] == [["Started"]] * 3
