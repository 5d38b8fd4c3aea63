"""What the positions of a node ask for in any phase: to read and hide, to tell that, to show, to reveal (N06, N08)."""

from duenotice.engine import membership as m
from duenotice.engine.members import Sight
from duenotice.engine.membership import MEMBERS, NodePhase, Standing, StandingStep


def settled(s: Standing, now: int) -> StandingStep:
    """What the positions ask for: to read what is known, to tell what is hidden, to show what may be shown."""
    actions: list[m.Action] = []
    if _has_to_read(s) and s.phase not in (NodePhase.REGISTERING, NodePhase.ENDED):
        s = s._replace(reading=s.known)
        actions.append(m.Read(s.known))
    if s.phase in (NodePhase.FOLLOWING, NodePhase.LEAVING) and s.folded > s.said:
        s = s._replace(said=s.folded, said_at=now)
        actions.append(m.SayHidden(s.folded))
    if s.phase is NodePhase.LEADING and s.wanted > max(s.may_show, s.showing) and _all_have_hidden(s):
        s = s._replace(showing=s.wanted)
        actions.append(m.ShowUpTo(s.epoch, s.wanted))
    if s.phase in MEMBERS and s.may_show >= s.folded > s.revealed and s.folded >= s.known:
        # Not if there is more: it may say that this was too late to be shown, and has a longer notice (S2).
        s = s._replace(revealed=s.folded)
        actions.append(m.Reveal(s.folded))
    return StandingStep(s, tuple(actions))


def _has_to_read(s: Standing) -> bool:
    return s.known > max(s.folded, s.reading) or (s.prove_since > 0 and not s.reading)


def _all_have_hidden(s: Standing) -> bool:
    return all(seen.hidden >= s.wanted for seen in s.others.values())


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

    Nor may it be shown: what is stored there since is something else, and waits for its own curtain (N06).
    """
    return s._replace(
        known=end,
        may_show=min(s.may_show, s.folded),
        answers_from=min(s.answers_from, end),
        must_fold=min(s.must_fold, end),
    )
