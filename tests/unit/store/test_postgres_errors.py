"""What errors of PostgreSQL become, without a server."""

import psycopg
import pytest

from duenotice.errors import Damaged, DuenoticeError, Misconfigured, Unavailable
from duenotice.store.postgres_errors import translated_errors


def test_damage_is_told_once_even_if_it_passes_twice() -> None:
    with pytest.raises(Damaged) as caught, translated_errors("the database x"), translated_errors("the database x"):
        raise Damaged("record 3 is missing")
    assert caught.value.message == "the database x is not to be trusted: record 3 is missing"


@pytest.mark.parametrize(
    ("words", "kind", "told"),
    [
        (
            'connection failed: connection to server on socket "/x/.s.PGSQL.5432" failed: FATAL:  '
            'password authentication failed for user "app"',
            Misconfigured,
            "the database x cannot be used: the password is wrong or missing "
            '(password authentication failed for user "app").',
        ),
        (
            "failed to resolve host 'db.invalid': [Errno -2] Name or service not known",
            Unavailable,
            "the database x cannot be used: nobody knows the name of its host (failed to resolve host 'db.invalid': "
            "[Errno -2] Name or service not known).",
        ),
        (
            'connection failed: connection to server at "127.0.0.1", port 1 failed: Connection refused\n'
            "\tIs the server running on that host and accepting TCP/IP connections?",
            Unavailable,
            "the database x cannot be used: it does not answer (Connection refused).",
        ),
    ],
    ids=["password", "name", "refused"],
)
def test_what_libpq_says_is_told_in_short(words: str, kind: type[DuenoticeError], told: str) -> None:
    """Where it is was said already, and at a start nothing goes on by itself."""
    with pytest.raises(kind) as caught, translated_errors("the database x", at_start=True):
        raise psycopg.OperationalError(words)
    assert caught.value.message == told
    assert "goes on by itself" not in caught.value.hint


def test_of_several_hosts_each_is_named() -> None:
    words = "\n".join(f'connection to server at "{host}", port 1 failed: Connection refused' for host in "ab")
    with pytest.raises(Unavailable, match=r'at "a".*at "b"') as caught, translated_errors("the database x"):
        raise psycopg.OperationalError(words)
    assert " right now: " in caught.value.message
