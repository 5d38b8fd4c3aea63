"""Where one run does its work: how long to measure, and data directories with a fleet already in them."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.console import step
from benchmarks.support.fleets import fleet_text
from benchmarks.support.machine import CannotMeasure
from benchmarks.support.node import Node

FLEET = 100_000
"""VMs registered wherever the measurement is not about their number."""


@dataclass
class Yard:
    """A temporary folder on the disk that the repository is on; `quick` proves that all works, not how fast."""

    root: Path
    quick: bool
    _places: int = 0

    @property
    def rounds(self) -> int:
        """How often ours and the reference take turns."""
        return 3 if self.quick else 9

    @property
    def seconds(self) -> int:
        """How long a turn is."""
        return 1 if self.quick else 2

    def folder(self, name: str) -> Path:
        """A place for something else; not made yet."""
        return self.root / name

    def new_folder(self, kind: str) -> Path:
        """A place that nobody else has, with this in its name; not made yet."""
        self._places += 1
        return self.root / f"{kind}-{self._places}"

    def fleet_file(self, size: int = FLEET) -> Path:
        """A fleet file with that many VMs."""
        path = self.root / f"fleet-{size}.toml"
        if not path.exists():
            path.write_text(fleet_text(size))
        return path

    def data_dir(self, size: int = FLEET) -> Path:
        """A data directory of one's own that holds a snapshot of that many VMs."""
        prepared = self.root / f"prepared-{size}"
        if not prepared.exists():
            self._prepare(prepared, size)
        return Path(shutil.copytree(prepared, self.new_folder(f"data-{size}")))

    def _prepare(self, data_dir: Path, size: int) -> None:
        with Node(data_dir, self.fleet_file(size)) as node:
            if node.vms != size:
                raise CannotMeasure(f"The server has {node.vms:,} VMs instead of {size:,}.")
            step(f"{size:,} VMs registered from a fleet file in {node.started_in:.1f} s")
