"""How a node takes part in a cluster: the table of phases and messages, row by row; see `engine/standing.py`."""

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

import pytest

from duenotice.engine import membership as m
from duenotice.engine.members import Appended, Applied, Changed, Head, Hid, Hold, Member, MemberBeat, Shown, Sight
from duenotice.engine.membership import MEMBERS, NodePhase, Seen, Standing, Terms
from duenotice.engine.standing import RULES, may_answer, step

TERMS = Terms(lease=6000)
NOW = 100_000
EVERY, RIGHT = TERMS.every, TERMS.right


def node(phase: NodePhase, **fields: Any) -> Standing:
    """A node that has nothing to do: it has folded and shown all ten records, and beats later."""
    known: dict[str, Any] = {
        "known": 10,
        "folded": 10,
        "said_applied": 10,
        "held": 10,
        "said": 10,
        "revealed": 10,
        "seen": 10,
        "may_hold": 10,
        "may_show": 10,
        "next_call": NOW + 1,
    }
    leads: dict[str, Any] = {
        "epoch": 3,
        "leader": "me" if phase is NodePhase.LEADING else "you",
        "others": {"you": Seen(5, NOW - 10, 10, 10, NOW - 10)},
    }
    return Standing("me", TERMS, phase)._replace(**{**known, **leads, **fields})


def member(life: str, beat: int = 5, hidden: int = 10) -> Member:
    return Member(life, f"node-{life}", "", "1", beat, hidden)


def sight(leader: str = "you", *members: Member, position: int = 10, shown: int = 10, epoch: int = 3) -> Sight:
    return Sight(Head(position, shown, epoch, leader), members or (member("me"), member("you")))


def a_copy(leader: str) -> Sight:
    seen = sight(leader)
    return seen._replace(head=seen.head._replace(is_copy=True))


REGISTERING, READING, JOINING = NodePhase.REGISTERING, NodePhase.READING, NodePhase.JOINING
FOLLOWING, LEADING, LEAVING, ENDED = NodePhase.FOLLOWING, NodePhase.LEADING, NodePhase.LEAVING, NodePhase.ENDED


LONG_AGO = NOW - m.PROMPT - 1
APPLIED: dict[str, Any] = {"known": 12, "folded": 12, "said_applied": 12}
HELD: dict[str, Any] = {**APPLIED, "may_hold": 12, "held": 12, "said": 12}
HID_LONG_AGO: dict[str, Any] = {**HELD, "said_at": LONG_AGO}


class Row(NamedTuple):
    """A message, what it changes and what is done then."""

    says: str
    before: Standing
    message: m.Message
    changes: Mapping[str, object]
    actions: tuple[m.Action, ...] = ()


CALLED = {"calling": True, "next_call": NOW + EVERY}
BEATING = {**CALLED, "at_beat": (3, 10, 10, NOW)}
PROVING = {"prove_since": NOW, "reading": 10}
NEW = Standing("me", TERMS)
LOST = (3, 10, 12, NOW - 500)
SILENT = {"you": Seen(5, NOW - TERMS.lease, 10, 10, NOW - TERMS.lease)}

