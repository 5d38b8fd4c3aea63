"""How a node asks the one that leads: over TLS if that one says https, and with one line in the log when it cannot."""

import ssl

from duenotice.clock import monotonic
from duenotice.engine.log import report
from duenotice.engine.members import Deposed, Member
from duenotice.errors import Unavailable
from duenotice.http.fetch import HttpAnswer, NothingSent, NotTrusted, fetch

UNDONE = "Duenotice-Undone"
"""In an answer to another node: surely nothing was done."""
NOTHING_DONE = "Nothing was done. Try again in some seconds."
_ENOUGH = 20.0
"""Real seconds for the leader's answer: a change waits for members that have just died."""
_AGAIN = "It may be done or not. Send it again with the same Idempotency-Key."
_UNTRUSTED = "Nothing was done. Fix node_ca_file at this node, or the certificate or node_url of that one."
_TELL_EVERY = 60.0
"""Real seconds between two lines in the log about the same."""


class LeaderNotTrusted(Deposed):
    """The node that leads cannot show that it is one of ours. Nothing was sent, and somebody has to fix it."""


class WayToLeader:
    """For all requests of one node; `trust` says whose certificates count, by default those of the system."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        self._trust = trust
        self._told, self._next = "", 0.0
        self._trouble: tuple[str, str] = ("", "")

    def trouble_with(self, leader: Member) -> str:
        """Why this leader could not be asked when that was tried last; "" if it could, or was not tried."""
        life, why = self._trouble
        return why if life == leader.life else ""

    async def sent(
        self, leader: Member, path: str, method: str, body: bytes | bytearray, headers: dict[str, str]
    ) -> HttpAnswer:
        """The answer of the node that leads; raises `Deposed` when it has surely done nothing."""
        url = leader.url + path
        try:
            answer = await fetch(url, method=method, body=body, headers=headers, timeout=_ENOUGH, trust=self._trust)
        except NothingSent as error:
            kind, hint = (LeaderNotTrusted, _UNTRUSTED) if isinstance(error, NotTrusted) else (Deposed, NOTHING_DONE)
            self._complain(leader, error, hint)
            self._trouble = leader.life, error.message
            raise kind(f"The node that leads cannot be reached: {error.message}", hint=hint) from None
        except Unavailable as error:
            self._trouble = leader.life, error.message
            raise Unavailable(f"The node that leads did not answer: {error.message}", hint=_AGAIN) from None
        self._trouble = ("", "")
        if answer.status == 503 and UNDONE.lower() in answer.headers:
            raise Deposed("No node leads right now.", hint=NOTHING_DONE)
        return answer

    def _complain(self, leader: Member, error: NothingSent, hint: str) -> None:
        if error.message == self._told and monotonic() < self._next:
            return
        self._told, self._next = error.message, monotonic() + _TELL_EVERY
        what = "the node that leads cannot be reached"
        details = {"leader": leader.node, "url": leader.url, "error": error.message, "hint": hint}
        report("warning", what, action="leader-not-reached", **details)
