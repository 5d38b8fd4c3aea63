"""Short scripts for situations that worlds from dice seldom come into; each breaks nothing while our sources are right.

python -m simulator.scenes            # all of them
python -m simulator.scenes NAME       # one, with all that happens; --seed N: as `make soak` has played it
"""

import argparse
import asyncio
import sys
from contextlib import suppress

from msgspec import Raw

from duenotice.domain.records import EventRaised, Record
from duenotice.engine.members import News
from duenotice.errors import Conflict, DuenoticeError
from duenotice.follower.replica import Replica
from duenotice.store.codec import RECORDS
from duenotice.wire.replication import LogRecord
from simulator.stage import ALONE, LEFT, OTHER, RIGHT, Scene, Script, Stage, play

NOTICE = 900.0
"""Seconds before a Reboot."""
IMPACT = 600.0
"""Seconds that a simulated maintenance takes."""
DAY = 86_400.0
SCENES: dict[str, Scene] = {}


def scene(script: Script) -> Script:
    """Add a scene."""
    SCENES[script.__name__.replace("_", "-")] = Scene(script)
    return script


def scene_of_three(script: Script) -> Script:
    """Add a scene with three nodes."""
    SCENES[script.__name__.replace("_", "-")] = Scene(script, nodes=3)
    return script


def scene_with_webhook(script: Script) -> Script:
    """Add a scene in which a webhook carries out impacts."""
    SCENES[script.__name__.replace("_", "-")] = Scene(script, driver="webhook")
    return script


@scene
async def the_wall_clock_is_set_ahead(stage: Stage) -> None:
    """S1: notice is steady time; a time of day that jumps ahead makes nothing start."""
    await stage.listen(ALONE)
    await stage.schedule("alone")
    await stage.pass_by(NOTICE / 3, ALONE)
    stage.set_wall(7200)
    await stage.pass_by(NOTICE, ALONE)


@scene
async def the_wall_clock_is_set_ahead_before_a_restart(stage: Stage) -> None:
    """S1: the same, when the new process has to find out how much notice is left."""
    await stage.listen(ALONE)
    await stage.schedule("alone")
    await stage.pass_by(NOTICE / 3, ALONE)
    stage.set_wall(7200)
    await stage.restart_well()
    await stage.pass_by(NOTICE, ALONE)


@scene
async def the_wall_clock_is_set_back(stage: Stage) -> None:
    """S1: nothing starts before its time of day, though its notice is over."""
    await stage.listen(ALONE)
    await stage.schedule("alone")
    stage.set_wall(-600)
    await stage.pass_by(NOTICE + 700, ALONE)


@scene
async def the_wall_clock_is_set_back_before_a_restart(stage: Stage) -> None:
    """S2: a `NotBefore` that was told never moves earlier, also if less of the day has to pass now."""
    await stage.listen(ALONE)
    event = await stage.schedule("alone")
    before = await stage.told(ALONE, event)
    stage.set_wall(-3600)
    await stage.restart_well(30.0)
    stage.expect(await stage.told(ALONE, event) >= before, f"S2: NotBefore of {event} has moved earlier")


@scene
async def the_time_of_day_is_wrong_while_a_window_is_near(stage: Stage) -> None:
    """S34: VMs keep what they were told of for it, and it is not given up."""
    await stage.listen(ALONE)
    plan = await stage.maintain("alone", 600, 4200)
    event = await stage.only_event(ALONE)
    await stage.wrong_for_a_moment(2 * DAY)
    stage.expect(bool(await stage.sees(ALONE, event)), f"S34: {event} is taken back by a clock that was wrong for 5 s")
    await stage.pass_by(NOTICE + IMPACT + 60, ALONE)
    status = await stage.status_of(plan)
    stage.expect(status == "done", f"S34: a clock was wrong for 5 s, and a plan with a window is {status}")


