"""Whether a follower lives and answers VMs, for load balancers: `/livez` and `/readyz?verbose`, as a node has them.

Pure: the first line of a request in, the whole answer out.
"""

import re
from typing import NamedTuple

import msgspec

from duenotice.escape import one_line
from duenotice.wire.operator import Health, Problem

_ASKS = re.compile(rb"(GET|HEAD) /(livez|readyz)(\?[^ ]*)? HTTP/1\.[01]\r?\n")
_REASONS = {200: "OK", 503: "Service Unavailable"}


class Wellbeing(NamedTuple):
    """Of a follower: which node it follows, what is wrong with that, and whether VMs may be answered (N05)."""

    node: str
    trouble: str
    may_answer: bool


def answer(request: bytes, now: Wellbeing) -> bytes | None:
    """The answer to what came first on a connection; None if it asks for something else."""
    asked = _ASKS.match(request)
    if asked is None:
        return None
    is_verbose = asked[2] == b"readyz" and b"verbose" in (asked[3] or b"")
    status = 200 if asked[2] == b"livez" or now.may_answer else 503
    body = _checks(now) if is_verbose else _json(status, now)
    head = [
        f"HTTP/1.1 {status} {_REASONS[status]}",
        "Content-Type: " + (_type_of(status) if not is_verbose else "text/plain; charset=utf-8"),
        f"Content-Length: {len(body)}",
        *(["Retry-After: 1"] if status == 503 else []),
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + (b"" if asked[1] == b"HEAD" else body)


def _type_of(status: int) -> str:
    return "application/json" if status == 200 else "application/problem+json"


def _json(status: int, now: Wellbeing) -> bytes:
    if status == 200:
        return msgspec.json.encode(Health("ok"))
    title = one_line("This follower may not answer VMs now. " + now.trouble).strip()
    return msgspec.json.encode(
        Problem(type="about:blank", status=503, title=title, hint="It does when its node lets it.")
    )


def _checks(now: Wellbeing) -> bytes:
    """One line for each check, in the form that Kubernetes uses; a right goes on for a while without the node."""
    right = "[+]right ok" if now.may_answer else "[-]right it may not answer VMs now"
    node = f"[-]node {now.node}: {now.trouble}" if now.trouble else f"[+]node {now.node} ok"
    result = f"readyz check {'passed' if now.may_answer else 'failed'}"
    return "".join(f"{one_line(line)}\n" for line in (right, node, result)).encode()
