"""What a judge says: nothing (None), no complaint (empty), or complaints about the client."""

from collections.abc import Iterable

Said = list[str] | None
"""None when the run gave the judge nothing to judge."""


def counted(count: int, what: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def said(tried: Iterable[object], words: Iterable[str]) -> Said:
    """The complaints, each once, if anything was tried."""
    return list(dict.fromkeys(words)) if any(True for _ in tried) else None
