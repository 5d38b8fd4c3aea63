"""A power cut at any moment: nothing that was answered is lost, nothing is half done, nothing goes back (S3, S5-S7)."""

import random

import pytest

from simulator.power.campaign import campaign, room
from simulator.power.disk import SECTOR, Disk, Name, Resize, Sync, SyncNames, Write
from simulator.power.story import live
from tests.support.seed import SEED

A, B = b"a" * SECTOR, b"b" * SECTOR
FILE = Name("f", 0)


def images(*acts: object, count: int = 300) -> set[bytes | None]:
    """All that a cut may leave of the file `f`; None where it has no name yet."""
    disk, chance = Disk(), random.Random(1)
    for act in acts:
        disk.do(act)  # type: ignore[arg-type]
    found = [disk.image(chance) for _ in range(count)]
    return {image.get("f") for image in found}


def test_no_cut_loses_what_was_answered() -> None:
    """2,000 images of journals under load, of four lives each: S3, S5, S6 and S7 hold in every one."""
    print(f"python -m simulator.power --seed {SEED}")  # noqa: T201
    tally = campaign(SEED, 2000)
    assert not tally.wrong, f"{tally.wrong}: python -m simulator.power --images 1 --seed {tally.seed}"
    assert tally.images >= 2000


@pytest.mark.parametrize("deaf", ["", "journal.db-wal", "journal.db", "data"])
def test_a_sync_that_does_nothing_is_noticed(deaf: str) -> None:
    """Without the syncs of any one file, or of the directory, something that was answered is lost."""
    assert campaign(7, 4000, (deaf,)).wrong


def test_the_same_seed_makes_the_same_disk() -> None:
    """So that what was found can be looked at."""
    with room() as place:
        first, again = (live(place / "life", {}, random.Random(3)) for _ in range(2))
    assert first == again


def test_what_is_synced_is_there() -> None:
    """Whatever else is lost."""
    assert images(FILE, Write(0, 0, A), Sync(0), SyncNames("")) == {A}


def test_a_file_that_is_synced_without_its_directory_may_be_gone() -> None:
    """Its name is not in the file."""
    assert images(FILE, Write(0, 0, A), Sync(0)) == {A, None}


def test_a_sector_is_written_as_a_whole_and_a_write_is_not() -> None:
    """Two sectors over two synced ones: any of the four mixtures, and no other."""
    acts = FILE, SyncNames(""), Write(0, 0, A + A), Sync(0), Write(0, 0, B + B)
    assert images(*acts) == {A + A, A + B, B + A, B + B}


def test_later_writes_may_be_there_without_earlier_ones() -> None:
    """A disk does not keep the order."""
    acts = FILE, SyncNames(""), Write(0, 0, A + A), Sync(0), Write(0, 0, B), Write(0, SECTOR, B)
    assert A + B in images(*acts)


def test_a_file_may_have_grown_before_its_bytes_are_there() -> None:
    """Zeros, or what others left on the disk."""
    left = images(FILE, SyncNames(""), Write(0, 0, A))
    assert {b"", A, bytes(SECTOR)} < left


def test_a_file_that_is_cut_off_may_still_be_long() -> None:
    """Until it is synced."""
    assert images(FILE, SyncNames(""), Write(0, 0, A + A), Sync(0), Resize(0, SECTOR)) >= {A, A + A}


def test_a_rename_is_there_as_a_whole_or_not_at_all() -> None:
    """The old name, or the new one, and never both."""
    disk = Disk({"new": A})
    disk.do(Name("f", 0, instead_of="new"))
    chance = random.Random(1)
    assert {tuple(disk.image(chance)) for _ in range(50)} == {("new",), ("f",)}
