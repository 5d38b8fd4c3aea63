"""What others ask of an engine, simple as long as there are no other nodes; one of many has its own answers."""

import asyncio
from collections.abc import Callable, Sequence

from duenotice.clock import Clock, seconds_since_2020
from duenotice.domain.commands import LiftIncarnations
from duenotice.domain.records import Record
from duenotice.engine.followers import Below, Nobody
from duenotice.engine.publisher import Publisher
from duenotice.errors import Unavailable


class Alone:
    """A node that always leads; `on_lead` and `on_follow` are for what runs only where the leader is."""

    def __init__(self, clock: Clock, publisher: Publisher) -> None:
        self.clock, self.publisher = clock, publisher
        self.changed = asyncio.Event()
        self.trouble: Unavailable | None = None
        """Why nothing can be stored, if the files of the journal were taken away."""
        self.below: Below = Nobody()
        self.on_commit: list[Callable[[Sequence[Record]], None]] = []
        self.on_recover: list[Callable[[], None]] = []
        self.on_lead: list[Callable[[], None]] = []
        self.on_follow: list[Callable[[], None]] = []

    @property
    def leads(self) -> bool:
        """Whether commands are decided here."""
        return True

    def may_answer(self) -> bool:
        """Whether VMs may be answered in this moment (N05)."""
        return True

    def keep_time(self) -> int:
        """To be called a few times a second: time counts while VMs can be answered (S25). Tells what did not count."""
        return self.clock.beat()

    def lifting(self) -> LiftIncarnations:
        """What to ask for when the journal is an older copy (S3)."""
        return LiftIncarnations(seconds_since_2020())

    def hand_over(self) -> None:
        """The process is about to end (N07)."""
