"""The rules, each on both sides of each of its boundaries: what a client did in a few lines, and what the rule says.

Times are seconds; the tempo is that of users, so a client is silent after 30 s. `None` means that a rule had nothing to
judge, an empty list that it found nothing wrong.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from duenotice.testkit.verdicts.evidence import PREVIEW, Evidence
from duenotice.testkit.verdicts.rules import BY_ID, RULES
from duenotice.testkit.verdicts.said import Said
from duenotice.testkit.verdicts.verdict import FAILED, NOT_TRIED, judge
from tests.testkit.transcript import Line, decode

A, B, E = "A Scheduled Reboot me", "B Scheduled Reboot me", "E Scheduled Reboot me"
OF_USER = "U Scheduled Reboot me"
A_STARTED, B_STARTED = "A Started Reboot me", "B Started Reboot me"
THEIRS, THEIRS_STARTED = "T Scheduled Reboot other", "T Started Reboot other"
LED, OURS = "L Scheduled Reboot other,me", "O Scheduled Reboot me,other"
"""Events as a document shows them: A, B, E and U are the client's, T is a neighbour's, L and O are of two VMs."""

ENDS_AT = 100.0
UNANSWERED = {"status": 0, "after": None}
WAIT = {"wait": "300s"}


def get(at: float, *events: str, **unusual: Any) -> Line:
    """A poll, and the events it was shown at once, unless something is unusual."""
    shows = {} if unusual.keys() & {"answer", "status", "path"} else {"events": list(events)}
    return {"at": at, "request": "GET", **shows, **unusual}


def post(at: float, *event_ids: str, **unusual: Any) -> Line:
    """An approval of events."""
    body = {"StartRequests": [{"EventId": event_id} for event_id in event_ids]}
    return {"at": at, "request": "POST", "body": body, **unusual}


def raised(event_id: str, *vms: str, source: str = "platform") -> Line:
    """An event of ours, if no VMs are named."""
    return {"at": 0.0, "raised": event_id, "vms": vms or ("me",), "source": source}


def duty(until: float, rule: str, *event_ids: str) -> Line:
    """By when it had to handle events, and which rule asks for it."""
    return {"at": until, "had_to_handle": event_ids, "rule": rule}


def fault(begun: float, ended: float, name: str = "500") -> Line:
    """A time in which answers were wrong on purpose."""
    return {"at": begun, "fault": name, "for": ended - begun}


def evidence(*lines: Line, ended: float = ENDS_AT, **head: Any) -> Evidence:
    """What is known at the end. Requests are numbered, and an incarnation is the next when the events are others."""
    numbered: list[Line] = []
    number, incarnation, before = 0, 0, None
    for line in lines:
        if "request" in line:
            number += 1
            line = line | {"request": f"{line['request']} {number}"}
        if "events" in line:
            incarnation += before not in (None, line["events"])
            before = line["events"]
            incarnation = line.get("incarnation", incarnation)
            line = line | {"incarnation": incarnation}
        numbered.append(line)
    return decode([{"vm": "me", "ended": ended, **head}, *numbered])


class Row(NamedTuple):
    """Lines, and what a rule says of them."""

    sentence: str
    lines: list[Line]
    said: Said
    head: Mapping[str, Any] = MappingProxyType({})


NOTHING = "nothing asked 169.254.169.254 for /metadata/scheduledevents"
ASKS = [
    Row("it asks nothing", [], [NOTHING]),
    Row(
        "it asks for something else",
        [get(0, path="/metadata/instance")],
        [f"{NOTHING}; it asked for other things only"],
    ),
    Row("an approval is no poll", [post(0, "A")], [f"{NOTHING}; it asked for other things only"]),
    Row("a path in other letters is the path", [get(0, path="/Metadata/ScheduledEvents/")], []),
]

HEADER = [
    Row("TRUE is true", [get(0, header="TRUE")], []),
    Row("another value than true", [get(0, header="false")], ["GET #1 had no header"]),
    Row("no header at a poll", [get(0), get(1, header=None)], ["GET #2 had no header"]),
    Row("no header at an approval", [get(0), post(1, "A", header=None)], ["POST #2 had no header"]),
    Row("a poll of the preview needs none", [get(0, header=None, version=PREVIEW)], None),
    Row("an approval of the preview needs none", [post(0, "A", header=None, version=PREVIEW)], None),
    Row(
        "other questions of the preview need it",
        [get(0, header=None, version=PREVIEW, path="/i")],
        ["GET #1 had no header"],
    ),
    Row(
        "the version after the preview needs it", [get(0, header=None, version="2017-08-01")], ["GET #1 had no header"]
    ),
    Row(
        "a request without a version needs it",
        [get(0, header=None, version=None, status=400)],
        ["GET #1 had no header"],
    ),
    Row(
        "a request that was not understood says nothing",
        [{"at": 0, "request": "", "header": None, "status": 400}],
        None,
    ),
]

PACE = [
    Row("29.999 s between two polls", [get(0), get(29.999)], [], {"ended": 30}),
    Row("30 s between two polls", [get(0), get(30)], ["it was silent for 30 s after #1"], {"ended": 31}),
    Row("30 s after the last poll", [get(0), get(1)], ["it was silent for 30 s after #2"], {"ended": 31}),
    Row("29.999 s after the last poll", [get(0), get(1)], [], {"ended": 30.999}),
    Row("the longest silence is named", [get(0), get(31), get(71)], ["it was silent for 40 s after #2"], {"ended": 72}),
    Row("29.999 s after a slow answer", [get(0, after=5), get(34.999)], [], {"ended": 35}),
    Row("30 s after a slow answer", [get(0, after=5), get(35)], ["it was silent for 30 s after #1"], {"ended": 36}),
    Row(
        "30 s after a poll without an answer",
        [get(0, **UNANSWERED), get(30)],
        ["it was silent for 30 s after #1"],
        {"ended": 31},
    ),
    Row("a poll that is held is no silence", [get(0), get(1, **WAIT, **UNANSWERED)], []),
    Row(
        "30 s after a poll that was held",
        [get(0, after=50, **WAIT), get(80)],
        ["it was silent for 30 s after #1"],
        {"ended": 81},
    ),
    Row("other questions end a silence", [get(0), get(15, path="/i"), get(30)], [], {"ended": 31}),
    Row(
        "approvals do not end a silence",
        [get(0), post(15, "A"), get(30)],
        ["it was silent for 30 s after #1"],
        {"ended": 31},
    ),
    Row("its end after 29.999 s ends a silence", [get(0), {"at": 29.999, "exit_code": 1}, get(90)], [], {"ended": 91}),
    Row(
        "its end after 30 s comes too late",
        [get(0), {"at": 30, "exit_code": 1}, get(90)],
        ["it was silent for 30 s after #1"],
        {"ended": 91},
    ),
    Row("that it was stopped ends a silence", [get(0), {"at": 29.999, "stopped": True}, get(90)], [], {"ended": 91}),
    Row(
        "the first of several stops ends a silence",
        [get(0), get(1), *({"at": at, "stopped": True} for at in (29, 60))],
        [],
    ),
    Row("one poll says nothing", [get(0)], None, {"ended": 1}),
    Row("one poll and 30 s of silence", [get(0)], ["it was silent for 30 s after #1"], {"ended": 30}),
]


def burst(count: int, last: float) -> list[Line]:
    """Polls at once, and one more."""
    return [*(get(0) for _ in range(count)), get(last)]


CROWDED = ["more than 5 polls a second"]
CROWDING = [
    Row("the eleventh poll after 2 s", burst(10, 2), []),
    Row("the eleventh poll after 1.999 s", burst(10, 1.999), CROWDED),
    Row("ten polls at once", burst(9, 0), []),
    Row("approvals do not count", [*burst(9, 0), post(0, "A")], []),
    Row("other questions do not count", [*burst(9, 0), get(0, path="/i")], []),
    Row("eleven polls in a second, later", [get(0), get(5), *(get(10 + at / 10) for at in range(11))], CROWDED),
    Row(
        "with a limit of 3, the seventh poll after 1.999 s",
        burst(6, 1.999),
        ["more than 3 polls a second"],
        {"tempo": {"most_a_second": 3}},
    ),
    Row("with a limit of 3, the seventh poll after 2 s", burst(6, 2), [], {"tempo": {"most_a_second": 3}}),
    Row("one poll says nothing", [get(0)], None),
]


def versions(*names: str | None) -> list[Line]:
    """A poll with each api-version."""
    return [get(at, version=name) for at, name in enumerate(names)]


OLD = ["it asks for api-version 2017-08-01"]
VERSION = [
    Row("the oldest version that fits", versions("2017-11-01"), []),
    Row("the version before the oldest that fits", versions("2017-08-01"), OLD),
    Row("a good version beside an old one", versions("2020-07-01", "2017-08-01"), OLD),
    Row("no version", versions(None), ["it asks without an api-version"]),
    Row(
        "a version that does not exist",
        versions("2024-07-09"),
        ["it asks for api-version 2024-07-09, which does not exist"],
    ),
    Row("a version that does not exist, then one that does", versions("2024-07-09", "2020-07-01"), []),
    Row("a long version is cut", versions("1" * 21), [f"it asks for api-version {'1' * 20}, which does not exist"]),
    Row("an old version of an approval", [get(0), post(1, "A", version="2017-08-01")], OLD),
    Row("an old version in a fault", [get(0, version="2017-08-01"), fault(0, 1)], None),
    Row("an old version a millisecond before a fault", [get(0, version="2017-08-01"), fault(0.001, 1)], OLD),
    Row("an old version at the end of a fault", [get(1, version="2017-08-01"), fault(0, 1)], OLD),
    Row("an old version in the second fault", [get(3, version="2017-08-01"), fault(0, 1), fault(2, 4)], None),
    Row("an old version while answers are late, but right", [get(0, version="2017-08-01"), fault(0, 1, "late")], OLD),
    Row("an old version of another question", [get(0, version="2017-08-01", path="/i")], None),
]

END = {"at": 3, "exit_code": 0}
LEFT = ["it ended when it read of T, which does not hit it"]
THREE_OF_FOUR = "it approved F, which hits n1, n2, n3"
NEIGHBOUR = [
    Row(
        "it approves a neighbour's event",
        [raised("T", "other"), get(1, THEIRS), post(2, "T")],
        ["it approved T, which hits other"],
    ),
    Row(
        "three names of VMs are enough",
        [raised("F", "n1", "n2", "n3", "n4"), get(1, "F Scheduled Reboot n1,n2,n3,n4"), post(2, "F")],
        [THREE_OF_FOUR],
    ),
    Row(
        "it approves a neighbour's event and is refused",
        [raised("T", "other"), get(1, THEIRS), post(2, "T", status=400)],
        ["it approved T, which hits other"],
    ),
    Row("it approves only its own", [raised("T", "other"), raised("A"), get(1, THEIRS, A), post(2, "A")], []),
    Row("it was not told of the neighbour's event", [raised("T", "other"), get(1, A), post(2, "T")], None),
    Row("it never approves", [raised("T", "other"), get(1, THEIRS)], None),
    Row("an event that hits both is no neighbour's", [raised("L", "other", "me"), get(1, LED), post(2, "L")], None),
    Row("it leaves for a neighbour", [get(1, THEIRS), END], LEFT),
    Row("it crashes beside a neighbour's event", [get(1, THEIRS), END | {"exit_code": 1}], None),
    Row("it leaves with an event of its own ahead", [get(1, THEIRS, A), END], None),
    Row("it leaves when the neighbour's event is gone", [get(1, THEIRS), get(2), END], None),
    Row("it leaves after it has asked again", [get(1, THEIRS), get(2, status=500), END], None),
    Row("it leaves after it has approved", [get(1, THEIRS), post(2, "T"), END], None),
    Row("it is stopped beside a neighbour's event", [get(1, THEIRS), {"at": 3, "stopped": True}], None),
    Row(
        "it leaves for a neighbour after it was started again",
        [get(0), {"at": 0.5, "stopped": True}, get(1, THEIRS), END],
        LEFT,
    ),
    Row(
        "only its last start had read of the neighbour",
        [get(1, THEIRS), END | {"at": 2, "exit_code": 1}, get(2.5, status=304), END],
        None,
    ),
]

LEADER = [
    Row(
        "it approves what another leads",
        [raised("L", "other", "me"), get(1, LED), post(2, "L")],
        ["it approved L, which other leads"],
    ),
    Row(
        "it approves what another leads and is refused",
        [raised("L", "other", "me"), get(1, LED), post(2, "L", status=400)],
        ["it approved L, which other leads"],
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
OVER = [raised("A"), {"at": 3, "completed": "A"}]
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
EARLIER = [raised("E"), get(0, E), duty(0.5, "comes-back", "E")]
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


def silent_after(what: str, number: int = 2) -> list[str]:
    """The words about a client that did not ask again."""
    return [f"after {what} (#{number}) it did not ask again"]


ERROR = get(1, status=500)
AN_ERROR = silent_after("an error")
MISSED = ["it read of A, and did not approve it as it did others"]
NEXT = [*EARLIER, post(0.1, "E"), raised("A")]
"""It has handled an event, and now there is another one."""


def misses(rule: str) -> Row:
    """It did not handle the next event, and a rule asks for that."""
    return Row("it misses the next event", [*NEXT, get(1, E, A), duty(20, rule, "A")], MISSED)


ERRORS = [
    Row("it asks again after 29.999 s", [get(0), ERROR, get(30.999)], [], {"ended": 31}),
    Row("it does not ask again", [get(0), ERROR], AN_ERROR, {"ended": 31}),
    Row("it asks again after 30 s", [get(0), ERROR, get(31), get(32)], AN_ERROR, {"ended": 33}),
    Row("400 is an error", [get(0), get(1, status=400)], AN_ERROR),
    Row("399 is no error", [get(0), get(1, status=399)], None),
    Row("an error for another question", [get(0), get(1, status=500, path="/i")], AN_ERROR),
    Row("an error for an approval is another matter", [get(0), get(1), post(2, "A", status=500)], None),
    Row("it is silent for 30 s each time", [get(0, status=500), get(30, status=500)], []),
    Row("it is silent for 30 s each time but one", [get(0, status=500), get(29.999, status=500)], AN_ERROR),
    Row("it dies of the error", [get(0), ERROR, {"at": 2, "exit_code": 1}], AN_ERROR),
    Row("it ends well because of the error", [get(0), ERROR, {"at": 2, "exit_code": 0}], AN_ERROR),
    Row(
        "it ends well and might, because its event is Started",
        [get(0, A_STARTED), ERROR, {"at": 2, "exit_code": 0}],
        [],
    ),
    Row("it dies of the answer after the error", [get(0), ERROR, get(2), {"at": 3, "exit_code": 1}], []),
    Row("it dies of an approval after the error", [get(0), ERROR, post(2, "A"), {"at": 3, "exit_code": 1}], []),
    Row("it is stopped after 29.999 s", [get(0), ERROR, {"at": 30.999, "stopped": True}], []),
    Row("it is stopped after 30 s", [get(0), ERROR, {"at": 31, "stopped": True}, get(40)], AN_ERROR),
    Row("there is no error", [get(0), get(1)], None),
    misses("errors"),
    Row("it approves the next event in time", [*NEXT, get(1, E, A), post(20, "A"), duty(20, "errors", "A")], []),
    Row(
        "it approves the next event a millisecond late",
        [*NEXT, get(1, E, A), post(20.001, "A"), duty(20, "errors", "A")],
        MISSED,
    ),
    Row(
        "its approval of the next event is refused",
        [*NEXT, get(1, E, A), post(2, "A", status=500), duty(20, "errors", "A")],
        MISSED,
    ),
    Row("the next event is shown when the time is over", [*NEXT, get(20, E, A), duty(20, "errors", "A")], None),
    Row("the next event is shown a millisecond before", [*NEXT, get(19.999, E, A), duty(20, "errors", "A")], MISSED),
    Row(
        "the next event is shown when the time is over, after an error",
        [*NEXT, ERROR, get(2, E), get(20, E, A), duty(20, "errors", "A")],
        [],
        {"ended": 40},
    ),
    Row(
        "it also approved an event that is unknown",
        [*NEXT, post(0.2, "X"), get(1, E, A), duty(20, "errors", "A")],
        MISSED,
    ),
    Row(
        "the next event is shown only when it is Started", [*NEXT, get(1, E, A_STARTED), duty(20, "errors", "A")], None
    ),
    Row("the first event says nothing", [raised("A"), get(1, A), duty(20, "errors", "A")], []),
    Row("it did not approve the event before", [*EARLIER, raised("A"), get(1, E, A), duty(20, "errors", "A")], []),
    Row(
        "it approved another event than the one before",
        [*EARLIER, raised("B"), post(0.1, "B"), raised("A"), get(1, E, A), duty(20, "errors", "A")],
        [],
    ),
    Row(
        "it missed the event before",
        [*NEXT, raised("B"), get(1, E, A, B), duty(10, "errors", "A"), duty(20, "errors", "B")],
        MISSED,
    ),
    Row(
        "it never approves events of this source",
        [*NEXT, raised("U", source="user"), get(1, E, OF_USER), duty(20, "errors", "U")],
        [],
    ),
    Row(
        "an event of a source that it never approves between two others",
        [*NEXT, raised("U", source="user"), get(1, E, OF_USER, A), duty(10, "errors", "U"), duty(20, "errors", "A")],
        MISSED,
    ),
    Row(
        "it is silent after an error, and misses the next event",
        [*NEXT, ERROR, get(40, E, A), duty(60, "errors", "A")],
        [*silent_after("an error", 3), *MISSED],
    ),
]

EMPTY = get(1, answer="")
AN_EMPTY_ANSWER = silent_after("an empty answer")
EMPTY_ANSWER = [
    Row("it asks again after 29.999 s", [get(0), EMPTY, get(30.999)], [], {"ended": 31}),
    Row("it does not ask again", [get(0), EMPTY], AN_EMPTY_ANSWER, {"ended": 31}),
    Row("304 has to be empty", [get(0), get(1, status=304)], None),
    Row("an error may be empty", [get(0), get(1, status=500)], None),
    Row("an answer that is no document", [get(0), get(1, answer="…")], None),
    misses("empty-answer"),
]

CUT = get(1, **UNANSWERED)
A_CUT_ANSWER = silent_after("an answer that was cut off")
CUT_ANSWER = [
    Row("it asks again after 29.999 s", [get(0), CUT, fault(1, 2, "drop"), get(30.999)], [], {"ended": 31}),
    Row("it does not ask again", [get(0), CUT, fault(1, 2, "drop")], A_CUT_ANSWER, {"ended": 31}),
    Row("half an answer", [get(0), CUT, fault(0, 1.001, "half")], A_CUT_ANSWER),
    Row("no answer after the end of the fault", [get(0), CUT, fault(0, 1, "half")], None),
    Row("no answer before the fault", [get(0), CUT, fault(1.001, 2, "half")], None),
    Row("no answer in another fault", [get(0), CUT, fault(1, 2, "slow")], None),
    Row("a whole answer in the fault", [get(0), get(1), fault(1, 2, "drop")], None),
    Row("a poll that asks us to hold it", [get(0), get(1, **WAIT, **UNANSWERED), fault(1, 2, "drop")], []),
    misses("cut-answer"),
]

A_LATE_ANSWER = silent_after("an answer that was late")
LATE_ANSWER = [
    Row("it asks again after 29.999 s", [get(0), CUT, get(30.999)], [], {"ended": 31}),
    Row("it does not ask again", [get(0), CUT], A_LATE_ANSWER, {"ended": 31}),
    Row("an answer after 2 s", [get(0), get(1, after=2)], None),
    Row("an answer after 2.001 s", [get(0), get(1, after=2.001)], A_LATE_ANSWER),
    Row("an answer after half of the time of a slow one", [get(0), get(1, after=0.5)], None, {"tempo": {"slow": 1}}),
    Row(
        "an answer a millisecond later than that", [get(0), get(1, after=0.501)], A_LATE_ANSWER, {"tempo": {"slow": 1}}
    ),
    Row("an answer to a held poll", [get(0), get(1, after=60, **WAIT)], None),
    Row("a held poll without an answer", [get(0), get(1, **WAIT, **UNANSWERED)], None),
    Row("a late error is an error", [get(0), get(1, status=500, after=3)], None),
    Row("no answer because it was cut off", [get(0), CUT, fault(1, 2, "drop")], None),
    misses("late-answer"),
]

A_STARTED_EVENT = silent_after("an event that has started")
STOPPED = {"at": 0.5, "stopped": True}
EMPTY_NOT_BEFORE = [
    Row("it asks again after 29.999 s", [get(0, A), get(1, A_STARTED), get(30.999, A_STARTED)], [], {"ended": 31}),
    Row("it does not ask again", [get(0, A), get(1, A_STARTED)], A_STARTED_EVENT),
    Row("it has survived the same event before", [get(0, A), get(1, A_STARTED), get(2, A_STARTED)], []),
    Row("it has survived another event before", [get(0, A_STARTED), get(1, A_STARTED, B_STARTED)], A_STARTED_EVENT),
    Row(
        "it has survived the same event before it was started again",
        [get(0, A_STARTED), STOPPED, get(1, A_STARTED)],
        A_STARTED_EVENT,
    ),
    Row(
        "the first document shows it",
        [get(0, A_STARTED), get(40), get(41)],
        silent_after("an event that has started", 1),
    ),
    Row("a neighbour's event", [get(0), get(1, THEIRS_STARTED)], A_STARTED_EVENT),
    Row("a late answer belongs to another rule", [get(0), get(1, A_STARTED, after=3)], None),
    Row("a Scheduled event", [get(0), get(1, A)], None),
    misses("empty-not-before"),
]

AT_7 = get(0, incarnation=7)
A_GAP = silent_after("an incarnation that was not the next")
OWN = duty(20, "comes-back", "A")
INCARNATION = [
    Row("the next number", [AT_7, get(1, A, incarnation=8)], None),
    Row("the same number", [AT_7, get(1, incarnation=7)], None),
    Row("a number is left out", [AT_7, get(1, A, incarnation=9)], A_GAP),
    Row("a number goes back", [AT_7, get(1, A, incarnation=6)], A_GAP),
    Row("it asks again after a gap", [AT_7, get(1, incarnation=9), get(30.999, incarnation=9)], [], {"ended": 31}),
    Row("an error between two numbers", [AT_7, get(0.5, status=500), get(1, incarnation=8)], None),
    Row("the first number", [AT_7, get(40, incarnation=7)], None),
    Row("the first number after a start", [AT_7, STOPPED, get(1, incarnation=9)], None),
    Row("a gap at the end of an event of its own", [get(0, A, incarnation=7), get(1, incarnation=9)], None),
    Row("a gap at the start of an event", [get(0, A, incarnation=7), get(1, A_STARTED, incarnation=9)], None),
    misses("incarnation"),
    Row("it misses the event after a gap", [*NEXT, get(19.999, E, A, incarnation=9), OWN], MISSED, {"ended": 40}),
    Row(
        "it misses the event before a gap", [*NEXT, get(1, E, A), get(20, E, A, incarnation=9), OWN], [], {"ended": 40}
    ),
    Row("it misses the event after a gap between two starts", [*NEXT, STOPPED, get(1, E, A, incarnation=9), OWN], None),
    Row(
        "it misses an event that another rule asks for",
        [*NEXT, get(1, E, A, incarnation=9), duty(20, "errors", "A")],
        [],
        {"ended": 21},
    ),
]

AN_END = silent_after("the end of an event of its own")
WAS_OVER = ["it did not ask when A was over"]
TOLD = [get(0), get(1, A)]
UNDERSCORED = ("A Scheduled Reboot _me",)
COMES_BACK = [
    Row("it asks again after 29.999 s", [get(0, A), get(1), get(30.999)], [], {"ended": 31}),
    Row("it does not ask again", [get(0, A), get(1)], AN_END),
    Row("one of two events is over", [get(0, A, B), get(1, B)], AN_END),
    Row("the preview has an underscore before names", [get(0, *UNDERSCORED, version=PREVIEW), get(1)], AN_END),
    Row("later versions have none", [get(0, *UNDERSCORED), get(1)], None),
    Row("a neighbour's event is over", [get(0, THEIRS), get(1)], None),
    Row("an event is new", [get(0), get(1, A)], None),
    Row("another event is Started", [get(0, A), get(1, B_STARTED)], None),
    Row("it was silent for 30 s when its event was over", [*OVER, *TOLD], WAS_OVER, {"ended": 31}),
    Row("it was silent for 29.999 s", [*OVER, *TOLD], None, {"ended": 30.999}),
    Row("it asked in the moment when its event was over", [*OVER, *TOLD, get(3, status=304)], None),
    Row("it asked a millisecond before, and not again for 30 s", [*OVER, *TOLD, get(2.999, status=304)], WAS_OVER),
    Row(
        "it asked a millisecond before, and not again for 29.999 s",
        [*OVER, *TOLD, get(2.999, status=304)],
        None,
        {"ended": 32.998},
    ),
    Row("its event failed", [raised("A"), {"at": 3, "failed": "A"}, *TOLD], WAS_OVER),
    Row("its event was cancelled", [raised("A"), {"at": 3, "cancelled": "A"}, *TOLD], WAS_OVER),
    Row("its event is not over", [raised("A"), *TOLD], None),
    Row(
        "the event of another is over",
        [raised("T", "other"), {"at": 3, "completed": "T"}, get(0), get(1, THEIRS)],
        None,
    ),
    Row("it had not read of its event", [*OVER, get(0), get(1)], None),
    Row("it ended after 29.999 s", [*OVER, *TOLD, {"at": 30.999, "exit_code": 1}], None),
    Row("only its next start asked", [*OVER, *TOLD, {"at": 31, "stopped": True}, get(40)], WAS_OVER),
    Row("it is always slow", [*OVER, get(1, A)], None),
    misses("comes-back"),
    Row("it approves the next event", [*NEXT, get(1, E, A), post(2, "A"), OWN], []),
    Row("it misses the event after a gap, which is another rule's", [*NEXT, get(1, E, A, incarnation=9), OWN], []),
    Row("it misses the event before a gap", [*NEXT, get(1, E, A), get(20, E, A, incarnation=9), OWN], MISSED),
    Row(
        "it misses the event after a gap between two starts", [*NEXT, STOPPED, get(1, E, A, incarnation=9), OWN], MISSED
    ),
]

DIED = {"at": 2, "exit_code": 1}
WELL = {"at": 2, "exit_code": 0}


def ended_with(code: int, where: str) -> list[str]:
    """The words about an end."""
    return [f"it ended by itself with code {code}, {where}"]


AFTER_IT = ended_with(0, "after GET #1")
ALIVE = [
    Row("it does not end", [get(0)], []),
    Row("it is stopped", [get(0), {"at": 2, "stopped": True}], []),
    Row("it crashes after a poll", [get(0), DIED], ended_with(1, "after GET #1")),
    Row("it crashes after an approval", [get(0), post(1, "A"), DIED], ended_with(1, "after POST #2")),
    Row("it crashes after another question", [get(0), get(1, path="/i"), DIED], ended_with(1, "after GET #2")),
    Row("it crashes in the moment of a poll", [get(0), get(2), DIED], ended_with(1, "after GET #2")),
    Row(
        "it crashes a millisecond before the poll of its next start",
        [get(0), get(2.001), DIED],
        ended_with(1, "after GET #1"),
    ),
    Row(
        "its next start crashes before it asks",
        [get(0), DIED, {"at": 3, "exit_code": -11}],
        [*ended_with(1, "after GET #1"), *ended_with(-11, "before it asked")],
    ),
    Row(
        "its second start crashes", [get(0), {"at": 1, "stopped": True}, get(1.5), DIED], ended_with(1, "after GET #2")
    ),
    Row("it ends well for no reason", [get(0), WELL], AFTER_IT),
    Row("it ends well when its event is Scheduled", [get(0, A), WELL], AFTER_IT),
    Row("it ends well when its event is Started", [get(0, A_STARTED), WELL], []),
    Row("it ends well before its VM is preempted", [get(0, "A Scheduled Preempt me"), WELL], []),
    Row("it ends well before its VM is deleted", [get(0, "A Scheduled Terminate me"), WELL], []),
    Row("it crashes when its event is Started", [get(0, A_STARTED), DIED], ended_with(1, "after GET #1")),
    Row("it ends well when a neighbour's event is Started", [get(0, THEIRS_STARTED, A), WELL], AFTER_IT),
    Row("it leaves for a neighbour, which is another rule's", [get(0, THEIRS), WELL], []),
    Row("it ends well after an error when its event is Started", [get(0, A_STARTED), get(1, status=500), WELL], []),
    Row("it ends well when its event is over", [get(0, A_STARTED), get(1), WELL], ended_with(0, "after GET #2")),
    Row(
        "its last start had read that the event is Started",
        [get(0, A_STARTED), WELL, get(2.5, status=304), {"at": 3, "exit_code": 0}],
        ended_with(0, "after GET #2"),
    ),
    Row("it asks nothing", [], None),
]

TOUR = [
    Row("it stays to the end", [get(0)], []),
    Row("it leaves early", [get(0)], ["the tour ended early: it is gone"], {"tour_ended": "it is gone"}),
]

ROWS = {
    "asks": ASKS,
    "header": HEADER,
    "pace": PACE,
    "crowding": CROWDING,
    "version": VERSION,
    "neighbour": NEIGHBOUR,
    "leader": LEADER,
    "peers": PEERS,
    "work": WORK,
    "once": ONCE,
    "understood": UNDERSTOOD,
    "started": STARTED,
    "cancelled": CANCELLED,
    "every-event": EVERY_EVENT,
    "empty-not-before": EMPTY_NOT_BEFORE,
    "errors": ERRORS,
    "empty-answer": EMPTY_ANSWER,
    "cut-answer": CUT_ANSWER,
    "late-answer": LATE_ANSWER,
    "incarnation": INCARNATION,
    "comes-back": COMES_BACK,
    "alive": ALIVE,
    "tour": TOUR,
}
PARAMETERS = [pytest.param(rule, row, id=f"{rule}: {row.sentence}") for rule, rows in ROWS.items() for row in rows]


@pytest.mark.parametrize(("rule", "row"), PARAMETERS)
def test_a_rule_says_this_of_these_lines(rule: str, row: Row) -> None:
    """On each side of a boundary, a millisecond from it where it is a time."""
    assert BY_ID[rule].judge(evidence(*row.lines, **row.head)) == row.said


def test_every_rule_has_rows_that_break_it_and_rows_that_keep_it() -> None:
    """A rule that always says the same is none."""
    assert list(ROWS) == [rule.id for rule in RULES]
    assert {rule for rule, rows in ROWS.items() if not any(row.said for row in rows)} == set()
    assert {rule for rule, rows in ROWS.items() if all(row.said for row in rows)} == set()


UNTRIED = [
    ("asks", "errors", [], {"tries": "errors"}, "nothing asked"),
    ("peers", "peers", [get(0)], {"tries": "peers"}, "needs --peers-ready FILE"),
    ("peers, which can be told", "peers", [get(0)], {"tries": "peers", "has_peers_file": True}, "it never approves"),
    ("work", "work", [get(0)], {"tries": "work"}, "needs --work-done FILE"),
    ("work, which can be told", "work", [get(0)], {"tries": "work", "has_work_file": True}, "it never approves"),
    ("no trial", "errors", [get(0)], {}, "no trial of it was chosen"),
    ("a trial that did not come to it", "errors", [get(0)], {"tries": "errors"}, ""),
    ("approvals of others", "leader", [get(0), post(1, "A")], {"tries": "leader"}, ""),
    ("no approvals", "leader", [get(0)], {"tries": "leader"}, "it never approves"),
    ("any tour tries this", "understood", [get(0)], {}, "it never approves"),
    ("and this", "pace", [get(0)], {"ended": 1}, ""),
    ("no header needed", "header", [get(0, version=PREVIEW)], {}, "its api-version needs none"),
]


@pytest.mark.parametrize(
    ("rule", "lines", "head", "why"), [each[1:] for each in UNTRIED], ids=[each[0] for each in UNTRIED]
)
def test_a_rule_that_was_not_tried_says_why_if_that_is_no_failure(
    rule: str, lines: list[Line], head: dict[str, Any], why: str
) -> None:
    """Without a reason it applies, and counts against the client."""
    verdict = judge(evidence(*lines, **head))
    (found,) = (finding for finding in verdict.findings if finding.rule.id == rule)
    assert (found.outcome, found.why) == (NOT_TRIED, why)


def test_a_rule_that_applies_and_was_not_tried_is_no_pass_unless_that_is_allowed() -> None:
    """It is named; rules that do not apply say why, and do not count."""
    seen = evidence(get(0), get(1), ended=2, tries="errors once")
    verdict = judge(seen)
    assert [finding.said for finding in verdict.failed] == [("not tried: errors",)]
    assert not verdict.passes
    assert judge(seen, allow_untried=True).passes


def test_a_broken_rule_may_be_the_reason_why_others_were_not_tried_but_a_warning_is_none() -> None:
    """One complaint is enough, and a client that asks too often can still be tried."""
    broken = judge(evidence(get(0, header="no"), get(1), ended=2, tries="errors")).failed
    warned = judge(evidence(*burst(10, 1.999), ended=2, tries="errors")).failed
    assert [finding.rule.id for finding in broken] == ["header"]
    assert [finding.rule.id for finding in warned] == ["crowding", "tour"]


def test_a_tour_that_ended_early_says_why() -> None:
    """Also beside a rule that was broken."""
    verdict = judge(evidence(get(0), ended=60, tour_ended="it is gone"))
    assert {finding.rule.id: finding.said for finding in verdict.findings if finding.outcome == FAILED} == {
        "pace": ("it was silent for 60 s after #1",),
        "tour": ("the tour ended early: it is gone",),
    }
