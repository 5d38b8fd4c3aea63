"""Rows about what a client approves, and when."""

from duenotice.testkit.verdicts.evidence import PREVIEW
from tests.testkit.rows.lines import (
    A_STARTED,
    B_STARTED,
    EARLIER,
    LED,
    OURS,
    OVER,
    THEIRS,
    THEIRS_STARTED,
    UNANSWERED,
    WAIT,
    A,
    B,
    Row,
    duty,
    fault,
    get,
    post,
    raised,
)

END = {"at": 3, "exit_code": 0}


def left(code: int, what: str = "Reboot T") -> list[str]:
    """The words about an end for a neighbour."""
    return [f"it ended with code {code} when it read of {what}, which does not hit it"]


THREE_OF_FOUR = "it approved Reboot F, which hits n1, n2, n3"
NEIGHBOUR = [
    Row(
        "it approves a neighbour's event",
        [raised("T", "other"), get(1, THEIRS), post(2, "T")],
        ["it approved Reboot T, which hits other"],
    ),
    Row(
        "three names of VMs are enough",
        [raised("F", "n1", "n2", "n3", "n4"), get(1, "F Scheduled Reboot n1,n2,n3,n4"), post(2, "F")],
        [THREE_OF_FOUR],
    ),
    Row(
        "it approves a neighbour's event and is refused",
        [raised("T", "other"), get(1, THEIRS), post(2, "T", status=400)],
        ["it approved Reboot T, which hits other"],
    ),
    Row("it approves only its own", [raised("T", "other"), raised("A"), get(1, THEIRS, A), post(2, "A")], []),
    Row("it was not told of the neighbour's event", [raised("T", "other"), get(1, A), post(2, "T")], None),
    Row("it never approves", [raised("T", "other"), get(1, THEIRS)], None),
    Row("an event that hits both is no neighbour's", [raised("L", "other", "me"), get(1, LED), post(2, "L")], None),
    *(
        Row(f"it leaves for a neighbour with code {code}", [get(1, THEIRS), END | {"exit_code": code}], left(code))
        for code in (0, 1, 3, -2, -11, -15, 130, 143)
    ),
    Row(
        "it leaves for a neighbour's Preempt",
        [get(1, "T Scheduled Preempt other"), END | {"exit_code": -15}],
        left(-15, "Preempt T"),
    ),
    Row("it leaves when a neighbour's event starts", [get(1, THEIRS), get(2, THEIRS_STARTED), END], left(0)),
    Row(
        "it is ended by SIGTERM when a neighbour's event starts",
        [get(1, THEIRS), get(2, THEIRS_STARTED), END | {"exit_code": -15}],
        left(-15),
    ),
    Row(
        "it crashes at the empty NotBefore of a neighbour, which is another rule's",
        [get(1, THEIRS), get(2, THEIRS_STARTED), END | {"exit_code": 1}],
        None,
    ),
    Row(
        "it ends well for its own event, and stays for a neighbour's",
        [raised("T", "other"), get(0, THEIRS), get(1, THEIRS, "A Scheduled Preempt me"), END],
        [],
    ),
    Row(
        "it ends well for its own event, and approves a neighbour's",
        [raised("T", "other"), get(0, THEIRS), get(1, THEIRS, "A Scheduled Preempt me"), END, post(4, "T")],
        ["it approved Reboot T, which hits other"],
    ),
    *(
        Row(
            f"it approves a neighbour's {kind}",
            [raised("T", "other", type=kind.lower()), get(1, f"T Scheduled {kind} other"), post(2, "T")],
            [f"it approved {kind} T, which hits other"],
        )
        for kind in ("Freeze", "Redeploy", "Preempt", "Terminate")
    ),
    Row(
        "it approves a neighbour's event that has Started",
        [raised("T", "other"), get(1, THEIRS_STARTED), post(2, "T")],
        ["it approved Reboot T, which hits other"],
    ),
    Row("it leaves with an event of its own ahead", [get(1, THEIRS, A), END], None),
    Row("it leaves when the neighbour's event is gone", [get(1, THEIRS), get(2), END], None),
    Row("it leaves after it has asked again", [get(1, THEIRS), get(2, status=500), END], None),
    Row("it leaves after it has approved", [get(1, THEIRS), post(2, "T"), END], None),
    Row("it is stopped beside a neighbour's event", [get(1, THEIRS), {"at": 3, "stopped": True}], None),
    Row(
        "it leaves for a neighbour after it was started again",
        [get(0), {"at": 0.5, "stopped": True}, get(1, THEIRS), END],
        left(0),
    ),
    Row(
        "its first start ends for a neighbour, its last one for nothing",
        [get(1, THEIRS), END | {"at": 2, "exit_code": 1}, get(2.5, status=304), END],
        left(1),
    ),
]

