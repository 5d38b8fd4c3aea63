"""Pauses between tries: they grow, and end growing."""

from itertools import islice

import pytest

from duenotice.backoff import Backoff


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [
        (Backoff(0.5, 3.0), [0.5, 1.0, 2.0, 3.0, 3.0]),
        (Backoff(1.0, 1.0), [1.0, 1.0, 1.0, 1.0, 1.0]),
        (Backoff(10.0, 3600.0), [10.0, 20.0, 40.0, 80.0, 160.0]),
    ],
)
def test_each_pause_is_twice_the_one_before_up_to_the_longest(backoff: Backoff, pauses: list[float]) -> None:
    assert list(islice(backoff.pauses(), 5)) == pauses
    assert [backoff.after(failures) for failures in range(5)] == pauses


def test_after_any_number_of_failures_there_is_a_pause() -> None:
    """A service may be away for weeks."""
    assert Backoff(0.2, 2.0).after(10**9) == 2.0
