"""Why a rule was not tried, if that is not a failure. Pure."""

from duenotice.testkit.verdicts.evidence import Evidence

FOR_APPROVERS = frozenset(
    {"neighbour", "leader", "peers", "work", "once", "understood", "started", "cancelled", "every-event"}
)
"""A client that never approves cannot approve wrongly."""

ALWAYS = frozenset({"asks", "header", "pace", "crowding", "version", "understood", "alive", "tour"})
"""Rules that any tour and any scenario tries."""


def why_untried(rule: str, evidence: Evidence) -> str:
    """Why a rule did not apply; empty when it did, and should have been tried."""
    if not evidence.polls:
        return "nothing asked"
    if rule == "peers" and not evidence.notes.has_peers_file:
        return "needs --peers-ready FILE"
    if rule == "work" and evidence.notes.work is None:
        return "needs --work-done FILE"
    if rule not in ALWAYS | evidence.notes.tries:
        return "no trial of it was chosen"
    if rule == "header":
        return "its api-version needs none"
    return "it never approves" if rule in FOR_APPROVERS and not evidence.approvals else ""
