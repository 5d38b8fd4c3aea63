"""A fleet for casting, as the operator's API would tell of it; plain values, no service."""

from typing import Any


def vm(name: str, **more: Any) -> dict[str, Any]:
    """A VM; alone unless it has a group."""
    usual = {"group": None, "update_domain": None, "placement_group": None, "host": None, "spot": False}
    made = {"name": name, "scope": f"vm/{name}", **usual, **more}
    if made["group"]:
        made["scope"] = f"{made['group']}/{made['placement_group'] or 0}"
    return made


def group(kind: str, name: str, terminate_notice: int | None = None) -> dict[str, Any]:
    """A group."""
    return {"key": f"{kind}/{name}", "kind": kind, "name": name, "terminate_notice": terminate_notice}


class Told:
    """Answers a scenario's questions about the fleet from lists, a few items a page."""

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self._lists = lists

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        assert (method, body) == ("GET", None)
        kind = path.removeprefix("/v1/").partition("?")[0]
        start = int(path.partition("cursor=")[2] or 0)
        items = self._lists.get(kind, [])
        return {"items": items[start : start + 3], "next": str(start + 3) if start + 3 < len(items) else None}
