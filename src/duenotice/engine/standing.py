"""Decides how a node takes part in a cluster: one table from phase and message to what follows (N03-N08).

`step` is a pure function: no clock, no store, no threads. Its caller carries out the actions in their order and
tells their answers as messages. Any message may be lost, late, doubled or out of order: what is safe does not depend on
it, and the next beat puts right what is missing.
"""

from collections.abc import Callable
from typing import Any

from duenotice.engine import membership as m
from duenotice.engine.members import Appended, Applied, Changed, Head, Hid, Hold, MemberBeat, Shown, Sight
from duenotice.engine.membership import MEMBERS, Actions, NodePhase, Seen, Standing, StandingStep
from duenotice.engine.positions import ends_at, may_be_old, settled, with_shown

Rule = Callable[[Standing, Any, int], StandingStep]


def may_answer(standing: Standing, now: int) -> bool:
    """Whether VMs may be answered now: it cannot be that anybody has read anything newer elsewhere (N05, S27).

    Ask for each request, with the time of that moment: a process that was stopped has no right when it wakes.
    """
    return now < answers_until(standing)


def answers_until(standing: Standing) -> int:
    """Before which moment of its own clock a node may answer, as far as it knows now; 0: not at all."""
    has_caught_up = standing.seen >= standing.answers_from and not standing.prove_since
    return standing.right_until if standing.phase in MEMBERS and has_caught_up else 0


def step(standing: Standing, message: m.Message, now: int) -> StandingStep:
    """What follows from a message; `now` is the node's own time since boot."""
    rule = RULES.get((standing.phase, type(message)))
    if rule is None:
        return StandingStep(standing)
    after, actions = rule(standing, message, now)
    if isinstance(message, m.CallBroke):
        return StandingStep(after, actions)  # not again at once: the next tick asks for what is missing
    last, more = settled(after, now)
    return StandingStep(last, actions + more)


# --- before it is a member ---


def _try_again(action: Callable[[Standing], m.Action]) -> Rule:
    """At each beat's time: the call of this phase, unless one is under way."""

    def rule(s: Standing, message: Any, now: int) -> StandingStep:
        if s.calling or now < s.next_call:
            return StandingStep(s)
        return StandingStep(s._replace(calling=True, next_call=now + s.terms.every), (action(s),))

    return rule


def _registered(s: Standing, message: m.Registered, now: int) -> StandingStep:
    head = message.sight.head
    s = s._replace(phase=NodePhase.READING, calling=False, known=max(s.known, head.position))
    return _read_on(s, now)


def _read_on(s: Standing, now: int) -> StandingStep:
    """Join as soon as all is read that is known of; what comes between is read as a member (N07)."""
    if s.folded < s.known:
        return StandingStep(s)
    # From here on it answers nobody with anything older, so it has applied and held all of that.
    s = s._replace(said_applied=s.folded, held=s.folded, said=s.folded, said_at=now)
    s = s._replace(phase=NodePhase.JOINING, calling=True, next_call=now + s.terms.every)
    return StandingStep(s, (m.Join(s.folded),))


def _folded_while_reading(s: Standing, message: m.Folded, now: int) -> StandingStep:
    return _read_on(_after_reading(s, message), now)


def _wrote_while_reading(s: Standing, message: m.Wrote, now: int) -> StandingStep:
    return _read_on(_with_fold(s, message.position), now)


def _reading_goes_on(s: Standing, message: m.TimePassed, now: int) -> StandingStep:
    return _read_on(s, now)


def _joined(s: Standing, message: m.Joined, now: int) -> StandingStep:
    head = message.head
    s = s._replace(
        phase=NodePhase.FOLLOWING,
        known=max(s.known, head.position),
        may_hold=max(s.may_hold, head.hold),
        may_show=max(s.may_show, head.shown),
        answers_from=head.position,
        must_fold=0,
    )
    return _beat(_with_held(_to_prove(s, head, now)), now)


# --- as a member ---


def _ticked(s: Standing, message: m.TimePassed, now: int) -> StandingStep:
    beaten = StandingStep(s) if s.calling or now < s.next_call or _is_behind(s, now) else _beat(s, now)
    return StandingStep(beaten.standing, (*beaten.actions, *_without_the_silent(s, now)))


