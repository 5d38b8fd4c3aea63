"""Who gets a place when there are not enough, and whose ends."""

from duenotice.bootstrap.places import Place, Places, Room


class Ended:
    """A connection that notes that it was ended."""

    def __init__(self, ended: list[str], name: str) -> None:
        self._ended, self._name = ended, name

    def abort(self) -> None:
        self._ended.append(self._name)


def taken(places: Places, ended: list[str], wishes: str, reads: bool = True) -> list[bool]:
    """What each of the holders, a letter for each wish, is told."""
    told = []
    for number, holder in enumerate(wishes):
        told.append(places.take(holder, Place(Ended(ended, f"{holder}{number}"), reads)))  # type: ignore[arg-type]
    return told


def test_nobody_gets_more_than_a_share() -> None:
    """Though there are places; and nothing of its own is ended for it."""
    ended: list[str] = []
    assert taken(Places(Room(5, 2)), ended, "aaa") == [True, True, False]
    assert ended == []


def test_who_has_fewer_gets_the_oldest_place_of_who_has_most() -> None:
    """Until they have as many as each other."""
    ended: list[str] = []
    assert taken(Places(Room(4, 4)), ended, "aaaabbb") == [True] * 6 + [False]
    assert ended == ["a0", "a1"]


def test_nothing_that_changes_something_is_ended() -> None:
    """Nobody would know whether it was done."""
    ended: list[str] = []
    assert taken(Places(Room(4, 4)), ended, "aaaab", reads=False) == [True] * 4 + [False]
    assert ended == []


def test_a_place_that_is_left_is_free() -> None:
    """Once, also when it was ended before."""
    places, ended = Places(Room(2, 2)), list[str]()
    mine = [Place(Ended(ended, "a"), True) for _ in range(2)]  # type: ignore[arg-type]
    assert [places.take("a", each) for each in mine] == [True, True]
    assert taken(places, ended, "b") == [True]
    assert ended == ["a"]
    for _ in range(2):
        places.leave("a", mine[0])
    assert taken(places, ended, "c") == [False]
    places.leave("a", mine[1])
    assert taken(places, ended, "c") == [True]
