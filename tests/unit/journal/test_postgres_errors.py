"""What errors of PostgreSQL become, without a server."""

import pytest

from duenotice.errors import Damaged
from duenotice.journal.postgres_errors import told_plainly


def test_damage_is_told_once_even_if_it_passes_twice() -> None:
    with pytest.raises(Damaged) as caught, told_plainly("the database x"), told_plainly("the database x"):
        raise Damaged("record 3 is missing")
    assert caught.value.message == "the database x is not to be trusted: record 3 is missing"