@scene
async def the_time_of_day_is_wrong_before_the_only_window(stage: Stage) -> None:
    """S34: the plan is not paused for good, though its window seemed to be over."""
    await stage.listen(ALONE)
    plan = await stage.maintain("alone", 7200, 10_800)
    await stage.wrong_for_a_moment(2 * DAY)
    await stage.pass_by(7200 + IMPACT + 60, ALONE)
    status = await stage.status_of(plan)
    stage.expect(status == "done", f"S34: a clock was wrong for 5 s, and a plan before its window is {status}")


@scene
async def the_time_of_day_is_wrong_when_an_event_goes(stage: Stage) -> None:
    """S34: those that went before it are not forgotten by that, so an approval of one is still only late (C03)."""
    await stage.listen(ALONE, OTHER)
    first, second = await stage.schedule("alone"), await stage.schedule("other")
    await stage.cancel(first)
    stage.set_wall(2 * DAY)
    await stage.cancel(second)
    stage.set_wall(-2 * DAY)
    status = await stage.clients[ALONE].approve(first)
    stage.expect(status == 200, f"S34: {first} went a moment ago, and its approval is answered {status}")


@scene
async def nobody_answers_for_minutes(stage: Stage) -> None:
    """S25: an absence is no notice, and documents say so."""
    await stage.listen(ALONE)
    event = await stage.schedule("alone")
    before = await stage.told(ALONE, event)
    await stage.pass_by(60, ALONE)
    stage.kill(stage.node, 300.0)
    await stage.until_up()
    await asyncio.sleep(3.0)
    later = await stage.told(ALONE, event) - before
    stage.expect(later >= 295, f"S25: nobody could read for 300 s, and NotBefore of {event} is only {later} s later")
    await stage.pass_by(NOTICE, ALONE)


@scene
async def a_backup_from_before_the_first_poll_is_restored(stage: Stage) -> None:
    """S3: what the copy does not know goes on above all that was ever read."""
    stage.disk.back_up()
    await stage.listen(ALONE, OTHER)
    for vm in ("alone", "other"):
        await stage.cancel(await stage.schedule(vm))
    await stage.listen(ALONE, OTHER)
    await stage.restore(5.0)
    await stage.until_up()
    await stage.listen(ALONE)
    await stage.cancel(await stage.schedule("alone"))
    await stage.listen(ALONE)
    await stage.restart_well()  # with a snapshot, and before the other VM has asked again
    await stage.listen(ALONE, OTHER)


@scene
async def a_vm_is_removed_and_comes_back(stage: Stage) -> None:
    """S3: it reads nothing older than before, alone or in a set."""
    await stage.listen()
    for _ in range(3):
        await stage.cancel(await stage.schedule("alone"))
    await stage.listen()
    vm = stage.fleet.vms.pop(0)
    await stage.apply()
    await stage.pass_by(60, OTHER)
    stage.fleet.vms.append(vm)
    await stage.apply()
    await stage.listen()
    await stage.schedule("alone", kind="Freeze")
    await stage.listen()


@scene
async def a_vm_moves_into_a_set(stage: Stage) -> None:
    """S3, S4: the set goes on above what the newcomer has read, and all of it reads the same."""
    await stage.listen()
    for _ in range(4):
        await stage.cancel(await stage.schedule("alone"))
    await stage.schedule("left")
    await stage.listen()
    vm = stage.fleet.vms.pop(0)
    vm.update_domain = 1
    stage.fleet.sets[0].vms.append(vm)
    await stage.apply()
    await stage.listen()
    vm.update_domain = None
    stage.fleet.sets[0].vms.remove(vm)
    stage.fleet.vms.append(vm)
    await stage.apply()
    await stage.listen()


@scene
async def a_vm_leaves_before_it_could_listen(stage: Stage) -> None:
    """S24: the page of a VM that could not be answered goes with the VM."""
    stage.disk.is_full = True
    await stage.listen(OTHER)
    stage.disk.is_full = False
    stage.fleet.vms.pop()
    await stage.apply()
    await stage.listen(ALONE)


@scene
async def several_events_and_a_restart(stage: Stage) -> None:
    """S4: the same incarnation has the same bytes, also when it comes out of a snapshot."""
    await stage.listen()
    for _ in range(3):
        event = await stage.schedule("left", kind="Freeze")
        await stage.clients[LEFT].approve(event)
    await asyncio.sleep(2.0)
    await stage.listen()
    await stage.restart_well()  # all have started, so nothing is postponed
    await stage.listen()