LEADER = [
    Row(
        "it approves what another leads",
        [raised("L", "other", "me"), get(1, LED), post(2, "L")],
        ["it approved Reboot L, which other leads"],
    ),
    Row(
        "it approves what another leads and is refused",
        [raised("L", "other", "me"), get(1, LED), post(2, "L", status=400)],
        ["it approved Reboot L, which other leads"],
    ),
    Row("it leaves it to the leader", [raised("L", "other", "me"), raised("A"), get(1, LED, A), post(2, "A")], []),
    Row("it leads by itself", [raised("O", "me", "other"), get(1, OURS), post(2, "O")], None),
    Row("an event that does not hit it", [raised("T", "other"), get(1, THEIRS), post(2, "T")], None),
    Row("an event that it was not told of", [raised("L", "other", "me"), get(1), post(2, "L")], None),
]

READY = {"at": 5, "peers_ready_for": "O"}
EARLY = ["it approved O before other was ready"]
PEERS = [
    Row("it approves when they are ready", [raised("O", "me", "other"), get(1, OURS), READY, post(5, "O")], []),
    Row(
        "it approves a millisecond before they are ready",
        [raised("O", "me", "other"), get(1, OURS), READY, post(4.999, "O")],
        EARLY,
    ),
    Row(
        "it approves before they are ready, and after",
        [raised("O", "me", "other"), get(1, OURS), READY, post(4, "O"), post(6, "O")],
        EARLY,
    ),
    Row("it does not approve it", [raised("O", "me", "other"), raised("A"), get(1, OURS, A), READY, post(6, "A")], []),
    Row("nobody could say that they are ready", [raised("O", "me", "other"), get(1, OURS), post(2, "O")], None),
]

WORK_FILE = {"has_work_file": True}
NOT_DONE = ["it approved A without its work being done"]
WORK = [
    Row("the work is done", [get(1, A), post(2, "A", work=["A"])], [], WORK_FILE),
    Row("its id is written in lower case", [get(1, A), post(2, "A", work=["B", "a"])], [], WORK_FILE),
    Row("the work is not done", [get(1, A), post(2, "A", work=[])], NOT_DONE, WORK_FILE),
    Row("the work for another event is done", [get(1, A), post(2, "A", work=["B"])], NOT_DONE, WORK_FILE),
    Row(
        "the work is done at the second approval",
        [get(1, A), post(2, "A", work=[]), post(3, "A", work=["A"])],
        NOT_DONE,
        WORK_FILE,
    ),
    Row("a refused approval counts", [get(1, A), post(2, "A", status=500, work=[])], NOT_DONE, WORK_FILE),
    Row("the file is not there", [get(1, A), post(2, "A")], NOT_DONE, WORK_FILE),
    Row("the work for one of two events is done", [get(1, A, B), post(2, "A", "B", work=["B"])], NOT_DONE, WORK_FILE),
    Row("it never approves", [get(1, A)], None, WORK_FILE),
    Row("there is no file of work", [get(1, A), post(2, "A")], None),
]

