"""What we need of a hypervisor, and the values that it answers with; must not know libvirt."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duenotice.errors import Refused

if TYPE_CHECKING:
    from duenotice.host.guests import GuestDomain
    from duenotice.host.notes import Note


class HypervisorRefused(Refused):
    """The hypervisor did not do it; the message is its reason."""


class DomainState(Enum):
    """What a domain does."""

    RUNNING = "running"
    PAUSED = "paused"
    OFF = "off"
    GONE = "gone"
    """There is no domain of that name."""


class DomainSight(NamedTuple):
    """A domain now. `kept` are the notes of its configuration, `running` those of the run that is on.

    `uuid` tells it from another domain of the same name, on another host.
    """

    state: DomainState
    is_transient: bool = False
    kept: "tuple[Note, ...]" = ()
    running: "tuple[Note, ...]" = ()
    uuid: str = ""


GONE = DomainSight(DomainState.GONE)


class Hypervisor(Protocol):
    """One host. Every call may block, and raises `Unavailable` while the host cannot be asked."""

    name: str

    def guests(self, bridge: str) -> "list[GuestDomain]":
        """All domains."""

    def listen(self, changed: Callable[[], None]) -> None:
        """Call this from any thread whenever a domain or the connection has changed."""

    def look(self, domain: str) -> DomainSight:
        """How a domain is."""

    def keep_notes(self, domain: str, notes: "Sequence[Note]") -> None:
        """In the kept configuration; of a transient domain in the running one."""

    def mark_run(self, domain: str, notes: "Sequence[Note]") -> None:
        """In the running configuration only."""

    def suspend(self, domain: str) -> None:
        """Pause it."""

    def resume(self, domain: str) -> None:
        """End its pause."""

    def press(self, domain: str) -> None:
        """Press its power button (ACPI)."""

    def destroy(self, domain: str) -> None:
        """Pull its plug."""

    def start(self, domain: str) -> None:
        """Power it up."""

    def undefine(self, domain: str) -> None:
        """Forget its configuration."""

    def description(self, domain: str) -> str:
        """Its kept configuration."""

    def define(self, description: str) -> None:
        """Take over the configuration of another host's domain."""

    def migrate(self, domain: str, target: "Hypervisor") -> None:
        """Move it while it runs."""
