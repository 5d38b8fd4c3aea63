"""What a judge says: nothing at all, nothing against the client, or what speaks against it."""

from collections.abc import Iterable

Said = list[str] | None
"""None when the run gave the judge nothing to judge."""


def said(tried: Iterable[object], words: Iterable[str]) -> Said:
    """The words, each once, if anything was tried."""
    return list(dict.fromkeys(words)) if any(True for _ in tried) else None
