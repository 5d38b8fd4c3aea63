"""The states of a VM's connection, which follows on which, and what can happen. `conversation.MOVES` is the table."""

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from duenotice.metadata_api.answers import Broken, Outcome
    from duenotice.metadata_api.conversation import VmConversation
    from duenotice.metadata_api.questions import VmRequest


class ConnectionState(IntEnum):
    """What a connection is doing. That the client has ended is told beside it: it may still read."""

    IDLE = 0
    """All that came is answered; the only state without a reader."""

    READING = 1
    """Part of a request has come, or more requests than one turn of the loop answers."""

    HELD = 2
    """A poll waits for news."""

    ANSWERING = 3
    """An answer is being made."""

    BLOCKED = 4
    """The client does not read its answers; what it sends meanwhile is kept for later (S24)."""

    HELD_BLOCKED = 5
    """The same while a poll waits for news."""

    ANSWERING_BLOCKED = 6
    """The same while an answer is being made."""

    LAST = 7
    """The last answer is sent, or the connection is gone."""


IDLE, READING, HELD, ANSWERING, BLOCKED, HELD_BLOCKED, ANSWERING_BLOCKED, LAST = ConnectionState

WHEN_PAUSED = {IDLE: BLOCKED, READING: BLOCKED, HELD: HELD_BLOCKED, ANSWERING: ANSWERING_BLOCKED}
"""The client does not read any more."""

WHEN_RESUMED = {BLOCKED: READING, HELD_BLOCKED: HELD, ANSWERING_BLOCKED: ANSWERING}
"""It reads again."""

WHEN_ANSWERED = {HELD: READING, ANSWERING: READING, HELD_BLOCKED: BLOCKED, ANSWERING_BLOCKED: BLOCKED}
"""What was pending is answered; more may have come behind it."""

WHEN_HELD = {IDLE: HELD, READING: HELD, ANSWERING: HELD, ANSWERING_BLOCKED: HELD_BLOCKED}
"""A poll is to wait."""


class Moves(NamedTuple):
    """What a connection does in one state about each thing that can happen."""

    bytes_came: "Callable[[VmConversation, bytes], None]"
    client_ended: "Callable[[VmConversation], None]"
    news: "Callable[[VmConversation], None]"
    answered: "Callable[[VmConversation, VmRequest, Outcome | Broken], None]"
    writing_paused: "Callable[[VmConversation], None]"
    writing_resumed: "Callable[[VmConversation], None]"
    deadline_passed: "Callable[[VmConversation], None]"
    server_stops: "Callable[[VmConversation], None]"