TWICE = ["it approved A 2 times"]
ONCE = [
    Row("one approval", [post(1, "A")], []),
    Row("two approvals", [post(1, "A"), post(2, "A")], TWICE),
    Row("three approvals", [post(1, "A"), post(2, "A"), post(3, "A")], ["it approved A 3 times"]),
    Row("an approval after two errors", [post(1, "A", status=500), post(2, "A", status=429), post(3, "A")], []),
    Row("an approval after no answer", [post(1, "A", **UNANSWERED), post(2, "A")], []),
    Row("only refused approvals", [post(1, "A", status=400), post(2, "A", status=400)], None),
    Row("an approval for each of two events", [post(1, "A"), post(2, "B")], []),
    Row("two ids of one event in one request", [post(1, "A", "a")], []),
    Row("two approvals in other letters", [post(1, "A"), post(2, "a")], TWICE),
    Row(
        "the second is answered in the moment when the event is over",
        [*OVER, post(1, "A"), post(2.9, "A", after=0.1)],
        [],
    ),
    Row(
        "the second is answered a millisecond before the event is over",
        [*OVER, post(1, "A"), post(2.9, "A", after=0.099)],
        TWICE,
    ),
]

APPROVALS = [raised("A"), get(0, A)]


def refused(status: int) -> list[str]:
    """The words about the first approval after a poll."""
    return [f"approval #2 was refused with {status}"]


UNDERSTOOD = [
    Row("200", [*APPROVALS, post(1, "A")], []),
    Row("400", [*APPROVALS, post(1, "A", status=400)], refused(400)),
    Row("499", [*APPROVALS, post(1, "A", status=499)], refused(499)),
    Row("399", [*APPROVALS, post(1, "A", status=399)], []),
    Row("429 is about how often it asks", [*APPROVALS, post(1, "A", status=429)], []),
    Row("500 is not the client's fault", [*APPROVALS, post(1, "A", status=500)], []),
    Row("no answer", [*APPROVALS, post(1, "A", **UNANSWERED)], []),
    Row("400 in a fault", [*APPROVALS, post(1, "A", status=400), fault(1, 2)], None),
    Row(
        "400 while answers are late, but right",
        [*APPROVALS, post(1, "A", status=400), fault(1, 2, "late")],
        refused(400),
    ),
    Row("400 without the header belongs to another rule", [*APPROVALS, post(1, "A", status=400, header=None)], None),
    Row(
        "400 without a header that is not needed",
        [*APPROVALS, post(1, "A", status=400, header=None, version=PREVIEW)],
        refused(400),
    ),
    Row("400 to nonsense", [*APPROVALS, post(1, status=400)], refused(400)),
    Row(
        "400 for an event beside one that is over",
        [*APPROVALS, OVER[1], post(4, "B", status=400), post(5, "A")],
        refused(400),
    ),
    Row("400 in the moment when the event is over", [*APPROVALS, OVER[1], post(2.9, "A", status=400, after=0.1)], []),
    Row(
        "400 a millisecond before the event is over",
        [*APPROVALS, OVER[1], post(2.9, "A", status=400, after=0.099)],
        refused(400),
    ),
    Row("404 for an event that was cancelled", [*APPROVALS, {"at": 3, "cancelled": "A"}, post(4, "A", status=404)], []),
    Row("404 for an event that failed", [*APPROVALS, {"at": 3, "failed": "A"}, post(4, "A", status=404)], []),
    Row("404 for an event that is unknown", [*APPROVALS, post(4, "X", status=404)], refused(404)),
    Row("it never approves", APPROVALS, None),
]

READ_STARTED = ["it approved A although it had read that it was Started"]
STARTED = [
    Row("it approves in the moment when it reads of it", [get(1, A_STARTED), post(1, "A")], []),
    Row("it approves a millisecond after it has read of it", [get(1, A_STARTED), post(1.001, "A")], READ_STARTED),
    Row("it approves before a held poll is answered", [get(1, A_STARTED, after=4, **WAIT), post(4.999, "A")], []),
    Row(
        "it approves after a held poll was answered",
        [get(1, A_STARTED, after=4, **WAIT), post(5.001, "A")],
        READ_STARTED,
    ),
    Row("it approves another event", [get(1, A_STARTED, B), post(2, "B")], []),
    Row("it approved before it read of it", [get(1, A), post(2, "A"), get(3, A_STARTED)], []),
    Row("a refused approval counts", [get(1, A_STARTED), post(2, "A", status=400)], READ_STARTED),
    Row("no event was Started", [get(1, A), post(2, "A")], None),
    Row("it never approves", [get(1, A_STARTED)], None),
]