@scene
async def two_update_domains_are_due_together(stage: Stage) -> None:
    """S11: the second one waits until the first is over."""
    await stage.listen()
    await stage.schedule("left")
    await stage.schedule("right")
    await stage.pass_by(NOTICE + 2 * IMPACT + 60, LEFT, RIGHT)


@scene
async def an_approved_event_waits_over_a_restart(stage: Stage) -> None:
    """S5, S17: an approval is kept while another update domain is hit; then the event starts, before its time."""
    await stage.listen()
    first, second = await stage.schedule("left"), await stage.schedule("right")
    await stage.clients[LEFT].approve(first)
    await asyncio.sleep(2.0)
    await stage.clients[RIGHT].approve(second)
    await stage.restart_well()
    await stage.pass_by(IMPACT + 10, LEFT)
    seen = await stage.sees(RIGHT, second)
    is_waiting = seen.get("EventStatus") == "Scheduled"
    stage.expect(not is_waiting, f"S5: {second} was approved before a restart, and does not start when it may: {seen}")


@scene
async def an_event_across_update_domains_is_asked_for(stage: Stage) -> None:
    """S10: it is refused."""
    await stage.listen()
    await stage.schedule("left", "right")
    await stage.schedule("alone", "other")
    await stage.listen()


@scene
async def the_disk_is_full_for_a_moment(stage: Stage) -> None:
    """S6: what could not be stored leaves nothing behind, and what comes after it is whole."""
    await stage.listen()
    stage.disk.is_full = True
    asking = stage.begin(stage.schedule("alone"))
    await asyncio.sleep(1.0)
    stage.disk.is_full = False
    await stage.schedule("other")
    await asyncio.wait([asking])
    await stage.listen()


@scene_with_webhook
async def the_disk_is_full_when_an_impact_ends(stage: Stage) -> None:
    """Liveness: what the driver reports is stored as soon as that is possible, and then the event is over."""
    await stage.listen(ALONE)
    event = await stage.schedule("alone")
    await stage.clients[ALONE].approve(event)
    while event not in stage.outside.asked:  # noqa: ASYNC110 - made-up time passes at once
        await asyncio.sleep(0.1)
    stage.disk.is_full = True
    await asyncio.sleep(stage.dice("full").uniform(10, 60))
    stage.disk.is_full = False
    await asyncio.sleep(60.0)
    seen = await stage.sees(ALONE, event)
    stage.expect(not seen, f"liveness: {event} was carried out while the disk was full, and is not over since: {seen}")


@scene
async def nothing_but_a_due_event(stage: Stage) -> None:
    """Liveness: what is due starts within a second, also if nobody asks for anything."""
    await stage.listen(ALONE)
    for _ in range(3):
        event = await stage.schedule("alone", kind="Redeploy")
        left = await stage.told(ALONE, event) - stage.node.machine.wall().timestamp()
        await asyncio.sleep(left + 1.1)
        seen = await stage.sees(ALONE, event)
        stage.expect(seen.get("EventStatus") != "Scheduled", f"liveness: {event} is due and has not started: {seen}")
        await stage.pass_by(IMPACT + stage.dice("wait").uniform(10, 70))


@scene
async def a_noisy_vm_beside_a_quiet_one(stage: Stage) -> None:
    """S24, doors: who asks too often is refused, and nobody else."""
    await stage.listen(OTHER)
    noisy = [(await stage.poll(ALONE))[0] for _ in range(60)]
    stage.expect(429 in noisy, f"S24: sixty polls at once are answered {sorted(set(noisy))}")
    status, _ = await stage.poll(OTHER)
    stage.expect(status == 200, f"S24: a quiet VM is answered {status}, because another one is noisy")


