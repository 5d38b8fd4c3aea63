"""How whoever gets a problem of the operator's API reads it: each client says the hint in its own words."""

from collections.abc import Mapping
from typing import Any

from duenotice.errors import Listing


def hint_in(problem: Mapping[str, Any], ways: Mapping[Listing, str]) -> str:
    """The hint of a problem; `ways` are what users of this client do to see a list."""
    asked = problem.get("look_at")
    named = next((listing for listing in ways if listing.value == asked), None)
    return str(problem.get("hint") or "") if named is None else named.hint(ways[named])
