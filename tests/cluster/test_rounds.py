"""Three real nodes under everything that can happen: what VMs read at any of them is one history (S3, S4, S7, S27)."""

import secrets
from pathlib import Path

import pytest

from tests.cluster.rounds import run

pytestmark = [pytest.mark.machine, pytest.mark.soak]

ROUNDS = 7
"""Half of the faults, drawn anew each time, and newer records at the end; `make soak-cluster` does 200."""


def test_what_vms_read_at_three_nodes_is_one_history_whatever_happens(tmp_path: Path) -> None:
    """Nothing goes back, nothing differs, nothing answered is lost or done twice (S3, S4, S5, S6, S7, S27)."""
    seen = run(tmp_path, ROUNDS, secrets.randbits(32), print).sightings
    assert seen.polls > 100 * ROUNDS
