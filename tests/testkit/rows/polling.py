"""Rows about how a client asks."""

from duenotice.testkit.verdicts.evidence import PREVIEW
from tests.testkit.rows.lines import UNANSWERED, WAIT, A, Row, fault, get, post
from tests.testkit.transcript import Line

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
    Row(
        "a poll as in 2016 needs none",
        [get(0, header=None, version=None, path="/metadata/latest/scheduledevents")],
        None,
    ),
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
    Row(
        "30 s after its own Preempt, where nobody can see whether it ended",
        [get(0), get(1, "A Scheduled Preempt me")],
        [],
        {"ended": 31, "ends_unseen": True},
    ),
    Row(
        "30 s after its own Preempt, where it is seen that it did not end",
        [get(0), get(1, "A Scheduled Preempt me")],
        ["it was silent for 30 s after #2"],
        {"ended": 31},
    ),
    Row(
        "30 s after its own Preempt, and then it asks again",
        [get(0), get(1, "A Scheduled Preempt me"), get(31), get(32)],
        ["it was silent for 30 s after #2"],
        {"ended": 33, "ends_unseen": True},
    ),
    Row(
        "30 s after a neighbour's Preempt, where nobody can see whether it ended",
        [get(0), get(1, "T Scheduled Preempt other")],
        ["it was silent for 30 s after #2"],
        {"ended": 31, "ends_unseen": True},
    ),
    Row(
        "30 s after its own Reboot, where nobody can see whether it ended",
        [get(0), get(1, A)],
        ["it was silent for 30 s after #2"],
        {"ended": 31, "ends_unseen": True},
    ),
    Row(
        "30 s after an error that came after its own Terminate, where nobody can see whether it ended",
        [get(0, "A Scheduled Terminate me"), get(1, status=500)],
        [],
        {"ended": 31, "ends_unseen": True},
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


IN_2016 = "/metadata/latest/scheduledevents"
OF_2016 = f"it asks {IN_2016}, the path of 2016, which is answered like api-version {PREVIEW}"
OLD = ["it asks for api-version 2017-08-01"]
VERSION = [
    Row("the oldest version that fits", versions("2017-11-01"), []),
    Row("the version before the oldest that fits", versions("2017-08-01"), OLD),
    Row("a good version beside an old one", versions("2020-07-01", "2017-08-01"), OLD),
    Row("no version", versions(None), ["it asks without an api-version"]),
    Row(
        "a version that does not exist",
        versions("2018-05-05"),
        ["it asks for api-version 2018-05-05, which does not exist"],
    ),
    Row("a version that does not exist, then one that does", versions("2018-05-05", "2020-07-01"), []),
    Row("older than all", versions("2016-01-01"), ["it asks for api-version 2016-01-01, which does not exist"]),
    Row(
        "a version that may exist one day",
        versions("2031-01-01"),
        ["it asks for api-version 2031-01-01, which is newer than all that are known"],
    ),
    Row("newer than all, and no date", versions("latest"), ["it asks for api-version latest, which does not exist"]),
    Row("newer than all, then the newest", versions("2031-01-01", "2020-07-01"), []),
    Row("the path of 2016", [get(0, version=None, path=IN_2016)], [OF_2016]),
    Row(
        "the path of 2016 in other letters", [get(0, version=None, path="/Metadata/Latest/ScheduledEvents/")], [OF_2016]
    ),
    Row("the path of 2016, then a good version", [get(0, version=None, path=IN_2016), get(1)], [OF_2016]),
    Row("a long version is cut", versions("1" * 21), [f"it asks for api-version {'1' * 20}, which does not exist"]),
    Row("an old version of an approval", [get(0), post(1, "A", version="2017-08-01")], OLD),
    Row("an old version in a fault", [get(0, version="2017-08-01"), fault(0, 1)], None),
    Row("an old version a millisecond before a fault", [get(0, version="2017-08-01"), fault(0.001, 1)], OLD),
    Row("an old version at the end of a fault", [get(1, version="2017-08-01"), fault(0, 1)], OLD),
    Row("an old version in the second fault", [get(3, version="2017-08-01"), fault(0, 1), fault(2, 4)], None),
    Row("an old version while answers are late, but right", [get(0, version="2017-08-01"), fault(0, 1, "late")], OLD),
    Row("an old version of another question", [get(0, version="2017-08-01", path="/i")], None),
]

ROWS = {
    "asks": ASKS,
    "header": HEADER,
    "pace": PACE,
    "crowding": CROWDING,
    "version": VERSION,
}
