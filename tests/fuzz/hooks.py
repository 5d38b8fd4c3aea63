"""What schemathesis must not send: it would lock itself out, or ask for what we never promised."""

import os
from typing import Any

import schemathesis

OWN_TOKEN = os.environ.get("DUENOTICE_FUZZ_TOKEN_ID", "")


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    """Its own token is the one that it may not revoke."""
    wanted = str((case.path_parameters or {}).get("id", ""))
    return case.operation.label != "DELETE /v1/tokens/{id}" or not OWN_TOKEN.startswith(wanted.upper())


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """JSON Schema takes 1.0 for an integer; like most JSON libraries ours does not. And nobody outside is asked."""
    if not isinstance(body, dict):
        return body
    return {key: _sent(key, value) for key, value in body.items()}


def _sent(key: str, value: Any) -> Any:
    if key == "url" and isinstance(value, str) and value.startswith("http"):
        return "http://127.0.0.1:9/"
    return int(value) if _is_whole(value) else value


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()