def _without_the_silent(s: Standing, now: int) -> Actions:
    """Between two looks, as everybody waits for that: the store checks that its beat is still the same.

    Only if the last beat of our own was good: a store that is away would find all these calls when it is back.
    """
    is_in_touch = now < s.right_until - s.terms.right + 3 * s.terms.every
    if s.phase is NodePhase.LEADING and is_in_touch and s.wanted > s.may_show:
        return _put_out_silent(s, now)
    is_led = s.phase is not NodePhase.FOLLOWING or s.leader not in s.others
    if is_led or not is_in_touch or now < s.no_lead_before or s.folded < s.known:
        return ()
    return _take_over_from_silent(s, now)


def _put_out_silent(s: Standing, now: int) -> Actions:
    silent = [(life, seen.beat) for life, seen in s.others.items() if now - seen.since >= s.terms.lease]
    return tuple(m.PutOut(s.epoch, life, beat) for life, beat in silent)


def _take_over_from_silent(s: Standing, now: int) -> Actions:
    leader = s.others.get(s.leader)
    if leader is None:
        return (m.TakeOver(s.epoch, 0),)
    return (m.TakeOver(s.epoch, leader.beat),) if now - leader.since >= s.terms.lease else ()


def _is_behind(s: Standing, now: int) -> bool:
    """Whether it has not applied what it knew at its last beat. If only its followers have not, it has more time."""
    asked, until = s.below
    return s.folded < s.must_fold and not (asked >= s.must_fold and now < until)


def _beat(s: Standing, now: int) -> StandingStep:
    at_beat = (s.epoch, s.folded, s.known, now)
    return StandingStep(s._replace(calling=True, next_call=now + s.terms.every, at_beat=at_beat), (m.Beat(),))


def _beaten(s: Standing, message: m.Beaten, now: int) -> StandingStep:
    """The right to answer goes on, from before the beat was sent (N05)."""
    head = message.sight.head
    epoch, folded, known, since = s.at_beat
    if message.sent >= since and (head.epoch < epoch or head.position < folded):
        return _forgotten(s, message, now)
    if message.sent >= since and head.position < known == s.known:
        s = ends_at(s, max(head.position, s.folded))
    s = s._replace(calling=False, must_fold=max(s.must_fold, head.position))
    if head.shown > s.held:
        # Nothing is shown that a member has not hidden: so we were not one for a while, however we are one now.
        return _out(s, message, now)
    if message.sent >= s.right_until:
        # We may have been out, and a restored store may not know it: answer with all that is stored, as when we joined.
        # On another server what comes next has to be seen too: if anything is lost, it lifts incarnations (N14, S3).
        s = _to_prove(s._replace(answers_from=max(s.answers_from, head.position + head.is_copy)), head, now)
        s = _with_held(s)
    if head.is_copy and s.phase is NodePhase.LEADING and message.sent >= s.right_until:
        # Others may have led meanwhile, and shown what this server has lost: to store here would prove nothing. Who
        # leads next begins by lifting the incarnations (N14, S3).
        return _hand_over(s, m.HandOver(), now)
    if head.is_copy:
        return _on_a_copy(s, message, now)
    return _looked(s._replace(right_until=max(s.right_until, message.sent + s.terms.right)), message, now)


def _to_prove(s: Standing, head: Head, now: int) -> Standing:
    """As many records as we have read may be others, written after a loss; who leads has written them itself (N14)."""
    return s if head.leader == s.life or not head.position else s._replace(prove_since=now)


def _on_a_copy(s: Standing, message: m.Beaten, now: int) -> StandingStep:
    """No right to answer: others may have shown more than this server has, also while we were out (N14, S3)."""
    s, actions = _looked(s, message, now)
    return StandingStep(s, (*actions, m.StoreHere()) if s.phase is NodePhase.LEADING else actions)


def _looked(s: Standing, message: m.Beaten | m.Looked, now: int) -> StandingStep:
    head, me = message.sight.head, message.sight.member(s.life)
    if head.epoch < s.epoch or me is None:
        return StandingStep(s)  # older than what we know; a beat says so if we are not a member
    s = with_shown(s, message.sight, message.sent, now)._replace(
        known=max(s.known, head.position),
        said=min(s.said, me.hidden),  # a lost call is made again
        said_applied=min(s.said_applied, me.has_applied),
        may_hold=max(s.may_hold, head.hold),
        epoch=head.epoch,
        leader=head.leader,
        others=_seen(s, message.sight, now),
    )
    return _LOOKS[s.phase](s, message.sight, now)


