"""Judges how a client asks: its header, how often it asks, its api-version. Pure."""

import re

from duenotice.testkit.verdicts.evidence import PATH_OF_2016, PREVIEW, Evidence, asks_as_in_2016, needs_header
from duenotice.testkit.verdicts.said import Said, said
from duenotice.wire.api_versions import API_VERSIONS, BY_NAME

METADATA_ADDRESS = "169.254.169.254"
BURST_SECONDS = 2

OLDEST_FIT = "2017-11-01"
"""Older api-versions never show Preempt (B10)."""

_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


def asks(evidence: Evidence) -> Said:
    """H01: a client that never asks is never told."""
    if evidence.polls:
        return []
    others = "; it asked for other things only" if evidence.exchanges else ""
    ended = "".join(f"; it ended with code {one.code}" for one in evidence.notes.endings[:1])
    return [f"nothing asked {METADATA_ADDRESS} for /metadata/scheduledevents{others}{ended}"]


def header(evidence: Evidence) -> Said:
    """A03: the preview needs none."""
    asked = [exchange for exchange in evidence.exchanges if exchange.method and needs_header(exchange)]
    without = [one for one in asked if one.headers.get("metadata", "").lower() != "true"]
    return said(asked, (f"{one.method} #{one.number} had no header" for one in without))


def pace(evidence: Evidence) -> Said:
    """D06: in real seconds, whatever the clock."""
    gaps = {poll.number: evidence.silence_after(poll) for poll in evidence.polls}
    longest = max(gaps, key=lambda number: gaps[number], default=0)
    if gaps and gaps[longest] >= evidence.tempo.patience:
        return [f"it was silent for {gaps[longest]:.0f} s after #{longest}"]
    return [] if len(evidence.polls) > 1 else None


def crowding(evidence: Evidence) -> Said:
    """A08: a burst is let through, as the real service does."""
    times = [poll.monotonic for poll in evidence.polls]
    most = round(evidence.tempo.most_a_second * BURST_SECONDS)
    crowded = any(after - before < BURST_SECONDS for before, after in zip(times, times[most:], strict=False))
    return said(times[1:], [f"more than {evidence.tempo.most_a_second:g} polls a second"] if crowded else [])


def version(evidence: Evidence) -> Said:
    """A04, B10: versions that it tries during a fault, or before it finds one that works, do not count."""
    requests = [one for one in (*evidence.polls, *evidence.approvals) if evidence.is_right(one)]
    asked = {PATH_OF_2016 if asks_as_in_2016(one) else one.api_version for one in requests}
    known = asked & {PATH_OF_2016, *BY_NAME}
    return said(asked, (wrong for one in sorted(known or asked) if (wrong := _wrong_version(one))))


def _wrong_version(name: str) -> str:
    if not name:
        return "it asks without an api-version"
    if name == PATH_OF_2016:
        return f"it asks {PATH_OF_2016}, the path of 2016, which is answered like api-version {PREVIEW}"
    if name in BY_NAME:
        return f"it asks for api-version {name}" if name < OLDEST_FIT else ""
    if _DATE.fullmatch(name) and name > API_VERSIONS[-1].name:
        return f"it asks for api-version {name}, which is newer than all that are known"
    return f"it asks for api-version {name[:20]}, which does not exist"
