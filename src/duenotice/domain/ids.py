"""Ids of the many things that one command makes: the command brings one, the others follow from it."""

from uuid import UUID, uuid5


def derived(seed: str, name: str) -> str:
    """An id for one of many things that one command makes."""
    return str(uuid5(UUID(seed), name)).upper()
