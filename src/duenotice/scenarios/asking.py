"""How a scenario talks to the service: a function that the caller provides, and helpers built on it."""

from collections.abc import Iterator
from typing import Any, Protocol
from urllib.parse import quote

PAGE = 1000


class Ask(Protocol):
    """One call of the operator's API: its parsed JSON, or an error of ours."""

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """Ask."""


def path(*parts: str) -> str:
    """`/v1/…` from parts that may contain any characters."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def pages(ask: Ask, kind: str) -> Iterator[Any]:
    """All items of a list."""
    cursor = ""
    while True:
        page = ask("GET", f"{path(kind)}?limit={PAGE}" + (f"&cursor={quote(cursor, safe='')}" if cursor else ""))
        yield from page["items"]
        cursor = page["next"]
        if cursor is None:
            return
