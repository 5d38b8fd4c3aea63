"""What the positions of a node ask for in any phase: to read, to tell that, to hold, to show (N06, N08, N19).

A change goes through all nodes in two rounds. First each reads and applies it, and says so, while VMs still see what
was before. When all have, or were put out, the leader asks all to hold it: now VMs see neither, for some milliseconds.
When all hold it, it is shown. A node that is dead delays the first round only, in which all polls are answered.
"""

from duenotice.engine import membership as m
from duenotice.engine.members import Sight
from duenotice.engine.membership import MEMBERS, NodePhase, Standing, StandingStep

_TELLS = (NodePhase.FOLLOWING, NodePhase.LEAVING)


def settled(s: Standing, now: int) -> StandingStep:
    """What the positions ask for: to show what may be, to read what is known, to tell that, and to hold it.

    To show comes first: with what is read behind it, it would have to wait for that.
    """
    actions: list[m.Action] = []
    if s.phase in MEMBERS and s.may_show >= s.folded > s.revealed and (s.folded >= s.known or _is_prompt(s, now)):
        # Not if there is more: it may say that this was too late to be shown, and has a longer notice (S2).
        s = s._replace(revealed=s.folded, held=max(s.held, s.folded))
        actions.append(m.Reveal(s.folded))
    if _has_to_read(s) and s.phase not in (NodePhase.REGISTERING, NodePhase.ENDED):
        s = s._replace(reading=s.known)
        actions.append(m.Read(s.known))
    if s.phase in _TELLS and s.folded > s.said_applied:
        s = s._replace(said_applied=s.folded)
        actions.append(m.SayApplied(s.folded))
    if s.phase is NodePhase.LEADING and s.wanted > max(s.may_hold, s.may_show, s.asking) and _all_have_applied(s, now):
        s = s._replace(asking=s.wanted)
        actions.append(m.AskToHold(s.epoch, s.wanted))
    if s.phase in MEMBERS and s.may_hold >= s.folded > max(s.held, s.holding) and not (s.phase in _TELLS and s.reading):
        s = s._replace(holding=s.folded)
        actions.append(m.HoldUpTo(s.folded))
    if s.phase in _TELLS and s.held > s.said:
        s = s._replace(said=s.held, said_at=now)
        actions.append(m.SayHidden(s.held))
    if s.phase is NodePhase.LEADING and s.wanted > max(s.may_show, s.showing) and _all_have_hidden(s):
        s = s._replace(showing=s.wanted)
        actions.append(m.ShowUpTo(s.epoch, s.wanted))
    return StandingStep(s, tuple(actions))


def _has_to_read(s: Standing) -> bool:
    return s.known > max(s.folded, s.reading) or (s.prove_since > 0 and not s.reading)


def _all_have_applied(s: Standing, now: int) -> bool:
    """And gave a sign of life a moment ago: one that has died since would be waited for while all hold (N19)."""
    return all(
        max(seen.applied, seen.hidden) >= s.wanted and now - max(seen.since, seen.heard) <= s.terms.fresh
        for seen in s.others.values()
    )


def _all_have_hidden(s: Standing) -> bool:
    return s.held >= s.wanted and all(seen.hidden >= s.wanted for seen in s.others.values())


def _is_prompt(s: Standing, now: int) -> bool:
    """It was held so shortly before that its notice is whole, whatever is stored behind it."""
    return s.phase in _TELLS and s.said >= s.folded == s.may_show and now - s.said_at <= m.PROMPT


def may_be_old(s: Standing, now: int) -> bool:
    """News may come late: by now what was shown then may have too little notice, and a longer one is stored (S2)."""
    return s.phase in MEMBERS and s.phase is not NodePhase.LEADING and now - s.said_at > m.PROMPT


def with_shown(s: Standing, sight: Sight, sent: int, now: int) -> Standing:
    """What may be shown, as a sight says. If that may be old: when the leader has beaten twice since (S2).

    By then it has heard of that itself, and has shown it in time or stored a longer notice.
    """
    shown, leader = sight.head.shown, sight.head.leader
    beat = next((member.beat for member in sight.members if member.life == leader), 0)
    is_sure = shown <= s.may_show or now - sent <= m.PROMPT or not may_be_old(s, now)
    doubt = s.doubt if s.doubt[:2] == (shown, leader) else (shown, leader, beat)
    if is_sure or beat >= doubt[2] + 2:
        return s._replace(may_show=max(s.may_show, shown))
    return s._replace(doubt=doubt)


def ends_at(s: Standing, end: int) -> Standing:
    """The journal ends here. What was told of behind that was lost before anybody here read it (N14).

    Nor may it be held or shown: what is stored there since is something else, and waits for its own curtain (N06).
    """
    return s._replace(
        known=end,
        may_hold=min(s.may_hold, s.folded),
        may_show=min(s.may_show, s.folded),
        answers_from=min(s.answers_from, end),
        must_fold=min(s.must_fold, end),
    )