def _seen(s: Standing, sight: Sight, now: int) -> dict[str, Seen]:
    """Each other member, and since when its beat has not changed by our own clock (N04)."""
    seen = {}
    for member in sight.members:
        before = s.others.get(member.life)
        since = now if before is None or before.beat != member.beat else before.since
        hidden = member.hidden if before is None else max(before.hidden, member.hidden)
        applied = member.has_applied if before is None else max(before.applied, member.has_applied)
        heard = max(since, 0 if before is None else before.heard)
        seen[member.life] = Seen(member.beat, since, hidden, applied, heard)
    seen.pop(s.life, None)
    return seen


def _follow_or_take_over(s: Standing, sight: Sight, now: int) -> StandingStep:
    if now < s.no_lead_before:
        return StandingStep(s)
    if s.leader == s.life:
        return _lead(s, s.epoch)  # the answer to our taking over was lost
    if s.folded < s.known:
        return StandingStep(s)
    return StandingStep(s, _take_over_from_silent(s, now))


def _lead_on(s: Standing, sight: Sight, now: int) -> StandingStep:
    """Put out members that were silent for a whole lease: their right to answer is over, by any clock (N06)."""
    if s.leader != s.life:
        return _deposed(s, None, now)
    return StandingStep(s, _put_out_silent(s, now))


def _leave_the_lead(s: Standing, sight: Sight, now: int) -> StandingStep:
    return StandingStep(s, (m.Resign(),) if s.leader == s.life else ())


_LOOKS: dict[NodePhase, Callable[[Standing, Sight, int], StandingStep]] = {
    NodePhase.FOLLOWING: _follow_or_take_over,
    NodePhase.LEADING: _lead_on,
    NodePhase.LEAVING: _leave_the_lead,
}


def _lead(s: Standing, epoch: int) -> StandingStep:
    return StandingStep(
        s._replace(phase=NodePhase.LEADING, epoch=epoch, leader=s.life, asking=0, showing=0, wanted=0), (m.Lead(epoch),)
    )


def _took_over(s: Standing, message: m.TookOver, now: int) -> StandingStep:
    head = message.head
    if head is None or head.epoch <= s.epoch:
        return StandingStep(s)
    s = s._replace(may_hold=max(s.may_hold, head.hold), may_show=max(s.may_show, head.shown))
    return _lead(s._replace(known=max(s.known, head.position)), head.epoch)


def _took_over_too_late(s: Standing, message: m.TookOver, now: int) -> StandingStep:
    return StandingStep(s, () if message.head is None else (m.Resign(),))


def _folded(s: Standing, message: m.Folded, now: int) -> StandingStep:
    return StandingStep(_after_reading(s, message))


def _wrote_before(s: Standing, message: m.Wrote, now: int) -> StandingStep:
    """While it led."""
    return StandingStep(_with_fold(s, message.position))


def _has_read(s: Standing, message: m.HasRead, now: int) -> StandingStep:
    if message.position <= s.below[0]:
        return StandingStep(s)  # asked again: no more time for that
    return StandingStep(s._replace(below=(message.position, now + s.terms.for_followers)))


def _wrote(s: Standing, message: m.Wrote, now: int) -> StandingStep:
    s = _with_fold(s, message.position)._replace(wanted=max(s.wanted, message.position))
    return StandingStep(s, _without_the_silent(s, now))


def _after_reading(s: Standing, message: m.Folded) -> Standing:
    """Told of more than there is, it would read again and again, and never join or lead."""
    if message.position < message.asked:
        s = ends_at(s, max(message.position, s.folded))
    is_proven = message.begun >= s.prove_since
    return _with_fold(s._replace(prove_since=0 if is_proven else s.prove_since), message.position)


def _with_fold(s: Standing, position: int) -> Standing:
    folded = max(s.folded, position)
    return _with_held(s._replace(folded=folded, known=max(s.known, folded), reading=0))


def _with_held(s: Standing) -> Standing:
    """It answers nobody before it shows `answers_from`: so it shows nothing older than what it has folded of that."""
    return s._replace(held=max(s.held, min(s.folded, s.answers_from)))


def _revealed(s: Standing, message: m.Revealed, now: int) -> StandingStep:
    return StandingStep(s._replace(seen=max(s.seen, message.position)))


def _held(s: Standing, message: m.Held, now: int) -> StandingStep:
    return StandingStep(s._replace(held=max(s.held, message.position)))


