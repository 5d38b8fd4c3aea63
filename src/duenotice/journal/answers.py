"""Converts stored answers of operators' requests from fields of HTTP to the bytes that the operator's door wrote."""

from base64 import b64encode
from typing import Any

import msgspec

Plain = dict[str, Any]

_FIELDS = ("status", "body", "location")


def answer_in_bytes(record: Plain) -> Plain:
    """A record of format 3 as one of format 4: bytes are base64 in JSON. `wire/stored_answer.py` reads them."""
    change = record["transition"]
    if change["change"] != "request-answered":
        return record
    answer = msgspec.json.encode({name: change[name] for name in _FIELDS if name in change})
    rest = {name: value for name, value in change.items() if name not in _FIELDS}
    return record | {"transition": rest | {"answer": b64encode(answer).decode()}}
