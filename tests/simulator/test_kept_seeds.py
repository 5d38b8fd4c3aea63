"""What worlds have found stays found: the shortest histories that once broke a promise, action by action.

They name their actions, not only their seed: what a seed draws changes when the table of faults grows.
"""

from typing import Any, NamedTuple

import pytest

from simulator.faults import Action
from simulator.runs import lived, run
from simulator.tiers import short_world, world
from simulator.world import Shape


class Kept(NamedTuple):
    """A history, and what it once broke."""

    broke: str
    seed: int
    shape: Shape
    actions: tuple[tuple[int, float, str], ...]


KEPT = [
    Kept(
        "S2: the call that lets all nodes show an event took a part of its notice",
        5001,
        Shape(nodes=3, vms=10, seconds=330.0, actions=36, lease=60.0, agents=3),
        (
            (1, 56.18216728326655, "fleet-applied"),
            (2, 87.8497866407133, "store-fails-over"),
            (7, 254.04177268819396, "store-answer-lost"),
            (8, 260.53161844998885, "user-operation"),
            (9, 308.56229214285054, "plan"),
        ),
    ),
    Kept(
        "S5: a node went on with its start although it had learned that the store had lost what it shows",
        548999144,
        Shape(nodes=3, vms=20, seconds=1500.0, actions=100, lease=60.0),
        (
            (16, 243.58924059791113, "node-killed"),
            (30, 570.9921123986055, "another-boot"),
            (38, 719.1348771990475, "node-twice"),
            (43, 766.8449795490096, "store-loses-commits"),
        ),
    ),
    Kept(
        "S24: a leader that had stored something and did not reach the store any more went round without a pause",
        7001,
        Shape(nodes=3, vms=10, seconds=270.0, actions=15, lease=60.0),
        (
            (10, 165.697001361181, "store-one-way-partition"),
            (11, 191.368973844427, "store-fails-over"),
            (12, 218.0995098845622, "plan"),
            (13, 228.9897748040232, "plan"),
        ),
    ),
    Kept(
        "S2: a slow disk at the start took from an event that was stored and that nobody had been told of",
        14023,
        Shape(nodes=1, vms=6, seconds=240.0, actions=3),
        ((1, 60.0, "crash-after-commit"), (2, 61.0, "schedule"), (3, 62.0, "disk-slow")),
    ),
    Kept(
        "S3: a leader that had stored what it never showed read on in another history, after the store had lost that",
        7,
        Shape(nodes=3, vms=12, seconds=700.0, actions=100, lease=60.0),
        (
            (0, 9.474522241203372, "drain"),
            (1, 16.42046421957837, "plan"),
            (2, 39.818374964989395, "vm-renamed"),
            (3, 42.891547675032704, "one-way-partition"),
            (4, 49.552762566842375, "two-leaders"),
            (5, 51.98560979215331, "node-cut-off"),
            (8, 100.40242789322353, "store-loses-commits"),
            (9, 116.14894095140147, "store-slow"),
            (12, 137.70205228943047, "schedule"),
            (13, 162.49028401654414, "node-twice"),
            (16, 173.33597561938723, "schedule"),
            (17, 176.68122390277688, "one-way-partition"),
            (18, 180.75789020648864, "node-restarted"),
            (19, 211.2639500028269, "plan"),
            (25, 325.69477712120425, "schedule"),
            (26, 331.7441806122922, "vm-moved"),
            (27, 334.06331076459793, "fail"),
            (28, 350.1572492835886, "store-loses-commits"),
            (29, 354.8298457128215, "scale"),
            (30, 382.2772765083698, "schedule"),
            (31, 394.7093118089124, "store-partition"),
        ),
    ),
    Kept(
        "S2: a node that had waited for the followers of its last process opened its doors with less notice left",
        101,
        Shape(nodes=1, vms=8, seconds=240.0, actions=60, lease=60.0, followers=2),
        (
            (0, 55.312793647032876, "answer-lost"),
            (1, 80.71651986072207, "user-operation"),
            (2, 109.20667713896354, "crash-after-commit"),
        ),
    ),
    Kept(
        "S2: notice that could not be made longer, because that could not be stored, was shown too short",
        5002,
        Shape(nodes=3, vms=12, seconds=400.0, actions=100, lease=60.0),
        (
            (4, 55.20427019872822, "schedule"),
            (5, 66.07534225204037, "node-paused"),
            (9, 152.74202108416208, "schedule"),
            (10, 193.5779350533607, "connection-reset"),
            (11, 201.13799759458348, "race"),
            (12, 202.5590712078644, "store-fails-over"),
            (13, 223.95279488231202, "store-slow"),
            (14, 232.3864974570004, "vm-removed"),
            (15, 288.3127143847254, "store-loses-commits"),
            (16, 290.4372469301945, "store-call-lost"),
            (19, 325.9347930196611, "schedule"),
            (20, 329.43436444362715, "plan"),
        ),
    ),
    Kept(
        "liveness: a leader that heard late of its own acceptance of an impact waited for the report for ever",
        8012,
        Shape(nodes=2, vms=24, seconds=1080.0, actions=9, lease=60.0, agents=1, driver="webhook"),
        (
            (0, 314.3791278478123, "fail"),
            (2, 646.9811463413719, "answer-lost"),
            (3, 792.9872861244221, "plan"),
            (4, 849.7140912368909, "store-one-way-partition"),
            (6, 865.0554283764351, "store-one-way-partition"),
            (7, 951.8197198330231, "receiver-never-reports"),
        ),
    ),
    Kept(
        "S3: each node lifted incarnations after a loss, beyond the time of day, so the next went back behind that",
        7,
        Shape(nodes=3, vms=12, seconds=896.0, actions=100, lease=60.0),
        (
            (28, 350.1572492835886, "store-loses-commits"),
            (29, 354.8298457128215, "scale"),
            (30, 382.2772765083698, "schedule"),
            (31, 394.7093118089124, "store-partition"),
            (32, 401.53058703416707, "odd-request"),
            (33, 403.8061062496296, "schedule"),
            (34, 415.08480767502226, "message-late"),
            (35, 434.6462259383215, "node-restarted"),
            (36, 445.7879974623033, "plan"),
            (37, 448.1445289626836, "message-late"),
            (38, 461.110515067265, "store-backed-up"),
            (39, 485.25594155400864, "store-call-lost"),
            (52, 712.5148923651925, "odd-request"),
            (53, 726.9772152095882, "race"),
            (54, 764.6501979178299, "store-restored"),
            (58, 829.4474654570013, "store-answer-lost"),
            (59, 850.3881176001902, "approve"),
            (60, 885.9610204142851, "cancel"),
        ),
    ),
    Kept(
        "S6: a request whose answer was lost was done again, because somebody had set the clock 61 hours forward",
        52,
        Shape(nodes=1, vms=12, seconds=160.0, actions=10, lease=60.0, driver="webhook"),
        (
            (1, 12.956604337298373, "scale"),
            (3, 33.60788473309964, "answer-lost"),
            (5, 60.61903025247794, "disk-slow"),
            (6, 64.4710872032114, "schedule"),
            (7, 65.2223210773997, "message-late"),
            (8, 73.5151739749514, "approve"),
            (10, 80.960173157147, "odd-request"),
            (12, 88.28876003180099, "schedule"),
            (15, 123.38044523047607, "user-operation"),
            (17, 148.27275654643688, "wall-jump-ahead"),
        ),
    ),
    Kept(
        "the simulator: all faults are over, and the old process of a node stood still with connections of VMs",
        11,
        Shape(nodes=2, vms=3, seconds=240.0, actions=1),
        ((0, 235.0, "node-twice"),),
    ),
    Kept(
        "S3: a node that was killed after it had lifted incarnations lifted them again, by a million",
        604814770,
        Shape(nodes=1, vms=12, seconds=1500.0, actions=100, lease=60.0, driver="webhook"),
        (
            (34, 392.3764185774424, "backup-made"),
            (35, 450.656670499165, "node-killed"),
            (47, 701.2642426466061, "crash-after-commit"),
            (48, 709.9088154068564, "backup-restored"),
            (50, 740.4812022791718, "crash-after-commit"),
            (62, 916.6973770936515, "backup-restored"),
        ),
    ),
    Kept(
        "the simulator: nobody waits for the end of a command whose event was lost, with the journal that had it",
        883629137,
        Shape(nodes=1, vms=6, seconds=130.0, actions=4, lease=60.0, driver="command"),
        ((3, 10.0, "backup-made"), (76, 20.0, "command-hangs"), (83, 30.0, "fail"), (84, 44.0, "backup-restored")),
    ),
    Kept(
        "the simulator: clients never closed connections to a node that stood still, and it woke up with 226 of them",
        1311407520,
        Shape(nodes=3, vms=24, seconds=1800.0, actions=60, lease=60.0, agents=1, driver="command"),
        ((47, 1404.3908798614168, "node-paused"),),
    ),
    Kept(
        "N12: a new process of a node, in another directory, ran what the old one had claimed, and so did that one",
        1311406481,
        Shape(nodes=2, vms=3, seconds=1600.0, actions=3, lease=60.0, driver="command"),
        (
            (50, 1334.012843755818, "news-lost"),
            (51, 1350.5558900509202, "schedule"),
            (53, 1379.1864133826782, "node-twice"),
        ),
    ),
    Kept(
        "the simulator: advice was withdrawn at the end, and then came some for which a lost request was sent again",
        247208970,
        Shape(nodes=1, vms=6, seconds=1500.0, actions=100, lease=60.0, driver="webhook"),
        (
            (72, 924.6036430568839, "vm-renamed"),
            (73, 984.1275064103054, "plan"),
            (98, 1482.5363921680748, "partition"),
            (99, 1499.913632592833, "advise"),
        ),
    ),
]


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.broke.partition(":")[0])
def test_what_was_broken_once_holds(kept: Kept) -> None:
    outcome = lived(kept.seed, kept.shape, [Action(*action) for action in kept.actions])
    assert not outcome.violations, f"{kept.broke}: {outcome.violations}"