def _asking(s: Standing, message: m.Asking, now: int) -> StandingStep:
    """All may hold it, or somebody has not applied it yet: it may have joined since we looked."""
    if not message.missing:
        return StandingStep(s._replace(asking=0, may_hold=max(s.may_hold, message.position)))
    others = dict(s.others)
    for life in message.missing:
        before, most = others.get(life, Seen(-1, now, 0)), message.position - 1
        others[life] = before._replace(applied=min(before.applied, most), hidden=min(before.hidden, most))
    return StandingStep(s._replace(asking=0, others=others))


def _showing(s: Standing, message: m.Showing, now: int) -> StandingStep:
    """Shown, or somebody has not hidden yet: it may have joined since we looked."""
    if not message.missing:
        return StandingStep(s._replace(showing=0, may_show=max(s.may_show, message.position)))
    others = dict(s.others)
    for life in message.missing:
        before = others.get(life, Seen(-1, now, 0))
        others[life] = before._replace(hidden=min(before.hidden, message.position - 1))
    return StandingStep(s._replace(showing=0, others=others))


def _gone(s: Standing, message: m.MemberGone, now: int) -> StandingStep:
    return StandingStep(s._replace(others={life: seen for life, seen in s.others.items() if life != message.life}))


def _heard(s: Standing, message: m.HeardFromStore, now: int) -> StandingStep:
    match message.news:
        case Appended(position):
            return StandingStep(s._replace(known=max(s.known, position)))
        case Hold(position):
            return StandingStep(s._replace(known=max(s.known, position), may_hold=max(s.may_hold, position)))
        case Applied(life, position) if (seen := s.others.get(life)) is not None:
            applied = seen._replace(applied=max(seen.applied, position), heard=now)
            return StandingStep(s._replace(others={**s.others, life: applied}))
        case Shown(position) if position > s.folded:
            # Nothing is shown that a member has not hidden: it was lost since, or we are not one (N06, N14).
            return StandingStep(s._replace(known=max(s.known, position)))
        case Shown(position) if may_be_old(s, now):
            return StandingStep(s, (m.Look(),) if position > s.may_show else ())
        case Shown(position):
            return StandingStep(s._replace(may_show=max(s.may_show, position)))
        case Hid(life, position) if (seen := s.others.get(life)) is not None:
            hidden = seen._replace(hidden=max(seen.hidden, position), heard=now)
            return StandingStep(s._replace(others={**s.others, life: hidden}))
        case MemberBeat(life, beat) if (seen := s.others.get(life)) is not None and beat > seen.beat:
            return StandingStep(s._replace(others={**s.others, life: seen._replace(beat=beat, since=now, heard=now)}))
        case Changed() if s.phase in MEMBERS:
            return StandingStep(s, (m.Look(),))
        case _:
            return StandingStep(s)


# --- no longer ---


def _out(s: Standing, message: Any, now: int) -> StandingStep:
    """Answer nobody; read to the head, and join again (N07)."""
    if s.phase is NodePhase.LEAVING:
        return StandingStep(s._replace(right_until=0, calling=False))
    was_leading: Actions = (m.Follow(),) if s.phase is NodePhase.LEADING else ()
    s = s._replace(phase=NodePhase.READING, right_until=0, calling=False, leader="", others={}, asking=0, showing=0)
    return StandingStep(s, was_leading)


def _deposed(s: Standing, message: Any, now: int) -> StandingStep:
    leader = "" if s.leader == s.life else s.leader
    return StandingStep(
        s._replace(phase=NodePhase.FOLLOWING, leader=leader, asking=0, showing=0, said=0, said_applied=0),
        (m.Follow(), m.Look()),
    )


def _hand_over(s: Standing, message: m.HandOver, now: int) -> StandingStep:
    s = s._replace(
        phase=NodePhase.FOLLOWING,
        leader="",
        asking=0,
        showing=0,
        said=0,
        said_applied=0,
        no_lead_before=now + s.terms.lease,
    )
    return StandingStep(s, (m.Follow(), m.Resign()))


def _leave_from_lead(s: Standing, message: m.Stop, now: int) -> StandingStep:
    handed_over, actions = _hand_over(s, m.HandOver(), now)
    return StandingStep(handed_over._replace(phase=NodePhase.LEAVING), actions)


def _leave(s: Standing, message: m.Stop, now: int) -> StandingStep:
    return StandingStep(s._replace(phase=NodePhase.LEAVING))


