"""What is simple as long as there are no other nodes; the engine of one of many does each of these its own way."""

from collections.abc import Callable

from duenotice.clock import Clock


class Alone:
    """A node that always leads; `on_lead` and `on_follow` are for what runs only where the leader is."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
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

    def hand_over(self) -> None:
        """The process is about to end (N07)."""
