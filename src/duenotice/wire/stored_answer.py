"""An answer of the operator's door as the bytes that the journal keeps: nobody below the door looks into them.

They stay in the journal: a field may be added with a default, never renamed.
"""

import msgspec


class StoredAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request was answered; `body` is JSON."""

    status: int
    body: str
    location: str = ""

    def packed(self) -> bytes:
        """The bytes to keep."""
        return msgspec.json.encode(self)


_decode = msgspec.json.Decoder(StoredAnswer).decode


def unpacked(answer: bytes) -> StoredAnswer:
    """The answer that was kept."""
    return _decode(answer)