GONE = [raised("A"), get(1, A), {"at": 10, "cancelled": "A"}]
TOO_LATE = ["it approved A, which had been cancelled"]
CANCELLED = [
    Row("it approves a millisecond before the cancel", [*GONE, post(9.999, "A")], []),
    Row("it approves unaware 2 s after the cancel", [*GONE, post(12, "A")], []),
    Row("it approves unaware 2.001 s after the cancel", [*GONE, post(12.001, "A")], TOO_LATE),
    Row("it approves 0.25 s after it could read of the cancel", [*GONE, get(10.5), post(10.75, "A")], []),
    Row("it approves 0.251 s after it could read of the cancel", [*GONE, get(10.5), post(10.751, "A")], TOO_LATE),
    Row("it asked in the moment of the cancel", [*GONE, get(10), post(10.251, "A")], TOO_LATE),
    Row("it asked a millisecond before the cancel", [*GONE, get(9.999, A, after=0.5), post(11, "A")], []),
    Row("the answer about the cancel came slowly", [*GONE, get(10.1, after=1), post(11.35, "A")], []),
    Row("an error tells nothing of the cancel", [*GONE, get(10.1, status=500), post(11, "A")], []),
    Row("its second approval is too late", [*GONE, post(5, "A"), post(13, "A")], TOO_LATE),
    Row("the event completed", [raised("A"), get(1, A), {"at": 10, "completed": "A"}, post(13, "A")], None),
    Row(
        "the event is a neighbour's",
        [raised("T", "other"), get(1, THEIRS), {"at": 10, "cancelled": "T"}, post(13, "T")],
        None,
    ),
    Row("it was not told of the event", [*GONE[::2], get(1), post(13, "A")], None),
    Row("the event is unknown", [get(1, A), {"at": 10, "cancelled": "A"}, post(13, "A")], None),
    Row("it approves another event", [*GONE, raised("B"), get(2, A, B), post(13, "B")], []),
]

TWO = [raised("A"), raised("B"), duty(20, "every-event", "A", "B")]
ONE_LEFT = ["it did not approve B, one of two events at once"]
NONE_OF_TWO = [f"it did not approve {name}, one of two events at once" for name in "AB"]
EVERY_EVENT = [
    Row("it approves both in time", [*TWO, get(1, A, B), post(5, "A"), post(20, "B")], []),
    Row("it approves the second a millisecond late", [*TWO, get(1, A, B), post(5, "A"), post(20.001, "B")], ONE_LEFT),
    Row("it approves both in one request", [*TWO, get(1, A, B), post(5, "A", "B")], []),
    Row("it approves one", [*TWO, get(1, A, B), post(5, "A")], ONE_LEFT),
    Row("it approves both, and one is refused", [*TWO, get(1, A, B), post(5, "A"), post(6, "B", status=500)], ONE_LEFT),
    Row("it reads of the second when the time is over", [*TWO, get(1, A), post(5, "A"), get(20, A, B)], None),
    Row("it reads of the second a millisecond before", [*TWO, get(1, A), post(5, "A"), get(19.999, A, B)], ONE_LEFT),
    Row("it reads of the second only when it is Started", [*TWO, get(1, A, B_STARTED), post(5, "A")], None),
    Row("it approves none, and never did", [*TWO, get(1, A, B)], None),
    Row("it approves none, but did before", [*EARLIER, post(0.2, "E"), *TWO, get(1, A, B)], NONE_OF_TWO),
    Row(
        "the two belong to another rule",
        [raised("A"), raised("B"), get(1, A, B), post(5, "A"), duty(20, "errors", "A", "B")],
        None,
    ),
]

ROWS = {
    "neighbour": NEIGHBOUR,
    "leader": LEADER,
    "peers": PEERS,
    "work": WORK,
    "once": ONCE,
    "understood": UNDERSTOOD,
    "started": STARTED,
    "cancelled": CANCELLED,
    "every-event": EVERY_EVENT,
}