ROWS = [
    # --- before it is a member ---
    Row("it registers", NEW, m.TimePassed(), CALLED, (m.Register(),)),
    Row("it waits for the answer", NEW._replace(calling=True), m.TimePassed(), {}),
    Row("not all the time", NEW._replace(next_call=NOW + 1), m.TimePassed(), {}),
    Row("a failed call is over", NEW._replace(calling=True), m.CallBroke(m.Register()), {"calling": False}),
    Row(
        "what is there is read before it joins (N07)",
        NEW._replace(calling=True),
        m.Registered(sight()),
        {"phase": READING, "calling": False, "known": 10, "reading": 10},
        (m.Read(10),),
    ),
    Row(
        "an empty journal is read at once",
        NEW._replace(calling=True),
        m.Registered(sight(position=0)),
        {"phase": JOINING, "next_call": NOW + EVERY},
        (m.Join(0),),
    ),
    Row(
        "it goes away before it was there",
        NEW,
        m.Stop(),
        {"phase": ENDED},
        (m.Leave(),),
    ),
    Row(
        "all is read: it joins",
        node(READING, folded=4, said_applied=4, held=4, said=4, revealed=0, reading=10),
        m.Folded(10),
        {"phase": JOINING, "folded": 10, "said_applied": 10, "held": 10, "said": 10, "reading": 0, **CALLED},
        (m.Join(10),),
    ),
    Row(
        "more has come: it reads on",
        node(READING, known=12, folded=4, reading=10),
        m.Folded(10),
        {"folded": 10, "reading": 12},
        (m.Read(12),),
    ),
    Row(
        "what it was told of and is not there is lost: it joins without it (N14)",
        node(READING, known=14, folded=10, may_show=14, answers_from=13, must_fold=12, reading=12),
        m.Folded(11, asked=12),
        {
            "phase": JOINING,
            "known": 11,
            "folded": 11,
            "said_applied": 11,
            "held": 11,
            "said": 11,
            "may_show": 10,
            "answers_from": 11,
            "must_fold": 11,
            "reading": 0,
            **CALLED,
        },
        (m.Join(11),),
    ),
    Row(
        "what it wrote itself counts as read",
        node(READING, known=11),
        m.Wrote(11),
        {"phase": JOINING, "folded": 11, "said_applied": 11, "held": 11, "said": 11, **CALLED},
        (m.Join(11),),
    ),
    Row("a failed read is tried again", node(READING, known=12), m.TimePassed(), {"reading": 12}, (m.Read(12),)),
    Row("who has read all joins", node(READING), m.TimePassed(), {"phase": JOINING, **CALLED}, (m.Join(10),)),
    Row("it hears of more", node(READING), m.HeardFromStore(Appended(12)), {"known": 12, "reading": 12}, (m.Read(12),)),
    Row("it does not need to know who leads", node(READING), m.HeardFromStore(Changed()), {}),
    Row("reading failed", node(READING, reading=12), m.CallBroke(m.Read(12)), {"reading": 0}),
    Row("it goes while it reads", node(READING), m.Stop(), {"phase": ENDED}, (m.Leave(),)),
    Row("it joins again if that failed", node(JOINING, next_call=NOW), m.TimePassed(), CALLED, (m.Join(10),)),
    Row("it joins but once at a time", node(JOINING, calling=True), m.TimePassed(), {}),
    Row(
        "as a member it reads what came between, and beats (N07)",
        node(JOINING, calling=True, may_show=9, revealed=0),
        m.Joined(Head(12, 11, 3, "you")),
        {
            "phase": FOLLOWING,
            "next_call": NOW + EVERY,
            "at_beat": (3, 10, 12, NOW),
            "known": 12,
            "reading": 12,
            "may_show": 11,
            "answers_from": 12,
            "prove_since": NOW,
        },
        (m.Beat(), m.Read(12)),
    ),
    Row("it folds while it joins", node(JOINING, known=12), m.Folded(12), {"folded": 12}),
    Row("or has written before", node(JOINING, known=12), m.Wrote(12), {"folded": 12}),
    Row("it hears of more", node(JOINING), m.HeardFromStore(Appended(12)), {"known": 12, "reading": 12}, (m.Read(12),)),
    Row("it goes while it joins", node(JOINING), m.Stop(), {"phase": ENDED}, (m.Leave(),)),
    Row("joining failed", node(JOINING, calling=True), m.CallBroke(m.Join(10)), {"calling": False}),
    *[
        row
        for phase in (READING, JOINING, FOLLOWING, LEADING, LEAVING)
        for row in [
            Row(
                "it waits for its followers",
                node(phase, known=12, reading=12),
                m.HasRead(12),
                {"below": (12, NOW + 2 * TERMS.lease)},
            ),
            Row("what it held before is held", node(phase, known=12, reading=12, holding=10), m.Held(9), {}),
            Row("what VMs see is known when they see it (S27)", node(phase, seen=8), m.Revealed(9), {"seen": 9}),
            Row("it waits for them again", node(phase, below=(12, NOW + 1)), m.HasRead(12), {}),
        ]
    ],
    Row(
        "who joins again looks whether what it has read is what is stored (N14)",
        node(JOINING),
        m.Joined(Head(10, 10, 3, "you")),
        {"phase": FOLLOWING, "answers_from": 10, **BEATING, **PROVING},
        (m.Beat(), m.Read(10)),
    ),
    Row(
        "whom it has watched before it joined was silent since then (N04)",
        node(JOINING, others=SILENT),
        m.Joined(Head(10, 10, 3, "you")),
        {"phase": FOLLOWING, "answers_from": 10, **BEATING, **PROVING},
        (m.Beat(), m.Read(10)),
    ),
    Row(
        "what is read then proves it",
        node(FOLLOWING, prove_since=NOW - 7, reading=10),
        m.Folded(10, 10, begun=NOW - 7),
        {"prove_since": 0, "reading": 0},
    ),
    Row(
        "what was read before does not",
        node(FOLLOWING, prove_since=NOW - 7, reading=10),
        m.Folded(10, 10, begun=NOW - 8),
        {},
        (m.Read(10),),
    ),
    Row(
        "a proof that failed is tried again",
        node(FOLLOWING, prove_since=NOW - 7),
        m.TimePassed(),
        {"reading": 10},
        (m.Read(10),),
    ),
    # --- beats (N05) ---
    *[
        row
        for phase in (FOLLOWING, LEADING, LEAVING)
        for row in [
            Row(f"{phase.value}: it beats", node(phase, next_call=NOW), m.TimePassed(), BEATING, (m.Beat(),)),
            Row(f"{phase.value}: one beat at a time", node(phase, next_call=NOW, calling=True), m.TimePassed(), {}),
            Row(
                f"{phase.value}: who has not hidden what it knew of does not beat",
                node(phase, next_call=NOW, known=12, must_fold=12, reading=12),
                m.TimePassed(),
                {},
            ),
            Row(
                f"{phase.value}: who waits only for its followers beats",
                node(phase, next_call=NOW, known=12, must_fold=12, reading=12, below=(12, NOW + 1)),
                m.TimePassed(),
                {**BEATING, "at_beat": (3, 10, 12, NOW)},
                (m.Beat(),),
            ),
            *[
                Row(
                    f"{phase.value}: but not for {why}",
                    node(phase, next_call=NOW, known=12, must_fold=12, reading=12, below=below),
                    m.TimePassed(),
                    {},
                )
                for why, below in {"ever": (12, NOW), "what they are not asked for": (11, NOW + 1)}.items()
            ],
            Row(
                f"{phase.value}: the right counts from before the beat was sent",
                node(phase, calling=True, right_until=NOW - 499),
                m.Beaten(NOW - 500, sight("me" if phase is LEADING else "you")),
                {"calling": False, "right_until": NOW - 500 + RIGHT, "must_fold": 10},
            ),
            Row(
                f"{phase.value}: a late answer takes no right away",
                node(phase, calling=True, right_until=NOW + RIGHT),
                m.Beaten(NOW - 500, sight("me" if phase is LEADING else "you")),
                {"calling": False, "must_fold": 10},
            ),
            *[
                Row(
                    f"{phase.value}: the store has lost something since the beat was sent (N14)",
                    node(phase, calling=True, right_until=NOW + 1, at_beat=(*known, 11, NOW - 500)),
                    m.Beaten(NOW - 500, sight("you")),
                    {"phase": ENDED, "right_until": 0},
                    (
                        *([m.Follow()] if phase is LEADING else []),
                        m.BeginAgain(),
                    ),
                )
                for known in ((3, 11), (4, 10))
            ],
            Row(
                f"{phase.value}: what was told and never read is lost: it is not waited for, nor shown (N14)",
                node(
                    phase, calling=True, right_until=NOW + RIGHT, known=12, may_show=12, answers_from=12, at_beat=LOST
                ),
                m.Beaten(NOW - 500, sight("me" if phase is LEADING else "you")),
                {"calling": False, "must_fold": 10, "known": 10, "may_show": 10, "answers_from": 10},
            ),
            Row(
                f"{phase.value}: on another server nobody is answered longer, until a leader has stored there (N14)",
                node(phase, calling=True, right_until=NOW + 1),
                m.Beaten(NOW - 500, a_copy("me" if phase is LEADING else "you")),
                {"calling": False, "must_fold": 10},
                (m.StoreHere(),) if phase is LEADING else (),
            ),
            *[
                Row(
                    f"{phase.value}: a right that was over begins again with all that is stored (N14)",
                    node(phase, calling=True, right_until=NOW - 500),
                    m.Beaten(NOW - 500, seen("me" if phase is LEADING else "you")),
                    {"calling": False, "must_fold": 10, **changes, **({} if phase is LEADING else PROVING)},
                    ((m.StoreHere(),) if seen is a_copy else ()) if phase is LEADING else (m.Read(10),),
                )
                for seen, changes in (
                    (sight, {"right_until": NOW - 500 + RIGHT, "answers_from": 10}),
                    (a_copy, {"answers_from": 11}),
                )
                if phase is not LEADING or seen is sight
            ],
            Row(
                f"{phase.value}: what was told since the beat was sent is not lost",
                node(phase, calling=True, right_until=NOW + RIGHT, known=12, at_beat=(3, 10, 11, NOW - 500)),
                m.Beaten(NOW - 500, sight("me" if phase is LEADING else "you")),
                {"calling": False, "must_fold": 10, "reading": 12},
                (m.Read(12),),
            ),
            Row(
                f"{phase.value}: the answer to an earlier beat may say less",
                node(phase, calling=True, right_until=NOW + RIGHT, at_beat=(3, 11, 11, NOW - 499)),
                m.Beaten(NOW - 500, sight("me" if phase is LEADING else "you")),
                {"calling": False, "must_fold": 10},
            ),
            Row(
                f"{phase.value}: a beat got lost", node(phase, calling=True), m.CallBroke(m.Beat()), {"calling": False}
            ),
            Row(
                f"{phase.value}: records are stored: it reads and hides them (N06)",
                node(phase),
                m.HeardFromStore(Appended(12)),
                {"known": 12, "reading": 12},
                (m.Read(12),),
            ),
            Row(
                f"{phase.value}: it is read once", node(phase, known=12, reading=12), m.HeardFromStore(Appended(12)), {}
            ),
            Row(f"{phase.value}: old news", node(phase), m.HeardFromStore(Appended(7)), {}),
            Row(f"{phase.value}: old news", node(phase), m.HeardFromStore(Shown(7)), {}),
            Row(
                f"{phase.value}: who leads may have changed", node(phase), m.HeardFromStore(Changed()), {}, (m.Look(),)
            ),
            Row(f"{phase.value}: news of a stranger", node(phase), m.HeardFromStore(Hid("else", 12)), {}),
            Row(
                f"{phase.value}: somebody has hidden",
                node(phase),
                m.HeardFromStore(Hid("you", 12)),
                {"others": {"you": Seen(5, NOW - 10, 12, 10, NOW)}},
            ),
            Row(
                f"{phase.value}: somebody has applied",
                node(phase),
                m.HeardFromStore(Applied("you", 12)),
                {"others": {"you": Seen(5, NOW - 10, 10, 12, NOW)}},
            ),
            Row(
                f"{phase.value}: the leader lives, and it has not looked yet",
                node(phase),
                m.HeardFromStore(MemberBeat("you", 6)),
                {"others": {"you": Seen(6, NOW, 10, 10, NOW)}},
            ),
            Row(f"{phase.value}: an old beat", node(phase), m.HeardFromStore(MemberBeat("you", 5)), {}),
            Row(f"{phase.value}: a beat of a stranger", node(phase), m.HeardFromStore(MemberBeat("else", 6)), {}),
            Row(
                f"{phase.value}: all have applied it: it holds it, and nothing else is read or shown for that (N19)",
                node(phase, **APPLIED),
                m.HeardFromStore(Hold(12)),
                {"may_hold": 12, "holding": 12},
                (m.HoldUpTo(12),),
            ),
            Row(
                f"{phase.value}: it holds it once",
                node(phase, **APPLIED, holding=12),
                m.HeardFromStore(Hold(12)),
                {"may_hold": 12},
            ),
            Row(
                f"{phase.value}: what it has not read yet is read first",
                node(phase),
                m.HeardFromStore(Hold(12)),
                {"known": 12, "may_hold": 12, "reading": 12},
                (m.Read(12),),
            ),
            Row(
                f"{phase.value}: if it has read more, it waits until all hold that",
                node(phase, **APPLIED),
                m.HeardFromStore(Hold(11)),
                {"may_hold": 11},
            ),
            Row(
                f"{phase.value}: what is hidden may be shown",
                node(phase, **HELD),
                m.HeardFromStore(Shown(12)),
                {"may_show": 12, "revealed": 12},
                (m.Reveal(12),),
            ),
            Row(
                f"{phase.value}: nothing is shown that it has not hidden, so these are news of something lost (N06)",
                node(phase),
                m.HeardFromStore(Shown(12)),
                {"known": 12, "reading": 12},
                (m.Read(12),),
            ),
            Row(
                f"{phase.value}: nothing is shown if more is stored, which may have a longer notice (S2)",
                node(phase, **{**HELD, "known": 13, "reading": 13}, said_at=LONG_AGO),
                m.HeardFromStore(Shown(12)),
                {"may_show": 12} if phase is LEADING else {},
                () if phase is LEADING else (m.Look(),),
            ),
            *[
                Row(
                    f"{phase.value}: but what it held a moment ago is, as it comes in time and would wait for the rest",
                    node(phase, **{**HELD, "known": 13}, said_at=LONG_AGO + 1),
                    m.HeardFromStore(Shown(12)),
                    {"may_show": 12, "revealed": 12, "reading": 13},
                    (m.Reveal(12), m.Read(13)),
                )
                for _ in range(phase is not LEADING)
            ],
            Row(
                f"{phase.value}: news may be late, and by now a longer notice may be stored: it looks first (S2)",
                node(phase, **HID_LONG_AGO),
                m.HeardFromStore(Shown(12)),
                {"may_show": 12, "revealed": 12} if phase is LEADING else {},
                (m.Reveal(12),) if phase is LEADING else (m.Look(),),
            ),
            *[
                Row(
                    f"{phase.value}: a late look counts when the leader has beaten twice since (S2): {beat}",
                    node(phase, **HID_LONG_AGO, doubt=doubt),
                    m.Looked(
                        sight("you", member("me", hidden=12), member("you", beat), position=12, shown=12), LONG_AGO
                    ),
                    {"others": {"you": Seen(beat, NOW, 10, 10, NOW)}, **changes},
                    actions,
                )
                for beat, doubt, changes, actions in (
                    (6, (0, "", 0), {"doubt": (12, "you", 6)}, ()),
                    (7, (12, "you", 6), {}, ()),
                    (8, (12, "you", 6), {"may_show": 12, "revealed": 12}, (m.Reveal(12),)),
                    (8, (12, "another", 1), {"doubt": (12, "you", 8)}, ()),
                )
                if phase is FOLLOWING
            ],
            Row(
                f"{phase.value}: nothing is shown that is only part of what is folded",
                node(phase, **HELD, said_at=NOW),
                m.HeardFromStore(Shown(11)),
                {"may_show": 11},
            ),
            Row(
                f"{phase.value}: a look tells of new records",
                node(phase),
                m.Looked(sight("me" if phase is LEADING else "you", position=12)),
                {"known": 12, "reading": 12},
                (m.Read(12),),
            ),
            Row(f"{phase.value}: an old look", node(phase), m.Looked(sight("else", epoch=2)), {}),
            Row(f"{phase.value}: a look without us", node(phase), m.Looked(sight("you", member("you"))), {}),
            Row(
                f"{phase.value}: a new beat of another, by our own clock (N04)",
                node(phase),
                m.Looked(sight("me" if phase is LEADING else "you", member("me"), member("you", beat=6))),
                {"others": {"you": Seen(6, NOW, 10, 10, NOW)}},
            ),
            Row(
                f"{phase.value}: another replaces us (N03)",
                node(phase, right_until=NOW + 1),
                m.WasReplaced(),
                {"phase": ENDED, "right_until": 0},
                (
                    *([m.Follow()] if phase is LEADING else []),
                    m.End("Another process has registered as this node."),
                ),
            ),
            Row(
                f"{phase.value}: the doors are closed",
                node(phase, right_until=NOW + 1),
                m.Closed(),
                {"phase": ENDED, "right_until": 0},
                (*([m.Follow()] if phase is LEADING else []), m.Leave()),
            ),
        ]
    ],
    # --- following ---
    *[
        row
        for phase in (FOLLOWING, LEAVING)
        for row in [
            Row(
                f"{phase.value}: it says what it has applied, and shows what was before (N19)",
                node(phase, known=12, reading=12),
                m.Folded(12),
                {"folded": 12, "reading": 0, "said_applied": 12},
                (m.SayApplied(12),),
            ),
            Row(
                f"{phase.value}: it says what it holds (N06)",
                node(phase, **APPLIED, may_hold=12, holding=12),
                m.Held(12),
                {"held": 12, "said": 12},
                (m.SayHidden(12),),
            ),
            Row(
                f"{phase.value}: of what it does not answer with yet it holds all that it has read (N07)",
                node(phase, known=12, reading=12, answers_from=12, revealed=0, may_show=9),
                m.Folded(12),
                {"folded": 12, "reading": 0, "said_applied": 12, "held": 12, "said": 12},
                (m.SayApplied(12), m.SayHidden(12)),
            ),
            Row(
                f"{phase.value}: what is not there any more is not read again and again (N14)",
                node(phase, known=14, reading=14, must_fold=14, may_show=14),
                m.Folded(12, asked=14),
                {
                    "known": 12,
                    "folded": 12,
                    "reading": 0,
                    "said_applied": 12,
                    "must_fold": 12,
                    "may_show": 10,
                },
                (m.SayApplied(12),),
            ),
            Row(
                f"{phase.value}: what it wrote while it led is applied too",
                node(phase),
                m.Wrote(12),
                {"known": 12, "folded": 12, "said_applied": 12},
                (m.SayApplied(12),),
            ),
            Row(
                f"{phase.value}: what got lost is said again",
                node(phase),
                m.Looked(sight("you", member("me", hidden=8), member("you"))),
                {},
                (m.SayApplied(10), m.SayHidden(10)),
            ),
            Row(f"{phase.value}: a call failed", node(phase), m.CallBroke(m.SayHidden(10)), {}),
        ]
    ],
    Row(
        "nobody leads: it takes over at once",
        node(FOLLOWING),
        m.Looked(sight("")),
        {"leader": ""},
        (m.TakeOver(3, 0),),
    ),
    Row(
        "not when it has just handed over",
        node(FOLLOWING, no_lead_before=NOW + 1),
        m.Looked(sight("")),
        {"leader": ""},
    ),
    Row(
        "not before it has read all",
        node(FOLLOWING, known=12, reading=12),
        m.Looked(sight("")),
        {"leader": ""},
    ),
    Row(
        "the leader was silent for a lease by our own clock (N04)",
        node(FOLLOWING, others=SILENT),
        m.Looked(sight("you")),
        {},
        (m.TakeOver(3, 5),),
    ),
    Row(
        "it looks at that between two beats, too",
        node(FOLLOWING, others=SILENT, right_until=NOW + RIGHT),
        m.TimePassed(),
        {},
        (m.TakeOver(3, 5),),
    ),
    Row(
        "not if it may be the store that is away",
        node(FOLLOWING, others=SILENT, right_until=NOW + RIGHT - 3 * EVERY),
        m.TimePassed(),
        {},
    ),
    Row(
        "not quite a lease",
        node(FOLLOWING, others={"you": Seen(5, NOW - TERMS.lease + 1, 10, 10, NOW)}),
        m.Looked(sight("you")),
        {},
    ),
    Row(
        "it leads",
        node(FOLLOWING),
        m.TookOver(Head(11, 10, 4, "me")),
        {"phase": LEADING, "epoch": 4, "leader": "me", "known": 11, "reading": 11},
        (m.Lead(4), m.Read(11)),
    ),
    Row("somebody was faster", node(FOLLOWING), m.TookOver(None), {}),
    Row("an old answer", node(FOLLOWING), m.TookOver(Head(10, 10, 3, "me")), {}),
    Row(
        "the answer was lost: it leads all the same",
        node(FOLLOWING),
        m.Looked(sight("me", epoch=4)),
        {"phase": LEADING, "epoch": 4, "leader": "me"},
        (m.Lead(4),),
    ),
    Row("it goes", node(FOLLOWING), m.Stop(), {"phase": LEAVING}),
    # --- leading ---
    Row(
        "what all others have applied is to be held by all (N19)",
        node(LEADING, others={"you": Seen(5, NOW, 10, 12), "else": Seen(1, NOW, 12)}),
        m.Wrote(12),
        {"known": 12, "folded": 12, "wanted": 12, "asking": 12},
        (m.AskToHold(3, 12),),
    ),
    Row(
        "who was silent for a lease already is put out at once: nobody else waits for it",
        node(LEADING, others=SILENT, right_until=NOW + RIGHT),
        m.Wrote(12),
        {"known": 12, "folded": 12, "wanted": 12},
        (m.PutOut(3, "you", 5),),
    ),
    Row(
        "not before all have applied it",
        node(LEADING, others={"you": Seen(5, NOW, 10, 12), "else": Seen(1, NOW, 10, 11)}),
        m.Wrote(12),
        {"known": 12, "folded": 12, "wanted": 12},
    ),
    Row(
        "nor while one may have died since: what is held would be dark for a lease (N19)",
        node(LEADING, others={"you": Seen(5, NOW - TERMS.fresh - 1, 10, 12), "else": Seen(1, NOW, 10, 12)}),
        m.Wrote(12),
        {"known": 12, "folded": 12, "wanted": 12},
    ),
    Row(
        "the last one has applied it",
        node(LEADING, known=12, folded=12, wanted=12, others={"you": Seen(5, NOW - TERMS.lease + 1, 10)}),
        m.HeardFromStore(Applied("you", 12)),
        {"others": {"you": Seen(5, NOW - TERMS.lease + 1, 10, 12, NOW)}, "asking": 12},
        (m.AskToHold(3, 12),),
    ),
    Row(
        "all are asked to hold it: so does the leader",
        node(LEADING, known=12, folded=12, wanted=12, asking=12),
        m.Asking(12, ()),
        {"asking": 0, "may_hold": 12, "holding": 12},
        (m.HoldUpTo(12),),
    ),
    Row(
        "somebody has joined since we looked, and has not applied it",
        node(LEADING, known=12, folded=12, wanted=12, asking=12, others={"you": Seen(5, NOW, 10, 12)}),
        m.Asking(12, ("new", "you")),
        {"asking": 0, "others": {"you": Seen(5, NOW, 10, 11), "new": Seen(-1, NOW, 0)}},
    ),
    Row(
        "asking to hold failed",
        node(LEADING, known=12, folded=12, wanted=12, asking=12, others={}),
        m.CallBroke(m.AskToHold(3, 12)),
        {"asking": 0},
    ),
    Row(
        "what all others have hidden is shown when the leader has, too",
        node(LEADING, known=12, folded=12, wanted=12, may_hold=12, holding=12, others={"you": Seen(5, NOW, 12)}),
        m.Held(12),
        {"held": 12, "showing": 12},
        (m.ShowUpTo(3, 12),),
    ),
    Row(
        "not before all have hidden it",
        node(LEADING, known=12, folded=12, wanted=12, may_hold=12, holding=12, others={"you": Seen(5, NOW, 11)}),
        m.Held(12),
        {"held": 12},
    ),
    Row(
        "the last one has hidden it",
        node(LEADING, **HELD, wanted=12, others={"you": Seen(5, NOW, 10)}),
        m.HeardFromStore(Hid("you", 12)),
        {"others": {"you": Seen(5, NOW, 12, 0, NOW)}, "showing": 12},
        (m.ShowUpTo(3, 12),),
    ),
    Row(
        "it is asked for once",
        node(LEADING, **HELD, wanted=12, showing=12, others={}),
        m.TimePassed(),
        {},
    ),
    Row(
        "asking failed",
        node(LEADING, known=12, folded=12, wanted=12, showing=12, others={}),
        m.CallBroke(m.ShowUpTo(3, 12)),
        {"showing": 0},
    ),
    Row(
        "what is read but not checked is not shown (S2)",
        node(LEADING, known=12, reading=12, others={}),
        m.Folded(12),
        {"folded": 12, "reading": 0},
    ),
    Row(
        "shown",
        node(LEADING, **HELD, wanted=12, showing=12),
        m.Showing(12, ()),
        {"showing": 0, "may_show": 12, "revealed": 12},
        (m.Reveal(12),),
    ),
    Row(
        "somebody has joined since we looked, and has not hidden it",
        node(LEADING, known=12, folded=12, wanted=12, showing=12, others={"you": Seen(5, NOW, 12)}),
        m.Showing(12, ("new",)),
        {"showing": 0, "others": {"you": Seen(5, NOW, 12), "new": Seen(-1, NOW, 0)}},
    ),
    Row(
        "who was silent for a lease is put out (N06)",
        node(LEADING, others=SILENT),
        m.Looked(sight("me")),
        {},
        (m.PutOut(3, "you", 5),),
    ),
    Row(
        "at once, if a change waits for that",
        node(LEADING, others=SILENT, right_until=NOW + RIGHT, known=12, folded=12, wanted=12),
        m.TimePassed(),
        {},
        (m.PutOut(3, "you", 5),),
    ),
    Row("if none does, there is time", node(LEADING, others=SILENT, right_until=NOW + RIGHT), m.TimePassed(), {}),
    Row(
        "nobody waits for who is gone",
        node(LEADING, known=12, folded=12, wanted=12),
        m.MemberGone("you"),
        {"others": {}, "asking": 12},
        (m.AskToHold(3, 12),),
    ),
    Row(
        "a leader whose right was over cannot prove that another server has lost nothing (N14, S3)",
        node(LEADING, calling=True, right_until=NOW - 500),
        m.Beaten(NOW - 500, a_copy("me")),
        {
            "calling": False,
            "must_fold": 10,
            "answers_from": 11,
            "phase": FOLLOWING,
            "leader": "",
            "no_lead_before": NOW + TERMS.lease,
        },
        (m.Follow(), m.Resign(), m.SayApplied(10), m.SayHidden(10)),
    ),
    Row(
        "deposed",
        node(LEADING, wanted=10),
        m.WasDeposed(),
        {"phase": FOLLOWING, "leader": ""},
        (m.Follow(), m.Look(), m.SayApplied(10), m.SayHidden(10)),
    ),
    Row(
        "it sees that another leads",
        node(LEADING),
        m.Looked(sight("you", epoch=4)),
        {"phase": FOLLOWING, "epoch": 4, "leader": "you"},
        (m.Follow(), m.Look(), m.SayApplied(10), m.SayHidden(10)),
    ),
    Row(
        "it hands over, and does not take it back at once",
        node(LEADING),
        m.HandOver(),
        {"phase": FOLLOWING, "leader": "", "no_lead_before": NOW + TERMS.lease},
        (m.Follow(), m.Resign(), m.SayApplied(10), m.SayHidden(10)),
    ),
    Row(
        "it goes: another leads at once",
        node(LEADING),
        m.Stop(),
        {"phase": LEAVING, "leader": "", "no_lead_before": NOW + TERMS.lease},
        (m.Follow(), m.Resign(), m.SayApplied(10), m.SayHidden(10)),
    ),
    # --- no longer a member ---
    Row(
        "put out: it reads and joins again",
        node(FOLLOWING, right_until=NOW + 1, calling=True),
        m.WasPutOut(),
        {"phase": READING, "right_until": 0, "calling": False, "leader": "", "others": {}},
    ),
    Row(
        "put out while leading",
        node(LEADING, right_until=NOW + 1),
        m.WasPutOut(),
        {"phase": READING, "right_until": 0, "leader": "", "others": {}},
        (m.Follow(),),
    ),
    Row(
        "more is shown than it has hidden: it was not a member for a while (N05)",
        node(FOLLOWING, calling=True, right_until=NOW + 1),
        m.Beaten(NOW, sight("you", position=12, shown=12)),
        {"phase": READING, "right_until": 0, "calling": False, "must_fold": 12, "leader": "", "others": {}},
    ),
    # --- leaving ---
    Row("put out while leaving", node(LEAVING, right_until=NOW + 1), m.WasPutOut(), {"right_until": 0}),
    Row("it does not take over", node(LEAVING), m.Looked(sight("")), {"leader": ""}),
    Row(
        "if it leads by now, it resigns",
        node(LEAVING),
        m.Looked(sight("me", epoch=4)),
        {"leader": "me", "epoch": 4},
        (m.Resign(),),
    ),
    Row("it took over too late", node(LEAVING), m.TookOver(Head(10, 10, 4, "me")), {}, (m.Resign(),)),
    Row("it did not take over", node(LEAVING), m.TookOver(None), {}),
    *[
        Row(
            f"{phase.value}: another replaces us (N03)",
            node(phase),
            m.WasReplaced(),
            {"phase": ENDED},
            (m.End("Another process has registered as this node."),),
        )
        for phase in (REGISTERING, READING, JOINING)
    ],
    *[
        Row(
            f"{phase.value}: the store has lost {what} (N14)",
            node(phase, right_until=NOW + 1),
            message,
            {"phase": ENDED, "right_until": 0},
            (*([m.Follow()] if phase is LEADING else []), m.BeginAgain()),
        )
        for phase in NodePhase
        if phase is not ENDED
        for what, message in (
            ("a record", m.HasForgotten()),
            ("us and a record", m.WasReplaced(Head(9, 9, 3))),
            ("us and an epoch", m.WasReplaced(Head(10, 9, 2))),
        )
    ],
    Row(
        "another replaces us, and nothing is lost",
        node(FOLLOWING),
        m.WasReplaced(Head(10, 10, 3)),
        {"phase": ENDED},
        (m.End("Another process has registered as this node."),),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.before.phase.value}-{row.says}" for row in ROWS])
def test_what_follows(row: Row) -> None:
    """The message of a row changes this and leads to these actions, and nothing else."""
    after, actions = step(row.before, row.message, NOW)
    changed = {name: new for name, old, new in zip(Standing._fields, row.before, after, strict=True) if old != new}
    says = m.SayHidden if row.before.phase is JOINING else m.SayHidden | m.Join
    when = {"said_at": NOW} if any(isinstance(action, says) for action in row.actions) else {}
    assert (changed, actions) == ({**row.changes, **when}, row.actions)


def test_every_rule_has_a_row() -> None:
    assert set(RULES) - {(row.before.phase, type(row.message)) for row in ROWS} == set()


EXAMPLES: dict[type, m.Message] = {
    m.Registered: m.Registered(sight(position=99)),
    m.Joined: m.Joined(Head(99, 99, 9, "me")),
    m.Beaten: m.Beaten(NOW, sight("me", position=99, shown=99, epoch=9)),
    m.Looked: m.Looked(sight("me", position=99, shown=99, epoch=9)),
    m.TookOver: m.TookOver(Head(99, 99, 9, "me")),
    m.Folded: m.Folded(99),
    m.HasRead: m.HasRead(99),
    m.Wrote: m.Wrote(99),
    m.Held: m.Held(99),
    m.Revealed: m.Revealed(99),
    m.Asking: m.Asking(99, ()),
    m.Showing: m.Showing(99, ()),
    m.MemberGone: m.MemberGone("you"),
    m.HeardFromStore: m.HeardFromStore(Appended(99)),
    m.CallBroke: m.CallBroke(m.Beat()),
}
OTHER_PAIRS = [(phase, kind) for phase in NodePhase for kind in get_args(m.Message) if (phase, kind) not in RULES]


@pytest.mark.parametrize(("phase", "kind"), OTHER_PAIRS, ids=[f"{p.value}-{kind.__name__}" for p, kind in OTHER_PAIRS])
def test_any_other_message_has_no_effect(phase: NodePhase, kind: type) -> None:
    """It is late, or for another phase."""
    before = node(phase, right_until=NOW + 1, next_call=NOW)
    message = EXAMPLES[kind] if kind in EXAMPLES else kind()
    assert step(before, message, NOW) == (before, ())


@pytest.mark.parametrize("phase", list(NodePhase))
@pytest.mark.parametrize(("right_until", "is_over"), [(NOW + 1, False), (NOW, True), (0, True)])
@pytest.mark.parametrize(("answers_from", "has_caught_up"), [(10, True), (11, False)])
def test_who_may_answer(
    phase: NodePhase, right_until: int, is_over: bool, answers_from: int, has_caught_up: bool
) -> None:
    """A member whose right is not over, and that shows what was there when it joined (N05, N07)."""
    standing = node(phase, right_until=right_until, answers_from=answers_from)
    assert may_answer(standing, NOW) is (phase in MEMBERS and not is_over and has_caught_up)


def test_nobody_is_answered_while_a_node_has_not_shown_yet_what_it_is_about_to_show() -> None:
    """It shows that behind other work; it was read elsewhere already (S27)."""
    assert not may_answer(node(FOLLOWING, right_until=NOW + 1, answers_from=10, seen=9), NOW)


def test_nobody_is_answered_before_it_is_proven_that_nothing_was_lost_meanwhile() -> None:
    """Others may have written as many records after a loss as this node has read (N14, S3)."""
    assert not may_answer(node(FOLLOWING, right_until=NOW + 1, prove_since=NOW), NOW)


def test_the_right_is_over_before_the_lease_although_clocks_differ() -> None:
    """By a twentieth, in opposite directions."""
    for lease in (1, 600, 1_500_000, 6_000_000):
        terms = Terms(lease)
        assert terms.right * 1.05 <= terms.lease * 0.95
        assert terms.every * 5 <= terms.right or lease < 100
