"""What a scope is shown: its live events under an incarnation (B01)."""

from msgspec import Struct

from duenotice.domain.event import Event


class Document(Struct, frozen=True):
    """All live events of one scope; the same incarnation always means the same content (S4)."""

    incarnation: int = 0
    events: tuple[Event, ...] = ()


EMPTY = Document()
"""The document of a scope that never had an event."""
