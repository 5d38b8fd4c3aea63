"""Very many things in pieces are the same things in the same order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duenotice.domain import bulk
from duenotice.domain.bulk import by_key, chunks, in_order, used_up

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.integers()))


@given(PAIRS, st.integers(1, 5))
def test_sorted_in_pieces_is_sorted_and_equals_stay_in_order(things: list[tuple[int, int]], piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "PIECE", piece)
        assert list(in_order(things, key=lambda pair: pair[0])) == sorted(things, key=lambda pair: pair[0])


@given(PAIRS)
def test_a_key_that_costs_something_is_made_once_and_the_order_is_the_same(things: list[tuple[int, int]]) -> None:
    asked: list[tuple[int, int]] = []

    def key(pair: tuple[int, int]) -> int:
        asked.append(pair)
        return pair[0]

    assert by_key(things, key) == sorted(things, key=lambda pair: pair[0])
    assert asked == things


@given(PAIRS, st.integers(1, 5))
def test_chunks_are_full_but_the_last_and_give_everything_once(things: list[tuple[int, int]], size: int) -> None:
    some = list(chunks(things, size))
    assert [thing for chunk in some for thing in chunk] == things
    assert all(len(chunk) == size for chunk in some[:-1])
    assert all(0 < len(chunk) <= size for chunk in some)


@given(st.lists(st.integers()))
def test_what_is_used_up_comes_in_order_and_the_list_has_only_what_is_left(things: list[int]) -> None:
    seen: list[int] = []
    left = things.copy()
    for thing in used_up(left):
        seen.append(thing)
        assert len(seen) + len(left) == len(things)
    assert seen == things
