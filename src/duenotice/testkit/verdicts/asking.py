"""Judges of how a client asks: its header, its pace, its api-version. Pure."""

from duenotice.testkit.verdicts.evidence import Evidence
from duenotice.testkit.verdicts.said import Said, said
from duenotice.testkit.verdicts.stopping import is_always_slow
from duenotice.wire.api_versions import BY_NAME

MOST_A_SECOND = 5
"""Requests that the real service allows a VM (A08)."""

BURST_SECONDS = 2

OLDEST_FIT = "2017-11-01"
"""Older api-versions never show Preempt (B10)."""


def header(evidence: Evidence) -> Said:
    """A03: also where the preview let it be."""
    asked = [exchange for exchange in evidence.exchanges if exchange.method]
    without = [one for one in asked if one.headers.get("metadata", "").lower() != "true"]
    return said(asked, (f"{one.method} #{one.number} had no header" for one in without))


def pace(evidence: Evidence) -> Said:
    """D06: in real seconds, whatever the clock."""
    if not evidence.polls:
        silent = evidence.ended - evidence.begun >= evidence.tempo.patience
        return ["it never asked for the document"] if silent else None
    if is_always_slow(evidence):
        gap = max(evidence.silence_after(poll) for poll in evidence.polls)
        return [f"{gap:.0f} s passed between two polls"]
    return [] if len(evidence.polls) > 1 else None


def crowding(evidence: Evidence) -> Said:
    """A08: a burst is let through, as the real service does."""
    times = [poll.monotonic for poll in evidence.polls]
    most = MOST_A_SECOND * BURST_SECONDS
    crowded = any(after - before < BURST_SECONDS for before, after in zip(times, times[most:], strict=False))
    return said(times[1:], [f"more than {MOST_A_SECOND} polls a second"] if crowded else [])


def version(evidence: Evidence) -> Said:
    """A04, B10: what it tries while it is answered wrongly does not count."""
    asked_rightly = (
        one for one in (*evidence.polls, *evidence.approvals) if evidence.fault_at(one.monotonic) in ("", "late")
    )
    asked = sorted({one.api_version for one in asked_rightly})
    return said(asked, (wrong for one in asked if (wrong := _wrong_version(one))))


def _wrong_version(name: str) -> str:
    if not name:
        return "it asks without an api-version"
    if name not in BY_NAME:
        return f"it asks for api-version {name[:20]}, which there is not"
    return f"it asks for api-version {name}" if name < OLDEST_FIT else ""