@pytest.mark.soak
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((310003, 3, "command"), id="S2: the seat asked to show what the leader gave up waiting for"),
        pytest.param((310021, 3, "command"), id="N12: notes were forgotten before the node had seen the result"),
        pytest.param((400000, 3, "webhook"), id="N12: two timers for one event"),
        pytest.param((400006, 3, "webhook"), id="S2: what was made up for was shown late"),
        pytest.param((420003, 3, ""), id="the simulator: whose addresses it were before a loss"),
        pytest.param((430020, 3, "webhook"), id="N06: what was lost and never read was still allowed to be shown"),
        pytest.param((430007, 3, "", 2), id="S6: a token that is stored and not shown yet was answered with an error"),
        pytest.param((440010, 3, "command"), id="S2: a leader that nobody can ask yet had shown it to nobody"),
        pytest.param((430021, 3, "webhook"), id="S2: the same, with a store that was away"),
        pytest.param((440008, 3, "command"), id="the simulator: a process outlived the power of its machine"),
        pytest.param((440016, 3, "", 2), id="the simulator: a follower turned to a node that shows what was lost"),
        pytest.param((430020, 3, "", 2), id="the simulator: the work of a thread that nobody waits for any more"),
        pytest.param((520008, 3, "", 2), id="the simulator: half a backup, from before something was lost"),
        pytest.param((1545847705, 1, "command"), id="the simulator: a command whose start was lost with the journal"),
        pytest.param((2083520439, 1, "command"), id="the simulator: a fleet was applied again while a VM was probed"),
        pytest.param((750000441, 3, "", 2), id="an answer was lost because its VM left in that moment"),
        pytest.param((430000, 1, "command"), id="the simulator: a command takes a moment to begin"),
        pytest.param((450014, 3, "webhook"), id="the simulator: a backup of what was lost cut a commit in two"),
        pytest.param(
            (460101, 3, "webhook"), id="N14: a node that reads waited for what it had been told of and was lost"
        ),
        pytest.param((700151, 3, "webhook"), id="S3: a follower answered from a copy before incarnations were lifted"),
        pytest.param((700314, 3, "command"), id="S3: the same, of a node that was out when something was lost"),
        pytest.param((700178, 3, "webhook", 2), id="S3: the same, when they were lifted and that was not shown yet"),
        pytest.param((700261, 3, "", 2), id="S3: the same, with followers"),
        pytest.param((1500210, 3, "webhook", 2), id="S3: a lift of a node that knew less counted as ours"),
        pytest.param(
            (330137, 3, "", 2), id="the simulator: a notice ended a day later in steady time than by the clock"
        ),
        pytest.param((440511, 3, ""), id="the simulator: a node that stood still had read what was lost"),
        pytest.param((700073, 3, "webhook"), id="S4: a VM came and went in what a node read at once"),
        pytest.param((2033071735, 3, ""), id="S3: a lift by a wrong clock was lost, and the next one was lower"),
        pytest.param((604819203, 3, ""), id="S25: a leader that stood still was not followed back"),
        pytest.param((710000071, 3, "", 2), id="S2: a failed commit made a new node forget what nobody had seen"),
        pytest.param((710000095, 3, ""), id="S2: a node showed what it knew to be followed by a longer notice"),
        pytest.param((710000154, 3, ""), id="S2: a node heard late that it may show, and a longer notice was stored"),
        pytest.param((740000141, 3, "webhook"), id="S2: a slow store told a node too late that it may show"),
        pytest.param((460003, 3, "webhook"), id="S16: who was renamed while it approved was told so"),
        pytest.param((1597582292, 1, "webhook"), id="S16: an approval came behind half a request of garbage"),
        pytest.param((1252305349, 3, "", 2), id="S2: a leader that starts had something shown that others heard late"),
        pytest.param((1252305827, 3, "", 2), id="S23: a node did not know a follower's new token yet"),
        pytest.param((647600542, 3, ""), id="S5: a node was up for a moment with what was lost while it started"),
    ],
)
def test_whole_worlds_that_broke_once_hold(shape: tuple[Any, ...]) -> None:
    """They are not cut down: what is done in them changes with the table of faults."""
    assert not short_world(*shape).violations


@pytest.mark.soak
def test_a_call_that_shows_an_event_late_because_others_came_first_is_not_made() -> None:
    """S2: a slow beat was before it in the worker of the leader's seat."""
    assert not world(800251).violations


@pytest.mark.soak
def test_a_node_does_not_take_as_many_other_records_for_what_it_has_read() -> None:
    """S3: it was cut off when the store lost something, and joined again where the others had written as many."""
    assert not world(1600101).violations


@pytest.mark.soak
def test_followers_of_a_life_before_a_restore_are_waited_for_also_if_the_lift_is_there_at_the_start() -> None:
    """S3: a commit that lifted seemed to fail. The next start did not lift, and nobody waited for those followers."""
    shape = Shape(nodes=1, vms=20, seconds=1500.0, actions=100, lease=60.0, agents=3, driver="command", followers=2)
    assert not run(2083519226, shape=shape).violations
