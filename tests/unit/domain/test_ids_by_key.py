"""Ids under keys are kept in the order in which they came, however many come and go."""

from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain.bulk import MANY, IdsByKey

KEYS = st.sampled_from(["few", "many"])
CHANGES = st.lists(st.tuples(KEYS, st.integers(-30, 30)), max_size=40)
"""How many come under a key (or go, the oldest and the newest in turn)."""


def filled(key: str, number: int) -> IdsByKey:
    ids = IdsByKey()
    for n in range(number):
        ids.add(key, (f"{n}",))
    return ids


@given(CHANGES)
def test_it_holds_what_lists_would_hold(changes: list[tuple[str, int]]) -> None:
    ids, lists, number = filled("many", MANY), {"many": [f"{n}" for n in range(MANY)], "few": []}, MANY
    for key, more in changes:
        for _ in range(more):
            number += 1
            ids.add(key, (f"{number}",))
            lists[key].append(f"{number}")
        for n in range(min(-more, len(lists[key]))):
            ids.remove(key, lists[key].pop(0 if n % 2 else -1))
        for each, there in lists.items():
            assert list(ids.of(each)) == there
            assert (each in ids) == bool(there)
        assert bool(ids) == any(lists.values())


def test_a_copy_changes_alone() -> None:
    for number in (2, MANY, 2 * MANY):
        ids = filled("a", number)
        copy = ids.copy()
        assert copy == ids
        ids.add("a", ("another",))
        copy.remove("a", "0")
        assert list(ids.of("a")) == [*map(str, range(number)), "another"]
        assert list(copy.of("a")) == [*map(str, range(1, number))]
        assert copy != ids


def test_they_are_equal_however_they_came_to_be_so() -> None:
    many, few = filled("a", MANY + 1), filled("a", MANY - 1)
    many.remove("a", str(MANY))
    many.remove("a", str(MANY - 1))
    assert many == few
    assert few != {"a": 1}