def _gone_for_good(s: Standing, message: Any, now: int) -> StandingStep:
    """Nobody is answered any more, so nobody has to wait for us."""
    was_leading: Actions = (m.Follow(),) if s.phase is NodePhase.LEADING else ()
    return StandingStep(s._replace(phase=NodePhase.ENDED, right_until=0), (*was_leading, m.Leave()))


def _replaced(s: Standing, message: m.WasReplaced, now: int) -> StandingStep:
    head = message.head
    if head is not None and (head.epoch < s.epoch or head.position < s.folded):
        return _forgotten(s, message, now)
    return _ended(s, m.End("Another process has registered as this node."))


def _forgotten(s: Standing, message: Any, now: int) -> StandingStep:
    """What we show may be newer than all there is: answer nobody until the incarnations are lifted (N14, S3)."""
    return _ended(s, m.BeginAgain())


def _ended(s: Standing, last: m.Action) -> StandingStep:
    was_leading: Actions = (m.Follow(),) if s.phase is NodePhase.LEADING else ()
    return StandingStep(s._replace(phase=NodePhase.ENDED, right_until=0), (*was_leading, last))


def _failed(s: Standing, message: m.CallBroke, now: int) -> StandingStep:
    """It is not under way any more."""
    match message.action:
        case m.Register() | m.Join() | m.Beat():
            return StandingStep(s._replace(calling=False))
        case m.Read():
            return StandingStep(s._replace(reading=0))
        case m.AskToHold():
            return StandingStep(s._replace(asking=0))
        case m.ShowUpTo():
            return StandingStep(s._replace(showing=0))
        case _:
            return StandingStep(s)


_P = NodePhase

RULES: dict[tuple[NodePhase, type], Rule] = {
    (_P.REGISTERING, m.TimePassed): _try_again(lambda s: m.Register()),
    (_P.REGISTERING, m.Registered): _registered,
    (_P.READING, m.TimePassed): _reading_goes_on,
    (_P.READING, m.Folded): _folded_while_reading,
    (_P.READING, m.Wrote): _wrote_while_reading,
    (_P.READING, m.HeardFromStore): _heard,
    (_P.JOINING, m.TimePassed): _try_again(lambda s: m.Join(s.said)),
    (_P.JOINING, m.Joined): _joined,
    (_P.JOINING, m.Folded): _folded,
    (_P.JOINING, m.Wrote): _wrote_before,
    (_P.JOINING, m.HeardFromStore): _heard,
    (_P.FOLLOWING, m.TookOver): _took_over,
    (_P.LEADING, m.Wrote): _wrote,
    (_P.LEADING, m.Asking): _asking,
    (_P.LEADING, m.Showing): _showing,
    (_P.LEADING, m.MemberGone): _gone,
    (_P.LEADING, m.WasDeposed): _deposed,
    (_P.LEADING, m.HandOver): _hand_over,
    (_P.LEADING, m.Stop): _leave_from_lead,
    (_P.FOLLOWING, m.Stop): _leave,
    (_P.LEAVING, m.TookOver): _took_over_too_late,
    **{(phase, m.TimePassed): _ticked for phase in MEMBERS},
    **{(phase, m.Beaten): _beaten for phase in MEMBERS},
    **{(phase, m.Looked): _looked for phase in MEMBERS},
    **{(phase, m.HeardFromStore): _heard for phase in MEMBERS},
    **{(phase, m.Folded): _folded for phase in MEMBERS},
    **{(phase, m.Held): _held for phase in (_P.READING, _P.JOINING, *MEMBERS)},
    **{(phase, m.HasRead): _has_read for phase in (_P.READING, _P.JOINING, *MEMBERS)},
    **{(phase, m.Wrote): _wrote_before for phase in (_P.FOLLOWING, _P.LEAVING)},
    **{(phase, m.WasPutOut): _out for phase in MEMBERS},
    **{(phase, m.Closed): _gone_for_good for phase in MEMBERS},
    **{(phase, m.Stop): _gone_for_good for phase in (_P.REGISTERING, _P.READING, _P.JOINING)},
    **{(phase, m.WasReplaced): _replaced for phase in NodePhase if phase is not _P.ENDED},
    **{(phase, m.Revealed): _revealed for phase in (_P.READING, _P.JOINING, *MEMBERS)},
    **{(phase, m.HasForgotten): _forgotten for phase in NodePhase if phase is not _P.ENDED},
    **{(phase, m.CallBroke): _failed for phase in NodePhase if phase is not _P.ENDED},
}
"""All that can follow. A pair that is not here has no effect: the message is late, or somebody else's business."""