@scene
async def a_foreign_event_that_is_gone_is_approved(stage: Stage) -> None:
    """S16: it looks like one that never was."""
    await stage.listen()
    event = await stage.schedule("alone")
    await stage.listen()
    await stage.cancel(event)
    foreign = await stage.clients[OTHER].approve(event)
    unknown = await stage.clients[OTHER].approve("FFFFFFFF-0000-4000-8000-000000000000")
    stage.expect(foreign == unknown, f"S16: a foreign event is answered {foreign}, an unknown one {unknown}")


@scene
async def an_own_and_a_foreign_event_are_approved_together(stage: Stage) -> None:
    """S6: it is refused, and the own one is not approved either."""
    await stage.listen()
    own, foreign = await stage.schedule("alone"), await stage.schedule("other")
    status = await stage.clients[ALONE].approve(own, foreign)
    await asyncio.sleep(2.0)
    seen = await stage.sees(ALONE, own)
    is_refused = 400 <= status < 500 and seen.get("EventStatus") == "Scheduled"
    stage.expect(is_refused, f"S6: an own and a foreign event are approved together: {status}, then {seen}")


@scene
async def a_vm_is_deleted(stage: Stage) -> None:
    """G04: once it is over, nobody answers the VM any more."""
    await stage.listen(ALONE)
    event = await stage.schedule("alone", kind="Terminate")
    await stage.clients[ALONE].approve(event)
    await stage.pass_by(120)
    status, document = await stage.poll(ALONE)
    stage.expect(status != 200, f"S7: a VM that was deleted is answered {status} {document}")


@scene_of_three
async def a_commit_of_the_last_leader_comes_late(stage: Stage) -> None:
    """S21: it was sent while that node led, and arrives when another one does: it is refused."""
    await stage.listen()
    leader = await stage.some_leader()
    stage.store.holds_next = True
    stage.begin(stage.schedule("alone"))
    while stage.store.late is None:  # noqa: ASYNC110 - made-up time passes at once
        await asyncio.sleep(0.001)
    stage.network.cut |= {("operator", name) for name in stage.names}  # nobody asks again before that
    late, epoch = stage.store.late, stage.store.look().head.epoch

    def arrive(_: News) -> None:
        if stage.store.late is not None and stage.store.look().head.epoch > epoch:
            stage.store.late = None  # another node leads from this moment on, and has written nothing yet
            with suppress(DuenoticeError):
                late()
                stage.expect(False, f"S21: {leader.name} no longer leads, and what it has sent is stored")

    stage.store.listen(arrive)
    stage.pause(leader, 4 * stage.shape.lease)
    await asyncio.sleep(4 * stage.shape.lease)
    stage.expect(stage.store.late is None, "liveness: nobody leads in place of a node that stands still")
    stage.network.cut.clear()


@scene
async def a_follower_misses_a_record(stage: Stage) -> None:
    """S27: it notices, or it shows what its node shows."""
    await stage.listen()
    service = stage.node.service
    assert service is not None
    replica, told = Replica("a", await service.engine.snapshot()), list[Record]()
    replica.showed()
    service.engine.on_commit.append(told.extend)
    for vm in ("left", "alone", "left"):
        await stage.schedule(vm)
    missed = next(number for number, record in enumerate(told) if isinstance(record.transition, EventRaised))
    rows = [RECORDS.pack(record) for number, record in enumerate(told) if number != missed]
    try:
        replica.take([LogRecord(row.position, row.format, row.crc, Raw(row.payload)) for row in rows])
    except Conflict:
        return
    state, _ = replica.newest(service.state)
    same = all(state.document(scope) == service.state.document(scope) for scope in service.state.scopes)
    stage.expect(same, f"S27: a follower at record {replica.position} shows another document than its node")


def main(words: list[str] | None = None) -> int:
    """Run what the command line names, or all; 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*SCENES, []], metavar="NAME", help="which; all without it")
    parser.add_argument("--seed", type=int, default=1, help="its dice")
    asked, wrong = parser.parse_args(words), 0
    for name in asked.names or SCENES:
        broken, seconds = play(asked.seed, SCENES[name], trace=bool(asked.names))
        print(f"{name:54} {seconds:8.0f} s  {'; '.join(broken) or 'fine'}", flush=True)
        wrong += bool(broken)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
