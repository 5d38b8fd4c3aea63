"""One world: machines, nodes, operators, VMs and faults, all from one seed."""

from random import Random

from simulator.faults import Faults
from simulator.loop import VirtualLoop
from simulator.network import Network


class World:
    """What actions find around them."""

    def __init__(self, seed: int, loop: VirtualLoop, faults: Faults) -> None:
        self.seed, self.loop, self.faults = seed, loop, faults
        self.network = Network(loop, seed, faults)

    def dice(self, name: str) -> Random:
        """Dice of somebody's own: what others do does not change what they throw."""
        return Random(f"{self.seed}/{name}")

    def say(self, who: str, what: str) -> None:
        """Write a line of the trace."""
