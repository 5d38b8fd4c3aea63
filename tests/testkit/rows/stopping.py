"""Rows about why a client stopped asking, and what it did after something unusual."""

from duenotice.testkit.verdicts.evidence import PREVIEW
from tests.testkit.rows.lines import (
    A_STARTED,
    B_STARTED,
    EARLIER,
    OF_USER,
    OVER,
    THEIRS,
    THEIRS_STARTED,
    UNANSWERED,
    WAIT,
    A,
    B,
    E,
    Row,
    duty,
    fault,
    get,
    post,
    raised,
)


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
    Row(
        "it hangs at an event after a gap as it did without one",
        [AT_7, get(1, A, incarnation=8), get(40, incarnation=9), get(41, B, incarnation=11)],
        [],
    ),
    Row(
        "it hangs after a gap without an event, and hung at an event",
        [AT_7, get(1, A, incarnation=8), get(40, A, incarnation=10), get(80, A, incarnation=11)],
        silent_after("an incarnation that was not the next", 3),
    ),
    Row(
        "it hangs at an event after a gap, and did not hang at one without",
        [AT_7, get(1, A, incarnation=8), get(2, incarnation=9), get(3, B, incarnation=11)],
        silent_after("an incarnation that was not the next", 4),
    ),
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
    *(
        Row(
            f"it ends with code {code} before its VM is {word}",
            [get(0, f"A Scheduled {kind} me"), WELL | {"exit_code": code}],
            [],
        )
        for word, kind in (("preempted", "Preempt"), ("deleted", "Terminate"))
        for code in (0, 1, -2, -15, 130, 143)
    ),
    *(
        Row(
            f"it crashes with code {code} before its VM is preempted",
            [get(0, "A Scheduled Preempt me"), WELL | {"exit_code": code}],
            ended_with(code, "after GET #1"),
        )
        for code in (2, -6, -9, -11, 127, 137)
    ),
    *(
        Row(f"it ends with code {code} when its event is Started", [get(0, A_STARTED), WELL | {"exit_code": code}], [])
        for code in (-2, -15, 130, 143)
    ),
    Row("it crashes when its event is Started", [get(0, A_STARTED), DIED], ended_with(1, "after GET #1")),
    Row("it ends by SIGTERM for no reason", [get(0), WELL | {"exit_code": -15}], ended_with(-15, "after GET #1")),
    Row(
        "it ends by SIGTERM when its event is Scheduled",
        [get(0, A), WELL | {"exit_code": -15}],
        ended_with(-15, "after GET #1"),
    ),
    Row(
        "it ends well before a neighbour is preempted and itself rebooted",
        [get(0, "T Scheduled Preempt other", A), WELL],
        AFTER_IT,
    ),
    Row("it crashes for a neighbour, which is another rule's", [get(0, THEIRS), DIED], []),
    Row(
        "it crashes at the empty NotBefore of a neighbour",
        [get(0, THEIRS), get(1, THEIRS_STARTED), DIED],
        ended_with(1, "after GET #2"),
    ),
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
    "errors": ERRORS,
    "empty-answer": EMPTY_ANSWER,
    "cut-answer": CUT_ANSWER,
    "late-answer": LATE_ANSWER,
    "empty-not-before": EMPTY_NOT_BEFORE,
    "incarnation": INCARNATION,
    "comes-back": COMES_BACK,
    "alive": ALIVE,
    "tour": TOUR,
}
