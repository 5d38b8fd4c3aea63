"""What a journal is when it is opened, by the notes beside it (S2, S3)."""

import pytest

from duenotice.store.codec import Mark
from duenotice.store.data_dir import RestoreCheck, restore_check

LIFT: Mark = (7, 1234)


@pytest.mark.parametrize(
    ("newest", "reached", "seen", "lifted_with", "found"),
    [
        pytest.param(0, None, None, None, RestoreCheck(False, 0), id="a new one"),
        pytest.param(9, 9, 8, None, RestoreCheck(False, 8), id="one that was closed or killed"),
        pytest.param(9, 12, 12, None, RestoreCheck(False, 9), id="readers cannot have seen more than there is"),
        pytest.param(9, 9, None, None, RestoreCheck(False, 9), id="without a note all counts as seen"),
        pytest.param(9, None, None, None, RestoreCheck(True, 9), id="one that was put in place"),
        pytest.param(
            9, None, None, (7, 4321), RestoreCheck(True, 9), id="another copy has another lift at that position"
        ),
        pytest.param(
            9, None, None, LIFT, RestoreCheck(False, 6), id="killed after the lift: nobody was answered since"
        ),
        pytest.param(9, 9, 9, LIFT, RestoreCheck(False, 9), id="a lift that was noted as done"),
        pytest.param(0, None, None, LIFT, RestoreCheck(False, 0), id="an empty one in a directory with an old note"),
    ],
)
def test_it_is_as_its_notes_say(
    newest: int, reached: int | None, seen: int | None, lifted_with: Mark | None, found: RestoreCheck
):
    assert restore_check(newest, reached, seen, lifted_with, lambda mark: mark == LIFT and newest >= LIFT[0]) == found
