"""A large fleet file is looked through in pieces, and only what may be a fleet is read as a whole (S24)."""

from collections.abc import Iterator

import pytest

from duenotice.errors import DuenoticeError
from duenotice.wire import fleet_file
from duenotice.wire.fleet_file import check_in_pieces

SET = """
[[availability_sets]]
name = "a-{0}"
[[availability_sets.vms]]
name = "a-{0}"
address = "10.9.0.{0}"
"""
FLEET = (
    "# Größe: zwei Häuser\n"
    + '[[vms]]\nname = "first"\naddress = "10.0.0.1"\nhost = "later"\ntags = {said = "[[vms]]"}\n'
    + "".join(SET.format(n) for n in range(200))
    + '[[hosts]]\nname = "later"\n[site]\nlocation = "here"\n'
    + "".join(
        f'[[scale_sets]]\nname = "s-{n}"\ncapacity = 1000\naddresses = "10.{n + 10}.0.0/16"\n' for n in range(100)
    )
)


def blocks(text: str, size: int) -> Iterator[bytes]:
    """The text as it is read; a letter may be cut into two."""
    data = text.encode()
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 7, 100, 5000, 10**6])
def test_a_fleet_is_one_in_whatever_pieces_it_is_read(size: int) -> None:
    """Also where a VM names a host that a later piece declares."""
    check_in_pieces(blocks(FLEET, size))
    assert len(fleet_file.read_fleet(FLEET).vms) == 1 + 200 + 100 * 1000


@pytest.mark.parametrize("size", [50, 300, 10**6])
@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ('[[vms]]\nname = "x"\n', "has no 'address'"),
        ('[[vms]]\nname = "x"\naddress = "here"\n', "is not an IP address"),
        ("[[vms]]\nname = \n", "not TOML"),
        ("[[people]]\nname = 'me'\n", "unknown key 'people'"),
    ],
)
def test_a_mistake_is_found_wherever_it_stands(size: int, mistake: str, told: str) -> None:
    for text in (mistake + FLEET, FLEET + mistake):
        with pytest.raises(DuenoticeError, match=told):
            check_in_pieces(blocks(text, size))


def test_a_mistake_is_told_with_its_place() -> None:
    lines = FLEET.count("\n")
    with pytest.raises(DuenoticeError) as refused:
        check_in_pieces(blocks(FLEET + '[[vms]]\nname = "x"\naddress = "here"\n', 100))
    assert f"from line {lines + 1} on, line 3: " in refused.value.message


def test_text_in_which_no_table_begins_is_not_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_file, "LONGEST_PIECE", 1000)
    endless = iter(lambda: b" " * 100, b"")
    with pytest.raises(DuenoticeError, match="no table of a list begins for 1,000 characters"):
        check_in_pieces(endless)


@pytest.mark.parametrize("what", ["VMs", "hosts", "groups"])
def test_a_fleet_has_only_so_many_of_each(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """All pieces together, and before a scale set has become VMs."""
    monkeypatch.setattr(fleet_file, "MOST", 2000)
    text = {
        "VMs": "".join(
            f'[[scale_sets]]\nname = "s{n}"\ncapacity = 1000\naddresses = "10.{n}.0.0/16"\n' for n in range(3)
        ),
        "hosts": "".join(f'[[hosts]]\nname = "h{n}"\n' for n in range(2001)),
        "groups": "".join(f'[[cloud_services]]\nname = "c{n}"\n' for n in range(2001)),
    }[what]
    with pytest.raises(DuenoticeError, match=f"at most 2,000 {what}"):
        check_in_pieces(blocks(text, 100))
    with pytest.raises(DuenoticeError, match=f"at most 2,000 {what}"):
        fleet_file.read_fleet(text)
