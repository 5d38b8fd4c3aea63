"""Remembers what requests mean: VMs send the same bytes again and again, so they are parsed once.

Only a request without a body is remembered, from the first byte of its method to the end of its head. What it means
follows from its bytes and nothing else; who sent it is looked up every time.
"""

from duenotice.errors import Malformed
from duenotice.metadata_api.questions import VmRequest
from duenotice.metadata_api.request_head import parse_head
from duenotice.metadata_api.routes import Router

MAX_ENTRIES = 4096
MAX_REQUEST = 2048

SHORT = 470
"""Bytes that most polls do not have; Python finds room for so many much faster than for thousands."""

_END = b"\r\n\r\n"


class Memo:
    """From the bytes of a request to what it asks; connections read `known` directly, the rest happens here.

    To read `much` is enough for each request that is known, if it is short, and shows whether there is more. It is not
    more than that because Python moves what it has read when that is far less than it had made room for.
    """

    __slots__ = ("_room", "_router", "known", "much")

    def __init__(self, router: Router) -> None:
        self._router = router
        self._room = MAX_ENTRIES
        self.known: dict[bytes, VmRequest] = {}
        self.much = SHORT

    def learn(self, data: bytes) -> VmRequest | None:
        """What these bytes ask, if they are exactly one GET without a body; None leaves them to the reader."""
        if len(data) > MAX_REQUEST or not data.startswith(b"GET ") or data.find(_END) != len(data) - len(_END):
            return None
        try:
            head = parse_head(data[: -len(_END)])
        except Malformed:
            return None
        if head.body_length != 0:
            return None
        ask = self._router.ask(head)
        self._remember(data, ask)
        return ask

    def _remember(self, data: bytes, ask: VmRequest) -> None:
        if len(self.known) >= self._room:
            self.known.clear()
        if self._room:
            self.much = min(max(len(data) + 1, self.much if self.known else 0), SHORT)
            self.known[data] = ask

    def close(self) -> None:
        """Forget everything and store nothing more, so that each request takes the slow path."""
        self._room = 0
        self.known.clear()
