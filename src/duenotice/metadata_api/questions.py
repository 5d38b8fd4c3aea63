"""What a VM can ask, as values, and how to send the answer: all that follows from the bytes of a request alone."""

from dataclasses import dataclass

from duenotice.metadata_api.request_head import RequestHead
from duenotice.metadata_api.responses import CLOSE, KEEP_ALIVE, Answer
from duenotice.wire.api_versions import ApiVersion

_ANY = "*"


@dataclass(frozen=True, slots=True)
class Poll:
    """Show me my document; unless I have it (`known` are entity tags), in which case I may `wait` for a new one."""

    version: ApiVersion
    known: frozenset[str] = frozenset()
    wait: float = 0.0

    def has(self, incarnation: int) -> bool:
        """Whether the caller has this document already (A10)."""
        return str(incarnation) in self.known or _ANY in self.known


@dataclass(frozen=True, slots=True)
class LetStart:
    """Let the events named in the body start."""


@dataclass(frozen=True, slots=True)
class Describe:
    """Tell me about myself (A12): all of it, or what is under a path."""

    path: tuple[str, ...] = ()
    as_text: bool = False


@dataclass(frozen=True, slots=True)
class ListVersions:
    """Which api-versions are there?"""


Question = Poll | LetStart | Describe | ListVersions | Answer
"""An `Answer` stands for a request that is refused from every caller."""


@dataclass(frozen=True, slots=True)
class VmRequest:
    """A question and how to send its answer.

    `connection` is the header line that goes with it; `plain` marks the poll that most VMs send, once a second.
    """

    question: Question
    closes: bool = False
    connection: bytes = b""
    plain: ApiVersion | None = None


def ask_of(head: RequestHead, question: Question) -> VmRequest:
    """The question, with how its head wants the answer to be sent."""
    closes = not head.keep_alive
    connection = CLOSE if closes else b"" if head.minor else KEEP_ALIVE
    if isinstance(question, Answer) and head.method == "HEAD":
        question = question.without_body()
    plain = question.version if isinstance(question, Poll) and not question.known else None
    return VmRequest(question, closes, connection, plain)
