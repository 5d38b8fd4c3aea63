"""The watch as a flow: emits each document that differs from the one before, and never asks too often.

A service of ours holds a poll until there is news (`&wait=`, with `If-None-Match`); others ignore the unknown
parameter and answer at once. Only time tells the two apart: a 304 that comes when the wait is over proves that the poll
was held. Until that is proven, and whenever it is no longer true, the watch polls once a second (D06). It then compares
whole documents, because an entity tag is only as good as the service's incarnations.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from duenotice.client.errors import MetadataError
from duenotice.client.protocol import MetadataFlows, document_in
from duenotice.http.flow import Emit, Flow, Sleep
from duenotice.http.http1 import Response
from duenotice.wire.seen_documents import SeenDocument

WAIT_SECONDS = 10
"""Not longer: a service that died silently is noticed after this, and enough of 30 s of notice must be left (H06)."""

POLL_SECONDS = 1.0
HELD_POLL_SECONDS = 0.25
"""The time between the starts of two polls, even when the document changes all the time.

The service allows 5 a second.
"""

PROBE_SECONDS = 60.0
"""How long to poll without waiting after a wait that was not held; then waiting is tried again."""

LONGEST_PAUSE = 10.0
_EARLY = 0.5
_TAG = re.compile(r'(?:W/)?"[!#-~]{1,100}"')  # a tag that may be sent back

OnError = Callable[[MetadataError], None]


@dataclass(slots=True)
class Watch:
    """One watch: what it showed last, and whether the service waits."""

    flows: MetadataFlows
    on_error: OnError | None = None
    shown: SeenDocument | None = None
    tag: str = ""
    waits: bool = False
    asked_at: float = 0.0
    probe_at: float = 0.0

    def run(self) -> Flow[None]:
        """Never ends by itself. Without `on_error` it raises the same errors as `document()`."""
        while True:
            try:
                document = yield from self._next_document()
            except MetadataError as error:
                if self.on_error is None:
                    raise
                self.on_error(error)
                yield Sleep(max(POLL_SECONDS, min(error.retry_after or 0.0, LONGEST_PAUSE)))
                continue
            self.flows.read_at = self.flows.now()
            if document != self.shown:
                self.shown = document
                yield Emit(document)
            gap = HELD_POLL_SECONDS if self.waits else POLL_SECONDS
            if (spent := self.flows.now() - self.asked_at) < gap:
                yield Sleep(gap - spent)

    def _next_document(self) -> Flow[SeenDocument]:
        self.asked_at = self.flows.now()
        try:
            if self.tag and self.shown and (self.waits or self.asked_at >= self.probe_at):
                return (yield from self._wait(self.shown))
            return (yield from self._read(self.asked_at + self.flows.policy.timeout))
        except MetadataError as error:
            failed = error
        # Next time another service may answer, so start again with a plain poll.
        self.waits, self.tag = False, ""
        document = yield from self.flows.document(failed)
        self.asked_at = self.flows.now()
        return document

    def _read(self, deadline: float) -> Flow[SeenDocument]:
        version, response = yield from self.flows.poll_once(deadline)
        return self._taken(version, response)

    def _wait(self, shown: SeenDocument) -> Flow[SeenDocument]:
        deadline = self.asked_at + WAIT_SECONDS + self.flows.policy.timeout
        version, response = yield from self.flows.poll_once(deadline, f"{WAIT_SECONDS}s", self.tag)
        document = shown if response.status == 304 else self._taken(version, response)
        if document == shown:
            self._judge(response)
        return document

    def _judge(self, response: Response) -> None:
        """No news: was the poll held for it?"""
        spent = self.flows.now() - self.asked_at
        self.waits = response.status == 304 and spent >= WAIT_SECONDS - _EARLY
        if not self.waits:
            self.probe_at = self.flows.now() + PROBE_SECONDS

    def _taken(self, version: str, response: Response) -> SeenDocument:
        document = document_in(response, version)
        tag = response.headers.get("etag", "")
        self.tag = tag if _TAG.fullmatch(tag) else ""
        return document
